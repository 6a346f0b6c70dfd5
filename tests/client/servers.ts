import { createReadStream } from 'node:fs';
import { Client } from '@keelson/client';
import {
  allOf,
  type ImageFiles,
  type Probe,
  probeIncus,
  probePrograms,
  probeRoot,
  startDaemon,
  startIncus,
  startLxd,
  tinyImage,
} from '@keelson/testkit';

/** A server that the suites run against. */
export interface ServerKind {
  readonly name: 'Keelson' | 'LXD' | 'Incus';
  readonly probe: Probe;
  start(): Promise<{ readonly socket: string } & AsyncDisposable>;
}

export const servers: readonly ServerKind[] = [
  { name: 'Keelson', probe: probeRoot(), start: () => startDaemon() },
  { name: 'LXD', probe: allOf(probeRoot(), probePrograms('lxd', 'lxc-start')), start: () => startLxd() },
  { name: 'Incus', probe: await probeIncus(), start: startIncus },
];

/** A running server with a pool, a default profile with a root disk, an image, and a client. */
export class Fixture implements AsyncDisposable {
  readonly client: Client;
  readonly image: ImageFiles;
  readonly socket: string;
  readonly #server: AsyncDisposable;

  private constructor(client: Client, image: ImageFiles, server: { readonly socket: string } & AsyncDisposable) {
    this.client = client;
    this.image = image;
    this.socket = server.socket;
    this.#server = server;
  }

  static async start(kind: ServerKind): Promise<Fixture> {
    const [image, server] = await Promise.all([tinyImage(), kind.start()]);
    try {
      const client = new Client({ endpoint: `unix:${server.socket}` });
      await client.storagePools.create({ name: 'pool', driver: 'dir' });
      const profile = await client.profiles.get('default');
      await profile.put({ ...profile.record, devices: { root: { type: 'disk', path: '/', pool: 'pool' } } });
      const uploaded = await client.images.create(createReadStream(image.rootfs), {
        metadata: createReadStream(image.metadata),
      });
      await uploaded.addAlias('tiny');
      return new Fixture(client, image, server);
    } catch (error) {
      await server[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** Why a test that needs the extensions cannot run on this server; undefined when it can. */
  async lacks(...extensions: readonly string[]): Promise<string | undefined> {
    for (const name of extensions) if (!(await this.client.hasApiExtension(name))) return `lacks ${name}`;
    return undefined;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.client.close();
    await this.#server[Symbol.asyncDispose]();
  }
}
