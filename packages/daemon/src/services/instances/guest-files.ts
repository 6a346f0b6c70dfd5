import type { Readable } from 'node:stream';
import type { IdRange } from '../../drivers/instance/contract.ts';

/** A folder that is some guest's `/`, and how ids are stored in it. */
export interface GuestTree {
  readonly path: string;
  /** Host ids stand for guest ids shifted by this range; undefined when files carry guest ids. */
  readonly shift: IdRange | undefined;
}

export interface GuestFileInfo {
  readonly kind: 'file' | 'directory' | 'symlink';
  /** Guest ids; 65534 for what the guest cannot name. */
  readonly uid: number;
  readonly gid: number;
  /** Permission bits. */
  readonly mode: number;
  readonly size: number;
  readonly modified: Date;
}

export interface GuestFileOwner {
  readonly uid?: number | undefined;
  readonly gid?: number | undefined;
  readonly mode?: number | undefined;
}

/**
 * Files in a guest's tree. Every path is resolved as if the tree were the root, so that no link leaves it.
 * @throws not-found where a path does not exist, bad-request where the kind of file forbids the act.
 */
export interface GuestFiles {
  /** A link is not followed. */
  info(tree: GuestTree, path: string): Promise<GuestFileInfo>;
  /** Content of a regular file, links followed inside the tree. */
  read(tree: GuestTree, path: string): Promise<Readable>;
  readlink(tree: GuestTree, path: string): Promise<string>;
  list(tree: GuestTree, path: string): Promise<readonly string[]>;
  /** Creates or opens a file and fills it from `body`; owner and mode change only where given, or when it is new. */
  write(
    tree: GuestTree,
    path: string,
    body: Readable,
    options: GuestFileOwner & { readonly append: boolean },
  ): Promise<void>;
  /** No effect when the folder exists. */
  mkdir(tree: GuestTree, path: string, owner: GuestFileOwner): Promise<void>;
  symlink(tree: GuestTree, path: string, target: string, owner: GuestFileOwner): Promise<void>;
  /** A file, a link or an empty folder. */
  remove(tree: GuestTree, path: string): Promise<void>;
  /** Writes a small file owned by the guest's root, making missing folders; `createOnly`: keeps what is there. */
  put(tree: GuestTree, path: string, content: string, options: { readonly createOnly: boolean }): Promise<void>;
}
