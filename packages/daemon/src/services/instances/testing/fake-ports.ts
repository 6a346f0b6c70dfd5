import { Readable } from 'node:stream';
import { errors } from '../../../core/errors.ts';
import type { NicSpec } from '../../../drivers/instance/contract.ts';
import type { RootMount } from '../../../drivers/storage/contract.ts';
import type { ImageRecord } from '../../../state/records/image.ts';
import type { InstanceRecord } from '../../../state/records/instance.ts';
import type { BackupArchives, BackupPart, IncomingBackup } from '../backup-archives.ts';
import type { GuestFileInfo, GuestFiles, GuestTree } from '../guest-files.ts';
import type {
  ImageTemplates,
  InstanceImages,
  InstanceNetworks,
  InstanceStorage,
  InstanceVolumes,
  NativeSource,
  RootState,
  RootVolume,
} from '../ports.ts';

type Config = Readonly<Record<string, string>>;

/** Roots that exist in memory only. */
export class FakeStorage implements InstanceStorage {
  readonly pools = new Set(['pool', 'other']);
  /** `pool/project/name` → its snapshots. */
  readonly roots = new Map<string, string[]>();
  readonly mounted = new Set<string>();
  readonly sizes = new Map<string, number | undefined>();
  /** Set to make the next creation fail. */
  failCreate: Error | undefined;

  async createFromImage(root: RootVolume): Promise<void> {
    await this.createFilled(root);
  }

  async createFilled(root: RootVolume): Promise<void> {
    if (this.failCreate !== undefined) throw this.failCreate;
    this.roots.set(idOf(root), []);
  }

  async createFromStates(root: RootVolume, states: readonly Pick<RootState, 'snapshot'>[]): Promise<void> {
    await this.createFilled(root);
    this.roots.set(
      idOf(root),
      states.flatMap(({ snapshot }) => snapshot?.name ?? []),
    );
  }

  createFromNative(root: RootVolume, { snapshots }: NativeSource): Promise<void> {
    return this.createFromStates(
      root,
      snapshots.map((snapshot) => ({ snapshot })),
    );
  }

  async readBeside(): Promise<undefined> {}

  async freeze(root: RootVolume): Promise<{ readonly mount: RootMount } & AsyncDisposable> {
    return { mount: await this.mount(root), [Symbol.asyncDispose]: () => this.unmount(root) };
  }

  async hasNative(): Promise<boolean> {
    return false;
  }

  async nativeBackup(): Promise<undefined> {}

  async createWith(): Promise<void> {
    throw new Error('The fake storage has no pool');
  }

  async withRoot(): Promise<never> {
    throw new Error('The fake storage has no pool');
  }

  async copy(source: RootVolume, target: RootVolume, options: { snapshots: readonly string[] }): Promise<void> {
    if (!this.roots.has(idOf(source))) throw errors.notFound('No such root');
    this.roots.set(idOf(target), [...options.snapshots]);
  }

  async rename(root: RootVolume, newName: string): Promise<void> {
    const found = this.roots.get(idOf(root));
    if (found === undefined) throw errors.notFound('No such root');
    this.roots.delete(idOf(root));
    this.roots.set(idOf({ ...root, instance: newName }), found);
  }

  async delete(root: RootVolume): Promise<void> {
    this.roots.delete(idOf(root));
  }

  async mount(root: RootVolume): Promise<RootMount> {
    this.mounted.add(idOf(root));
    return { path: `/roots/${root.instance}`, ids: 'shifted' };
  }

  async unmount(root: RootVolume): Promise<void> {
    this.mounted.delete(idOf(root));
  }

  async usage(): Promise<number | undefined> {
    return undefined;
  }

  async resize(root: RootVolume, size: number | undefined): Promise<void> {
    this.sizes.set(idOf(root), size);
  }

  async snapshot(root: RootVolume, name: string): Promise<void> {
    this.roots.get(idOf(root))?.push(name);
  }

  async renameSnapshot(root: RootVolume, name: string, newName: string): Promise<void> {
    const snapshots = this.roots.get(idOf(root)) ?? [];
    snapshots[snapshots.indexOf(name)] = newName;
  }

  async deleteSnapshot(root: RootVolume, name: string): Promise<void> {
    this.roots.set(
      idOf(root),
      (this.roots.get(idOf(root)) ?? []).filter((other) => other !== name),
    );
  }

  /** Why no snapshot can be restored. */
  unrestorable: Error | undefined;

  async restoreSnapshot(): Promise<readonly string[]> {
    if (this.unrestorable !== undefined) throw this.unrestorable;
    return [];
  }

  mountSnapshot(root: RootVolume): Promise<RootMount> {
    return this.mount(root);
  }

  async unmountSnapshot(): Promise<void> {}

  poolExists(pool: string): boolean {
    return this.pools.has(pool);
  }
}

/** Every custom volume is there, with files. */
export class FakeVolumes implements InstanceVolumes {
  /** `pool/volume` */
  readonly mounted = new Set<string>();

  async mount(pool: string, _project: string, volume: string) {
    this.mounted.add(`${pool}/${volume}`);
    return { path: `/custom/${volume}`, block: false, shifted: false };
  }

  async unmount(pool: string, _project: string, volume: string): Promise<void> {
    this.mounted.delete(`${pool}/${volume}`);
  }

  exists(): boolean {
    return true;
  }

  isBlock(): boolean {
    return false;
  }

  isServers(): boolean {
    return false;
  }
}

function idOf(root: RootVolume): string {
  return `${root.pool}/${root.project}/${root.instance}`;
}

/** One image with the alias `tiny`. */
export class FakeImages implements InstanceImages {
  readonly image: ImageRecord = {
    project: 'default',
    fingerprint: 'f'.repeat(64),
    filename: 'tiny.tar',
    size: 1,
    type: 'container',
    split: false,
    architecture: 'x86_64',
    public: false,
    autoUpdate: false,
    cached: false,
    properties: { os: 'Tiny' },
    profiles: ['default'],
    createdAt: '',
    expiresAt: '',
    lastUsedAt: '',
    uploadedAt: '',
  };
  templatesOfImage: ImageTemplates = { metadata: {}, files: new Map() };

  async resolve(_project: string, source: Config): Promise<ImageRecord> {
    if (source['alias'] !== 'tiny') throw errors.notFound('Image alias not found');
    return this.image;
  }

  async touch(): Promise<void> {}

  async templates(): Promise<ImageTemplates> {
    return this.templatesOfImage;
  }
}

export class FakeNetworks implements InstanceNetworks {
  /** Prepared nics: `instance/device`. */
  readonly prepared = new Set<string>();

  validateNic(_project: string, device: Config): void {
    if (device['network'] !== 'net')
      throw errors.badRequest(
        `Failed to load network "${device['network'] ?? ''}" for project "default": Network not found`,
      );
  }

  async prepareNic(instance: InstanceRecord, device: string, config: Config, volatile: Config): Promise<NicSpec> {
    this.prepared.add(`${instance.name}/${device}`);
    return {
      device,
      name: config['name'] ?? volatile['name'] ?? '',
      kind: 'veth',
      link: config['network'] ?? '',
      hostName: volatile['host_name'] ?? '',
      hwaddr: volatile['hwaddr'] ?? '',
      mtu: undefined,
    };
  }

  async releaseNic(instance: InstanceRecord, device: string): Promise<void> {
    this.prepared.delete(`${instance.name}/${device}`);
  }

  async refreshReservations(): Promise<void> {}
}

/** Files in memory: `tree path` → content. */
export class FakeFiles implements GuestFiles {
  readonly files = new Map<string, string>();

  async info(tree: GuestTree, path: string): Promise<GuestFileInfo> {
    const content = this.files.get(`${tree.path}${path}`);
    if (content === undefined) throw errors.notFound('Not Found');
    return { kind: 'file', uid: 0, gid: 0, mode: 0o644, size: content.length, modified: new Date(0) };
  }

  async read(tree: GuestTree, path: string): Promise<Readable> {
    return Readable.from([this.files.get(`${tree.path}${path}`) ?? '']);
  }

  async readlink(): Promise<string> {
    return '';
  }

  async list(tree: GuestTree): Promise<readonly string[]> {
    return [...this.files.keys()].filter((path) => path.startsWith(tree.path));
  }

  async write(tree: GuestTree, path: string, body: Readable): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of body) chunks.push(Buffer.from(chunk));
    this.files.set(`${tree.path}${path}`, Buffer.concat(chunks).toString());
  }

  async mkdir(): Promise<void> {}
  async symlink(): Promise<void> {}

  async remove(tree: GuestTree, path: string): Promise<void> {
    if (!this.files.delete(`${tree.path}${path}`)) throw errors.notFound('Not Found');
  }

  async put(tree: GuestTree, path: string, content: string, options: { readonly createOnly: boolean }): Promise<void> {
    if (options.createOnly && this.files.has(`${tree.path}${path}`)) return;
    this.files.set(`${tree.path}${path}`, content);
  }
}

/** Backups in memory: path → the parts. */
export class FakeArchives implements BackupArchives {
  readonly files = new Map<string, { readonly index: string; readonly parts: readonly BackupPart[] }>();

  async write(
    target: string,
    content: { readonly index: string; readonly parts: readonly BackupPart[] },
  ): Promise<number> {
    this.files.set(target, content);
    return Buffer.byteLength(content.index);
  }

  async receive(content: AsyncIterable<Uint8Array>): Promise<IncomingBackup> {
    const chunks: Uint8Array[] = [];
    for await (const chunk of content) chunks.push(chunk);
    return {
      whiteouts: false,
      index: async () => Buffer.concat(chunks).toString('utf8'),
      text: async () => undefined,
      extract: async () => undefined,
      extractUnshifted: async () => undefined,
      open: async () => Readable.from([]),
      withTree: (_member, _range, use) => use('/tree'),
      [Symbol.asyncDispose]: async () => undefined,
    };
  }

  read(path: string): Readable {
    return Readable.from([Buffer.from(this.files.get(path)?.index ?? '')]);
  }

  async moveFolder(from: string, to: string): Promise<void> {
    for (const [path, content] of this.files) {
      if (!path.startsWith(`${from}/`)) continue;
      this.files.delete(path);
      this.files.set(`${to}${path.slice(from.length)}`, content);
    }
  }

  async removeFolder(path: string): Promise<void> {
    for (const file of this.files.keys()) if (file.startsWith(`${path}/`)) this.files.delete(file);
  }

  async size(path: string): Promise<number> {
    return this.files.get(path)?.index.length ?? 0;
  }

  async move(from: string, to: string): Promise<void> {
    const found = this.files.get(from);
    if (found === undefined) throw errors.notFound('No such backup');
    this.files.delete(from);
    this.files.set(to, found);
  }

  async remove(path: string): Promise<void> {
    this.files.delete(path);
  }
}
