import { unmountAll } from '../../../host/mounts.ts';
import { shiftOwners } from '../../../host/owner-shift.ts';
import { moduleVersion } from '../../../host/tools/zfs.ts';
import { syncMounted } from '../../../host/tools/block-fs.ts';
import { rootIn } from '../common/plain-content.ts';
import { readSmallFile, writeSmallFiles } from '../common/small-files.ts';
import type { IdRange } from '../contract.ts';
import type { ZfsContext } from './context.ts';
import { isGuard, SHIFT } from './names.ts';
import { destroy, rollback, snapshot as takeSnapshot } from './plan.ts';

/** The first whose mounts map ids. */
const MAPPING = [2, 2] as const;

/** Whether a mount can show other ids than files have. `version`: of the kernel's part; undefined when it does not tell. */
export function mapsIds(version: string | undefined): boolean {
  const [major = 0, minor = 0] = (version ?? MAPPING.join('.')).split('.').map(Number);
  return major > MAPPING[0] || (major === MAPPING[0] && minor >= MAPPING[1]);
}

export async function mountsMapIds(): Promise<boolean> {
  return mapsIds(await moduleVersion());
}

/** File beside a `rootfs` that tells whose ids its files have; without it they have the guest's. */
const MARK = '.keelson-owners';
const PLAIN = '';

/**
 * Owners of roots where mounts cannot map ids (ZFS before 2.2): files have the host ids of the range their guest had
 * last. The mark lies in the dataset, so that snapshots, clones, copies and streams each tell of themselves.
 */
export class ShiftedOwners {
  readonly #pool: Pick<ZfsContext, 'datasets' | 'newId'>;

  constructor(pool: Pick<ZfsContext, 'datasets' | 'newId'>) {
    this.#pool = pool;
  }

  /** The range whose host ids the root in `path` has; undefined: guest ids. */
  async of(path: string): Promise<IdRange | undefined> {
    return rangeIn((await readSmallFile(path, MARK)) ?? PLAIN);
  }

  /**
   * Gives the root of `dataset`, mounted at `path`, the ids of `wanted`. All or nothing: a snapshot brings back what was
   * when it fails, and `finish` when it was cut off.
   */
  async settle(dataset: string, path: string, wanted: IdRange | undefined): Promise<void> {
    const current = await this.of(path);
    if (isSameRange(current, wanted)) return;
    const { datasets, newId } = this.#pool;
    const root = await rootIn(path);
    const guard = `${dataset}@${SHIFT}${newId()}`;
    await datasets.run(takeSnapshot(guard));
    try {
      if (current !== undefined) await shiftOwners(root, { from: current.base, to: 0, size: current.size });
      if (wanted !== undefined) await shiftOwners(root, { from: 0, to: wanted.base, size: wanted.size });
      await writeSmallFiles(path, new Map([[MARK, wanted === undefined ? PLAIN : JSON.stringify(wanted)]]));
      await syncMounted(path);
    } catch (error) {
      await unmountAll(path);
      await this.#goBack(guard);
      throw error;
    }
    await datasets.run(destroy(guard));
  }

  /** Takes back what was cut off. */
  async finish(): Promise<void> {
    for (const name of await this.#pool.datasets.snapshotsBelow()) if (isGuard(name)) await this.#goBack(name);
  }

  async #goBack(guard: string): Promise<void> {
    await this.#pool.datasets.run(rollback(guard));
    await this.#pool.datasets.run(destroy(guard));
  }
}

/** No range is the same as no other. */
export function isSameRange(one: IdRange | undefined, other: IdRange | undefined): boolean {
  return one?.base === other?.base && one?.size === other?.size;
}

/** A pool may come from another machine: what is no range is none. */
function rangeIn(text: string): IdRange | undefined {
  try {
    const { base, size } = JSON.parse(text) as { readonly base?: unknown; readonly size?: unknown };
    const isId = (value: unknown): value is number =>
      Number.isInteger(value) && Number(value) >= 0 && Number(value) < 2 ** 32;
    return isId(base) && isId(size) ? { base, size } : undefined;
  } catch {
    return undefined;
  }
}
