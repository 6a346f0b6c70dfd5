import { PassThrough, type Readable } from 'node:stream';
import { runStream } from '../run-stream.ts';
import { ioctl } from '../syscalls.ts';
import { ioBoth, ioRead, withFolder } from './btrfs-ioctl.ts';

const SET_RECEIVED_SUBVOL = ioBoth(37, 200);
const GET_SUBVOL_INFO = ioRead(60, 504);
const DAY = 24 * 3_600_000;

/** What the file system knows of a subvolume; ids as 32 lower-case hex digits. */
export interface SubvolumeInfo {
  readonly uuid: string;
  /** Id of the subvolume this one was received from; undefined when it was not received, or written to since. */
  readonly receivedUuid: string | undefined;
  /** Transaction of the sender that it was received at; 0 when it was not received. */
  readonly sentAt: bigint;
  /** Transaction of its last change. */
  readonly changedAt: bigint;
}

export function subvolumeInfo(path: string): Promise<SubvolumeInfo> {
  return withFolder(path, async (fd) => {
    const buffer = Buffer.alloc(504);
    await ioctl(fd, GET_SUBVOL_INFO, buffer);
    const received = buffer.toString('hex', 328, 344);
    return {
      uuid: buffer.toString('hex', 296, 312),
      receivedUuid: /^0*$/.test(received) ? undefined : received,
      sentAt: buffer.readBigUInt64LE(360),
      changedAt: buffer.readBigUInt64LE(344),
    };
  });
}

/** Says what the writable subvolume was received from, so that a stream can name it as its parent. */
export async function setReceived(path: string, uuid: string, transaction: bigint): Promise<void> {
  await withFolder(path, (fd) => {
    const buffer = Buffer.alloc(200);
    buffer.write(uuid, 0, 'hex');
    buffer.writeBigUInt64LE(transaction, 16);
    return ioctl(fd, SET_RECEIVED_SUBVOL, buffer);
  });
}

/**
 * Stream of a read-only subvolume, as a difference from `parent` when given; it fails when the command does. `ended`
 * resolves, never rejects, once nothing reads the subvolume any more.
 */
export function sendSubvolume(
  path: string,
  options: {
    readonly parent?: string | undefined;
    readonly signal?: AbortSignal | undefined;
    readonly onBytes: (count: number) => void;
  },
): { readonly output: Readable; readonly ended: Promise<void> } {
  const output = new PassThrough({ highWaterMark: 1024 * 1024 });
  const stop = new AbortController();
  const signal = options.signal === undefined ? stop.signal : AbortSignal.any([options.signal, stop.signal]);
  output.once('close', () => stop.abort(new Error('the stream was closed')));
  const parent = options.parent === undefined ? [] : ['-p', options.parent];
  const copy = async (from: Readable) => {
    for await (const chunk of from as AsyncIterable<Buffer>) {
      options.onBytes(chunk.length);
      if (!output.write(chunk)) await drained(output);
    }
  };
  const ended = runStream('btrfs', ['-q', 'send', ...parent, '--', path], { signal, timeout: DAY, stdout: copy }).then(
    () => void output.end(),
    (error: unknown) => void output.destroy(error instanceof Error ? error : new Error(String(error))),
  );
  return { output, ended };
}

/** Resolves when the stream takes more, or none any more. */
function drained(output: PassThrough): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      output.off('drain', done).off('close', done);
      resolve();
    };
    if (output.destroyed) resolve();
    else output.on('drain', done).on('close', done);
  });
}

/**
 * Reads one stream into a new subvolume of `folder`, which must be the root of a mount: the command cannot leave it,
 * whatever the stream says.
 */
export async function receiveSubvolume(folder: string, stdin: Readable, signal?: AbortSignal): Promise<void> {
  await runStream('btrfs', ['-q', 'receive', '--chroot', '--', folder], {
    stdin,
    timeout: DAY,
    ...(signal === undefined ? {} : { signal }),
  });
}
