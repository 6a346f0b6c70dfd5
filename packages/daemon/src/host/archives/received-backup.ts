import { createWriteStream } from 'node:fs';
import { chown, mkdtemp, open, rm } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { PassThrough, type Readable, Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { errors } from '../../core/errors.ts';
import { copyTree } from '../files.ts';
import { CommandError } from '../run.ts';
import { runStream } from '../run-stream.ts';
import { digHoles } from '../tools/fallocate.ts';
import { catTar, extractTar, listTar, packTar, type TarFile } from '../tools/tar.ts';
import { BackupCheck, INDEX } from './backup-check.ts';
import { displayName } from './entries.ts';
import { formatOfFile } from './format.ts';

const MIB = 1024 ** 2;

/** A backup whose every entry was checked. */
export class ReceivedBackup implements AsyncDisposable {
  readonly #folder: string;
  readonly #tar: TarFile;
  #kept: AsyncDisposable | undefined;

  /** Plain files next to the volumes' folders: streams and block images. */
  readonly #files: ReadonlyMap<string, number>;
  /** Whether it holds devices 0,0, with which overlays hide files. */
  readonly whiteouts: boolean;
  /** Large files inside volumes, as the archive names them. */
  readonly #large: readonly string[];
  readonly #acls: 'text' | 'attributes';

  private constructor(folder: string, tar: TarFile, check: BackupCheck) {
    const { files, whiteouts, large } = check;
    this.#large = large;
    this.#acls = check.textAcls ? 'text' : 'attributes';
    this.#folder = folder;
    this.#tar = tar;
    this.#files = files;
    this.whiteouts = whiteouts;
  }

  static async check(folder: string, path: string): Promise<ReceivedBackup> {
    const format = await formatOfFile(path);
    if (format.kind !== 'tar') throw errors.badRequest('Unsupported compression');
    const tar = { path, compression: format.compression };
    const check = new BackupCheck();
    try {
      await listTar(tar, (line) => check.add(line));
    } catch (error) {
      if (error instanceof Error && error.name === 'KeelsonError') throw error;
      throw errors.badRequest('The backup is damaged or ends early', error);
    }
    if (!check.hasIndex) throw errors.badRequest('Backup is missing at "backup/index.yaml"');
    return new ReceivedBackup(folder, tar, check);
  }

  /** Text of index.yaml. */
  async index(): Promise<string> {
    const chunks: Buffer[] = [];
    const sink = new Writable({
      write: (chunk: Buffer, _encoding, done) => {
        chunks.push(chunk);
        done();
      },
    });
    await catTar(this.#tar, [INDEX], sink);
    return Buffer.concat(chunks).toString('utf8');
  }

  /** Text of a small file member; undefined when it is not in the backup. */
  async text(member: string): Promise<string | undefined> {
    const chunks: Buffer[] = [];
    let length = 0;
    const sink = new Writable({
      write: (chunk: Buffer, _encoding, done) => {
        length += chunk.length;
        chunks.push(chunk);
        done(length > MIB ? errors.badRequest(`"${member}" in the backup is too long`) : null);
      },
    });
    try {
      await catTar(this.#tar, [member], sink);
    } catch (error) {
      if (error instanceof CommandError) return undefined;
      throw error;
    }
    return Buffer.concat(chunks).toString('utf8');
  }

  /**
   * As `extract`, for members that carry host ids of `idRange` where guest ids are wanted. The tree passes through a
   * user namespace once more, so that attributes that hold ids follow.
   */
  async extractUnshifted(
    member: string,
    target: string,
    idRange: { readonly base: number; readonly size: number },
    signal?: AbortSignal,
  ): Promise<void> {
    const options = signal === undefined ? {} : { signal };
    await this.withExtracted(
      member,
      async (folder) => {
        await chown(folder, idRange.base, idRange.base); // the packing process has the guest's ids
        const path = join(this.#folder, 'unshifted.tar');
        await packTar(folder, { prefix: 'tree', idRange, ...options }, (output) =>
          pipeline(output, createWriteStream(path)),
        );
        await extractTar({ path, compression: 'none' }, target, { strip: 1, ...options });
        await rm(path);
      },
      signal,
    );
  }

  /** Content of a folder member into an existing folder. @throws bad-request when it is not in the backup. */
  async extract(member: string, target: string, signal?: AbortSignal): Promise<void> {
    const strip = member.split('/').length;
    await this.#reading(
      member,
      extractTar(this.#tar, target, {
        acls: this.#acls,
        members: [member],
        strip,
        ...(signal === undefined ? {} : { signal }),
      }),
    );
    await this.#digHoles(member, target, signal);
    await this.#reading(member, this.#restoreRoot(member, target));
  }

  /** LXD's tarballs do not tell holes: long runs of zeros become some. */
  async #digHoles(member: string, target: string, signal: AbortSignal | undefined): Promise<void> {
    for (const name of this.#large) {
      if (name.startsWith(`${member}/`)) await digHoles(target, name.slice(member.length + 1), signal);
    }
  }

  /** The member itself falls away with its name: what it has becomes that of `target`. */
  async #restoreRoot(member: string, target: string): Promise<void> {
    const folder = await mkdtemp(join(this.#folder, 'root-'));
    try {
      const acls = this.#acls === 'text' ? ['--acls'] : ['--xattrs-include=system.posix_acl_*'];
      const args = ['--extract', '--file', this.#tar.path, '--force-local', '--numeric-owner', '--same-owner', ...acls];
      const only = ['--xattrs', '--xattrs-include=user.*', '--same-permissions', '--no-recursion', '--no-wildcards'];
      await runStream('tar', [...args, ...only, '--occurrence=1', '--directory', folder, '--', member]);
      await copyTree(join(folder, member), target);
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  }

  /** Extracts into a scratch folder that lives while `use` runs. */
  async withExtracted<T>(member: string, use: (folder: string) => Promise<T>, signal?: AbortSignal): Promise<T> {
    const folder = await mkdtemp(join(this.#folder, 'tree-'));
    try {
      await this.extract(member, folder, signal);
      return await use(folder);
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  }

  /** Bytes of a file member; undefined when it is not in the backup. */
  sizeOf(member: string): number | undefined {
    return this.#files.get(member);
  }

  /** Content of a file member. @throws bad-request when it is not in the backup. */
  async open(member: string): Promise<Readable> {
    if (!this.#files.has(member)) throw errors.badRequest(`The backup lacks "${displayName(member)}"`);
    const out = new PassThrough({ highWaterMark: 256 * 1024 });
    catTar(this.#tar, [member], out).catch((error: unknown) =>
      out.destroy(error instanceof Error ? error : new Error(String(error))),
    );
    return out;
  }

  /** As `withExtracted`; `idRange` as `extractUnshifted` takes it. */
  async withTree<T>(
    member: string,
    idRange: { readonly base: number; readonly size: number } | undefined,
    use: (folder: string) => Promise<T>,
    signal?: AbortSignal,
  ): Promise<T> {
    if (idRange === undefined) return this.withExtracted(member, use, signal);
    const folder = await mkdtemp(join(this.#folder, 'guest-'));
    try {
      await this.extractUnshifted(member, folder, idRange, signal);
      return await use(folder);
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  }

  /** Content of a file member over an existing file. */
  async extractFile(member: string, target: string): Promise<void> {
    await using file = await open(target, 'r+');
    const device = (await file.stat()).isBlockDevice();
    if (!device) await file.truncate(0);
    // The stream closes the file: a handle with a stream that stays open never closes.
    await this.#reading(member, catTar(this.#tar, [member], file.createWriteStream({ start: 0 })));
    if (!device) await digHoles(dirname(target), basename(target));
  }

  /** Takes over what goes with it. */
  closes(kept: AsyncDisposable): void {
    this.#kept = kept;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#kept?.[Symbol.asyncDispose]();
  }

  async #reading(member: string, work: Promise<unknown>): Promise<void> {
    try {
      await work;
    } catch (error) {
      if (error instanceof Error && error.name === 'CommandError')
        throw errors.badRequest(`Cannot read "${member}" from the backup`, error);
      throw error;
    }
  }
}
