import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ManualClock } from '../../core/clock.ts';
import { isKeelsonError, type ErrorCode } from '../../core/errors.ts';
import { randomIds } from '../../core/ids.ts';
import { silentLog } from '../../core/log.ts';
import type { Collection, Ledger } from '../../state/collection.ts';
import { createLedger } from '../../state/ledger.ts';
import { MemoryStore } from '../../state/memory/memory-store.ts';
import type { CertificateRecord } from '../../state/records/certificate.ts';
import type { InstanceRecord } from '../../state/records/instance.ts';
import type { ProjectRecord } from '../../state/records/project.ts';
import type { Caller } from '../certificates/caller.ts';
import type { Event } from '../events/contract.ts';
import { EventService } from '../events/event-service.ts';
import { OperationService } from '../operations/operation-service.ts';
import { RecordProjectGuard } from './project-guard.ts';
import { ProjectService } from './project-service.ts';
import type { ProjectMembers } from './project-usage.ts';

let ledger: Ledger;
let members: ProjectMembers;
let certificates: Collection<CertificateRecord>;
let guard: RecordProjectGuard;
let projects: ProjectService;
let seen: Event[];

beforeEach(async () => {
  ledger = await createLedger(new MemoryStore());
  members = {
    instances: ledger.collection('/instances/'),
    profiles: ledger.collection('/profiles/'),
    images: ledger.collection('/images/'),
    storageVolumes: ledger.collection('/storage-volumes/'),
    networks: ledger.collection('/networks/'),
  };
  certificates = ledger.collection('/certificates/');
  const records = ledger.collection<ProjectRecord>('/projects/');
  const clock = new ManualClock();
  const events = new EventService({ clock });
  seen = [];
  events.subscribe((event) => seen.push(event), { types: ['lifecycle'] });
  const operations = new OperationService({ events, clock, ids: randomIds, log: silentLog });
  guard = new RecordProjectGuard(records, members);
  projects = new ProjectService({ ledger, projects: records, certificates, members, guard, operations, events });
  await projects.ensureDefault();
});
afterEach(async () => {
  await ledger[Symbol.asyncDispose]();
});

const admin: Caller = {
  kind: 'unix',
  projects: [],
  requestor: { username: 'root', protocol: 'unix', address: '@' },
  certificate: undefined,
  fingerprint: '',
};
const ofKind = (code: ErrorCode, text: string) => (error: unknown) =>
  isKeelsonError(error, code) && error.message.includes(text);
const instance = (project: string, name: string, more: Partial<InstanceRecord> = {}): InstanceRecord => ({
  project,
  name,
  type: 'container',
  architecture: 'x86_64',
  description: '',
  ephemeral: false,
  stateful: false,
  config: {},
  devices: {},
  profiles: ['default'],
  createdAt: '',
  lastUsedAt: '',
  pool: 'p',
  ...more,
});
const addInstance = (project: string, name: string, more: Partial<InstanceRecord> = {}) =>
  members.instances.create(`${project}/${name}`, instance(project, name, more));
const actions = () => seen.map(({ metadata, project }) => `${(metadata as { action: string }).action} ${project}`);

describe('projects', () => {
  it('have a default one, made once, with everything its own', async () => {
    await projects.ensureDefault();
    expect(projects.list(admin).urls()).toEqual(['/1.0/projects/default']);
    expect(projects.get('default').project.config).toEqual({
      'features.images': 'true',
      'features.networks': 'true',
      'features.profiles': 'true',
      'features.storage.volumes': 'true',
    });
  });

  it('are created with features and a default profile', async () => {
    expect(await projects.create({ name: 'p1', config: { 'user.x': 'y' } }, { requestor: admin.requestor })).toBe(
      '/1.0/projects/p1',
    );
    const { project, etag } = projects.get('p1');
    const config = {
      'features.images': 'true',
      'features.profiles': 'true',
      'features.storage.volumes': 'true',
      'user.x': 'y',
    };
    expect(project).toEqual({ name: 'p1', description: '', config, used_by: ['/1.0/profiles/default?project=p1'] });
    expect(etag).toEqual(['', config]);
    expect(members.profiles.get('p1/default')?.value.description).toBe('Default Keelson profile for project p1');
    await projects.create({ name: 'p2', config: { 'features.profiles': 'false' } });
    expect(projects.get('p2').project.used_by).toEqual([]);
    expect(
      projects
        .list(admin)
        .json()
        .map((text) => JSON.parse(text) as unknown)[1],
    ).toEqual(project);
    expect(actions()).toEqual(['project-created p1', 'project-created p2']);
    expect(seen[0]?.metadata).toMatchObject({ source: '/1.0/projects/p1', requestor: { username: 'root' } });
  });

  it.each([
    ['', 'No name provided'],
    ['a/b', 'may not contain slashes'],
    ['a b', 'may not contain spaces'],
    ['a_b', 'may not contain underscores'],
    ["a'b", 'may not contain quotes'],
    ['*', 'Reserved project name'],
    ['..', 'Invalid project name ".."'],
    ['x'.repeat(300), 'Invalid project name'],
    ['a\nb', 'Invalid project name'],
  ])('cannot be called %j', async (name, text) => {
    await expect(projects.create({ name })).rejects.toSatisfy(ofKind('bad-request', text));
  });

  it('refuse a taken name and bad config', async () => {
    await projects.create({ name: 'p1' });
    await expect(projects.create({ name: 'p1' })).rejects.toSatisfy(ofKind('conflict', 'already exists'));
    const create = (config: Record<string, string>) => projects.create({ name: 'p2', config });
    await expect(create({ foo: 'bar' })).rejects.toSatisfy(
      ofKind('bad-request', 'Invalid project configuration key "foo"'),
    );
    await expect(create({ 'features.images': 'maybe' })).rejects.toSatisfy(ofKind('bad-request', '"maybe"'));
    await expect(create({ restricted: 'true', 'features.profiles': 'false' })).rejects.toSatisfy(
      ofKind('bad-request', 'Projects without their own profiles cannot be restricted'),
    );
  });

  it('are replaced by put and added to by patch, under a precondition', async () => {
    await projects.create({ name: 'p1', description: 'd' });
    await projects.patch('p1', { config: { 'user.a': '1' } });
    expect(projects.get('p1').project).toMatchObject({
      description: 'd',
      config: { 'user.a': '1', 'features.images': 'true' },
    });
    await projects.put('p1', { config: { 'user.b': '', 'user.c': '1' } });
    expect(projects.get('p1').project).toMatchObject({ description: '', config: { 'user.c': '1' }, used_by: [] });
    const refuse = () => {
      throw new Error('changed');
    };
    await expect(projects.put('p1', {}, { precondition: refuse })).rejects.toThrow('changed');
    await expect(projects.put('none', {})).rejects.toSatisfy(ofKind('not-found', 'Project not found'));
    expect(actions().slice(1)).toEqual(['project-updated p1', 'project-updated p1']);
  });

  it('keep their features while they are in use', async () => {
    await projects.create({ name: 'p1', config: { 'features.images': 'false' } });
    await projects.patch('p1', { config: { 'features.images': 'true' } });
    await addInstance('p1', 'c1');
    const disable = projects.patch('p1', { config: { 'features.profiles': 'false' } });
    await expect(disable).rejects.toSatisfy(
      ofKind('bad-request', 'Project feature "features.profiles" cannot be disabled on non-empty projects'),
    );
    await projects.patch('p1', { config: { 'features.networks': 'true' } });
    await members.instances.delete('p1/c1');
    await projects.patch('p1', { config: { 'features.profiles': 'false' } });
    expect(members.profiles.get('p1/default')).toBeUndefined();
    await addInstance('p1', 'c1');
    const enable = projects.patch('p1', { config: { 'features.profiles': 'true' } });
    await expect(enable).rejects.toSatisfy(ofKind('bad-request', 'cannot be enabled on non-empty projects'));
    await expect(projects.patch('default', { config: { 'features.images': 'false' } })).rejects.toSatisfy(
      ofKind('bad-request', "You can't change the features of the default project"),
    );
    await projects.patch('default', { config: { 'user.x': 'y' } });
  });

  it('are renamed and deleted when they are empty, and the rights on them go along', async () => {
    await projects.create({ name: 'p1' });
    const certificate = {
      fingerprint: 'f',
      name: 'n',
      type: 'client',
      restricted: true,
      projects: ['x', 'p1'],
      certificate: '',
    } as const;
    await certificates.create('f', certificate);
    await addInstance('p1', 'c1');
    expect((await projects.rename('p1', 'p2').done).err).toBe('Only empty projects can be renamed');
    await expect(projects.delete('p1')).rejects.toSatisfy(ofKind('bad-request', 'Only empty projects can be removed'));
    await members.instances.delete('p1/c1');
    expect((await projects.rename('p1', 'default').done).err).toBe('A project named "default" already exists');
    expect((await projects.rename('p1', 'a/b').done).err).toBe('Project names may not contain slashes');
    expect(await projects.rename('p1', 'p2').done).toMatchObject({
      status: 'Success',
      description: 'Renaming project',
      resources: null,
    });
    expect(projects.get('p2').project.used_by).toEqual(['/1.0/profiles/default?project=p2']);
    expect(projects.exists('p1')).toBe(false);
    expect(certificates.get('f')?.value.projects).toEqual(['x', 'p2']);
    await projects.delete('p2');
    expect(certificates.get('f')?.value.projects).toEqual(['x']);
    expect(members.profiles.list()).toEqual([]);
    expect(seen.find(({ metadata }) => (metadata as { action: string }).action === 'project-renamed')).toMatchObject({
      project: 'p2',
      metadata: { source: '/1.0/projects/p2', context: { old_name: 'p1' } },
    });
    expect(() => projects.rename('default', 'p3')).toThrow("The 'default' project cannot be renamed");
    await expect(projects.delete('default')).rejects.toSatisfy(ofKind('unauthorized', 'cannot be deleted'));
    await expect(projects.delete('none')).rejects.toSatisfy(ofKind('not-found', 'Project not found'));
  });

  it('say where their objects live', async () => {
    await projects.create({ name: 'p1', config: { 'features.images': 'false', 'features.profiles': 'yes' } });
    const kinds = ['instances', 'images', 'profiles', 'volumes', 'networks'] as const;
    expect(kinds.map((kind) => projects.projectFor('p1', kind))).toEqual(['p1', 'default', 'p1', 'p1', 'default']);
    expect(kinds.map((kind) => projects.projectFor('default', kind))).toEqual(Array(5).fill('default'));
    expect(() => projects.projectFor('nope', 'images')).toThrow('Failed loading project "nope": Project not found');
  });

  it('show a restricted caller only those it may use', async () => {
    await projects.create({ name: 'p1' });
    const restricted: Caller = { ...admin, kind: 'restricted', projects: ['p1'] };
    expect(projects.list(restricted).urls()).toEqual(['/1.0/projects/p1']);
    expect(projects.list(restricted).version).not.toBe(projects.list(admin).version);
    const before = projects.list(admin).version;
    await addInstance('p1', 'c1');
    expect(projects.list(admin).version).not.toBe(before);
    expect(projects.state('p1').resources['instances']).toEqual({ Limit: -1, Usage: 1 });
  });
});

describe('the guard', () => {
  it('holds instances with their profiles against limits and restrictions', async () => {
    await projects.create({
      name: 'p1',
      config: { 'limits.instances': '1', 'limits.memory': '1GiB', restricted: 'true' },
    });
    await members.profiles.update('p1/default', (profile) => ({ ...profile, config: { 'limits.memory': '600MiB' } }));
    const wanted = instance('p1', 'c1');
    guard.checkInstance(wanted);
    await addInstance('p1', 'c1');
    guard.checkInstance(wanted);
    expect(() => guard.checkInstance(instance('p1', 'c2'))).toThrow('Reached maximum number of instances');
    expect(() => guard.checkInstance({ ...wanted, config: { 'limits.memory': '2GiB' } })).toThrow(
      'Reached maximum aggregate value',
    );
    expect(() => guard.checkInstance({ ...wanted, config: { 'security.nesting': 'true' } })).toThrow(
      'nesting is forbidden',
    );
    guard.checkInstance(instance('default', 'c9', { config: { 'security.nesting': 'true' } }));
  });

  it('holds a profile against every project whose instances use it', async () => {
    await projects.create({ name: 'p1', config: { restricted: 'true' } });
    const profile = {
      project: 'p1',
      name: 'default',
      description: '',
      config: { 'security.privileged': 'true' },
      devices: {},
    };
    guard.checkProfile(profile);
    await addInstance('p1', 'c1');
    expect(() => guard.checkProfile(profile)).toThrow('Privileged containers are forbidden');
    guard.checkProfile({ ...profile, project: 'default' });
    guard.checkProfile({ ...profile, name: 'other' });
  });

  it('does not let a project become restricted around what it would forbid', async () => {
    await projects.create({ name: 'p1' });
    await addInstance('p1', 'c1', { config: { 'security.nesting': 'true' } });
    await expect(projects.patch('p1', { config: { restricted: 'true' } })).rejects.toSatisfy(
      ofKind('unauthorized', 'nesting is forbidden'),
    );
    await projects.patch('p1', { config: { restricted: 'true', 'restricted.containers.nesting': 'allow' } });
    expect(() => guard.checkSnapshot('p1')).toThrow(`Project "p1" doesn't allow for snapshot creation`);
    expect(() => guard.checkBackup('p1')).toThrow(`Project "p1" doesn't allow for backup creation`);
    guard.checkSnapshot('default');
  });

  it('counts networks and volumes', async () => {
    await projects.create({ name: 'p1', config: { 'limits.networks': '0', 'limits.disk': '1GiB' } });
    expect(() => guard.checkNewNetwork('p1')).toThrow('Reached maximum number of networks in project "p1"');
    const volume = (size: number | undefined) => ({ pool: 'p', name: 'data', size });
    guard.checkVolume('p1', volume(1024 ** 3));
    expect(() => guard.checkVolume('p1', volume(undefined))).toThrow('has no "size" config set');
    expect(() => guard.checkVolume('p1', volume(1024 ** 3 + 1))).toThrow(
      'Reached maximum aggregate value "1GiB" for "limits.disk"',
    );
    guard.checkNewNetwork('default');
  });
});
