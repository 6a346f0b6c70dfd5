import type { Readable, Writable } from 'node:stream';
import type { IdRange } from '../../drivers/storage/contract.ts';

/** The two directions of a connection. */
export interface Wire {
  readonly incoming: Readable;
  readonly outgoing: Writable;
}

/** What moving trees between servers needs of the host. */
export interface TransferTools {
  /** Content of `source` to the receiver at the other end of `wire`. */
  sendTree(
    source: string,
    wire: Wire,
    options: { readonly features: readonly string[]; readonly bwlimit: string; readonly signal: AbortSignal },
  ): Promise<void>;
  /** What the sender has into folder `name` of `jail`; nothing outside of it can be reached. */
  receiveTree(
    jail: string,
    name: string,
    wire: Wire,
    options: { readonly features: readonly string[]; readonly signal: AbortSignal },
  ): Promise<void>;
  /** Makes an empty folder a jail; resolves with the mounts that are to be undone. */
  prepareJail(jail: string): Promise<readonly string[]>;
  /** `source` shows up at the existing folder `target`; with `unshift` host ids of that range as guest ids. */
  bind(
    source: string,
    target: string,
    options: { readonly readOnly: boolean; readonly unshift?: IdRange | undefined },
  ): Promise<void>;
  unmount(target: string): Promise<void>;
  /** Makes `target` hold what `source` holds. */
  mirror(source: string, target: string, signal: AbortSignal): Promise<void>;
  /** A small plain file below a folder whose content a guest may have made; undefined when there is none. */
  readSmall(folder: string, path: string): Promise<string | undefined>;
}
