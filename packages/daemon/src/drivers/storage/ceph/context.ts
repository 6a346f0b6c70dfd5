import type { KeyedQueue } from '../../../core/keyed-queue.ts';
import type { Log } from '../../../core/log.ts';
import type { RbdPlace } from '../../../host/tools/rbd.ts';
import type { RbdMapper } from '../../../host/tools/rbd-map.ts';
import type { Config } from './config.ts';
import type { RbdImages } from './images.ts';
import type { RbdLives } from './lives.ts';

/** What the parts of one `ceph` pool share. */
export interface CephContext {
  /** Folder of the pool's mount points. */
  readonly path: string;
  /** Mount points of what is being made, and notes of what a crash must not cut off. */
  readonly staging: string;
  readonly place: RbdPlace;
  readonly images: RbdImages;
  readonly lives: RbdLives;
  /** @throws unavailable when this host cannot map images. */
  readonly mapper: () => Promise<RbdMapper>;
  /** The pool's, as it is now. */
  readonly config: () => Config;
  /** What tells this server's passing images from those of others in the OSD pool. */
  readonly mark: () => string;
  /** One lane per volume. */
  readonly queue: KeyedQueue;
  readonly newId: () => string;
  readonly log: Log;
}
