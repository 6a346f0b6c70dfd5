import type * as api from '@keelson/api';
import { describe, expectTypeOf, it } from 'vitest';
import type {
  ApiNode,
  Certificate,
  Client,
  ClusterMember,
  EventOf,
  Image,
  Instance,
  Network,
  NotFound,
  APIException,
  ClientError,
  Profile,
  Project,
  ServerEvent,
  Snapshot,
  Sparse,
  StoragePool,
  StorageVolume,
} from './index.ts';

// Checked by the compiler: every field of a record is an attribute of its model, and of a sparse object a promise.
describe('types', () => {
  it('models have every field of their records', () => {
    expectTypeOf<Exclude<keyof api.StoragePool, keyof StoragePool>>().toBeNever();
    expectTypeOf<Exclude<keyof api.StorageVolume, keyof StorageVolume>>().toBeNever();
    expectTypeOf<Exclude<keyof api.Instance, keyof Instance | 'restore'>>().toBeNever();
    expectTypeOf<Exclude<keyof api.InstanceSnapshot, keyof Snapshot>>().toBeNever();
    expectTypeOf<Exclude<keyof api.Image, keyof Image>>().toBeNever();
    expectTypeOf<Exclude<keyof api.Network, keyof Network>>().toBeNever();
    expectTypeOf<Exclude<keyof api.Profile, keyof Profile>>().toBeNever();
    expectTypeOf<Exclude<keyof api.Project, keyof Project>>().toBeNever();
    expectTypeOf<Exclude<keyof api.Certificate, keyof Certificate>>().toBeNever();
    expectTypeOf<Exclude<keyof api.ClusterMember, keyof ClusterMember>>().toBeNever();
  });

  it('config keys complete, and take text only', () => {
    const set = (pool: StoragePool, instance: Instance): void => {
      pool.config['rsync.bwlimit'] = '10MB';
      instance.config = { 'limits.cpu': '2', 'user.anything': 'x' };
      // @ts-expect-error a value is text
      instance.config = { 'limits.cpu': 2 };
    };
    expectTypeOf(set).toBeFunction();
    expectTypeOf<'rsync.bwlimit'>().toExtend<keyof StoragePool['config']>();
    expectTypeOf<'limits.memory'>().toExtend<keyof Instance['config']>();
  });

  it('attributes of sparse objects are promises, the rest is there', () => {
    type Pool = Sparse<StoragePool, 'name'>;
    expectTypeOf<Pool['name']>().toEqualTypeOf<string>();
    expectTypeOf<Pool['driver']>().toEqualTypeOf<Promise<string>>();
    expectTypeOf<Pool['config']>().toEqualTypeOf<Promise<api.StoragePool['config']>>();
    expectTypeOf<Pool['path']>().toEqualTypeOf<string>();
    expectTypeOf<Pool['populated']>().toEqualTypeOf<boolean>();
    expectTypeOf<Pool['volumes']>().toEqualTypeOf<StoragePool['volumes']>();
    expectTypeOf<Awaited<ReturnType<Client['storagePools']['all']>>[number]['description']>().toEqualTypeOf<string>();
    const sparse = (client: Client) => client.storagePools.all();
    expectTypeOf<Awaited<ReturnType<typeof sparse>>[number]['description']>().toEqualTypeOf<Promise<string>>();
  });

  it('read-only attributes cannot be set, writable ones can', () => {
    const set = (pool: StoragePool): void => {
      pool.description = 'new';
      // @ts-expect-error a pool's driver never changes
      pool.driver = 'btrfs';
      // @ts-expect-error a description is text
      pool.description = 1;
    };
    expectTypeOf(set).toBeFunction();
  });

  it('calls are checked', () => {
    const calls = async (client: Client): Promise<void> => {
      await client.storagePools.create({ name: 'a', driver: 'dir' });
      // @ts-expect-error a pool needs a driver
      await client.storagePools.create({ name: 'a' });
      // @ts-expect-error there is no such manager
      await client.pools.all();
      // @ts-expect-error recursion is 1
      await client.profiles.all({ recursion: 7 });
      // @ts-expect-error events have these types only
      client.events({ types: ['lifecycles'] });
    };
    expectTypeOf(calls).toBeFunction();
  });

  it('an event tells by its type what its metadata is', () => {
    expectTypeOf<Extract<ServerEvent, { type: 'operation' }>>().toEqualTypeOf<EventOf<'operation'>>();
    expectTypeOf<EventOf<'operation'>['metadata']>().toEqualTypeOf<api.Operation>();
    expectTypeOf<EventOf<'lifecycle'>['metadata']['action']>().toEqualTypeOf<string>();
  });

  it('the low-level api is typed by the route table', () => {
    const calls = async ({ api }: Client): Promise<void> => {
      const { json } = await api.instances.part('c1').get();
      expectTypeOf((await json()).metadata).toEqualTypeOf<api.Instance | api.InstanceFull>();
      expectTypeOf(await (await api.get()).json()).toExtend<{ metadata: api.Server | api.ServerUntrusted }>();
      expectTypeOf((await (await api.profiles.get()).json()).metadata).toEqualTypeOf<string[]>();
      const records = await api.profiles.get({ query: { recursion: 1 } });
      expectTypeOf((await records.json()).metadata).toEqualTypeOf<api.Profile[]>();
      const pool = await api['storage-pools'].part('p1').resources.get();
      expectTypeOf((await pool.json()).metadata).toEqualTypeOf<api.ResourcesStoragePool>();
      const started = await api.containers.part('c1').state.put({ json: { action: 'start' } });
      expectTypeOf((await started.json()).metadata).toEqualTypeOf<api.Operation>();
      const alias = await api.images.aliases.part('a').get();
      expectTypeOf((await alias.json()).metadata).toEqualTypeOf<api.ImageAliasesEntry>();
      // @ts-expect-error a state change needs an action
      await api.instances.part('c1').state.put({ json: {} });
      // @ts-expect-error a profile has no such field
      await api.profiles.part('p').patch({ json: { configs: {} } });
      // @ts-expect-error records have their fields only
      void (await json()).metadata.colour;
    };
    expectTypeOf(calls).toBeFunction();
  });

  it('paths that the API does not name are unknown, not forbidden', () => {
    const calls = async ({ api }: Client): Promise<void> => {
      const answer = await api
        .part('network-acls')
        .part('web')
        .put({ json: { anything: 1 }, query: { x: 1 } });
      expectTypeOf((await answer.json()).metadata).toBeUnknown();
      expectTypeOf(await answer.json<{ mine: true }>()).toEqualTypeOf<{ mine: true }>();
      expectTypeOf(api.instances).toEqualTypeOf<ApiNode<'/1.0/instances'>>();
      expectTypeOf(api.profiles['x']).toEqualTypeOf<ApiNode<'/1.0/profiles/:name'> | undefined>();
    };
    expectTypeOf(calls).toBeFunction();
  });

  it('errors are one hierarchy', () => {
    expectTypeOf<NotFound>().toExtend<APIException>();
    expectTypeOf<APIException>().toExtend<ClientError>();
    expectTypeOf<ClientError>().toExtend<Error>();
  });
});
