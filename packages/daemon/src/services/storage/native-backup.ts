import type { Readable } from 'node:stream';
import { parse, stringify } from 'yaml';
import { errors } from '../../core/errors.ts';
import type {
  NativeInner,
  ProgressOptions,
  StoragePool,
  VolumeOptions,
  VolumeRef,
} from '../../drivers/storage/contract.ts';

/** Member of every backup in a driver's own format: which streams belong together. */
export const NATIVE_HEADER = 'backup/optimized_header.yaml';

/** Member of a state, without its end: `backup/container`, `backup/snapshots/s0`; no snapshot: the volume itself. */
export type NativeMember = (snapshot: string | undefined) => string;

/** Backups of the pool's volumes can be in its driver's own format. */
export function hasNativeBackups({ transfer }: StoragePool): boolean {
  return transfer !== undefined && transfer.backups !== false;
}

/** A volume on its way out in its driver's own format. */
export interface NativeOutput extends AsyncDisposable {
  /** Text of the header. */
  readonly header: string;
  /** Members of the backup in their order. */
  readonly parts: readonly { readonly name: string; open(): Promise<Readable> }[];
}

/** Undefined when the pool has no format of its own. Each state holds what changed since the one before it. */
export async function sendNative(
  pool: StoragePool,
  volume: VolumeRef,
  options: {
    readonly snapshots: readonly string[];
    readonly running: boolean;
    readonly beside?: ReadonlyMap<string, string>;
    readonly member: NativeMember;
  },
): Promise<NativeOutput | undefined> {
  if (pool.transfer === undefined || !hasNativeBackups(pool)) return undefined;
  const { snapshots, running, beside, member } = options;
  await using undo = new AsyncDisposableStack();
  const send = undo.use(await pool.transfer.send(volume, { running, ...(beside === undefined ? {} : { beside }) }));
  const parts: NativeOutput['parts'][number][] = [];
  const subvolumes: object[] = [];
  for (const [at, snapshot] of [...snapshots, undefined].entries()) {
    const parent = snapshots[at - 1];
    subvolumes.push({ path: '/', snapshot: snapshot ?? '', readonly: snapshot !== undefined, uuid: '' });
    parts.push({ name: `${member(snapshot)}.bin`, open: () => send.open(snapshot, parent) });
    for (const inner of (await send.inside?.(snapshot)) ?? []) {
      const { path, readOnly } = inner;
      subvolumes.push({ path: `/${path}`, snapshot: snapshot ?? '', readonly: readOnly, uuid: '' });
      parts.push({
        name: innerMember(member(snapshot), path),
        open: () => send.open(snapshot, parent, { inside: path }),
      });
    }
  }
  const kept = undo.move();
  return { header: stringify({ subvolumes }), parts, [Symbol.asyncDispose]: () => kept.disposeAsync() };
}

export interface NativeInput {
  readonly member: NativeMember;
  /** Names, oldest first. */
  readonly snapshots: readonly string[];
  /** Text of the header; undefined when the backup has none. */
  readonly header: string | undefined;
  /** Content of a member. */
  open(member: string): Promise<Readable>;
  /** Driver of the pool it comes from, and of this one. */
  readonly backend: string;
  readonly driver: string;
}

/**
 * A volume from a backup in its driver's own format; leaves nothing when it fails.
 * @throws bad-request with LXD's text when the pool's driver is another; naming what is wrong with the backup.
 */
export async function receiveNative(
  pool: StoragePool,
  target: VolumeRef,
  input: NativeInput,
  options: ProgressOptions & VolumeOptions,
): Promise<void> {
  const { backend, driver, member, snapshots } = input;
  const { transfer } = pool;
  if (backend !== driver)
    throw errors.badRequest(
      `Optimized backup storage driver "${backend}" differs from the target storage pool driver "${driver}"`,
    );
  if (transfer === undefined || !hasNativeBackups(pool))
    throw errors.badRequest(`Storage driver "${driver}" cannot read optimized backups here`);
  const { signal, onProgress, ...volumeOptions } = options;
  const progress = { ...(signal === undefined ? {} : { signal }), ...(onProgress === undefined ? {} : { onProgress }) };
  const inner = readHeader(input.header);
  await using receive = await transfer.receive(target, { refresh: false, ...volumeOptions });
  for (const snapshot of [...snapshots, undefined]) {
    await receive.accept(snapshot, await input.open(`${member(snapshot)}.bin`), progress);
    for (const { state, ...inside } of inner) {
      if (state !== snapshot) continue;
      await receive.accept(snapshot, await input.open(innerMember(member(snapshot), inside.path)), {
        ...progress,
        inside,
      });
    }
  }
  await receive.commit();
}

/** As LXD names the member of what lies inside a state. */
function innerMember(state: string, path: string): string {
  return `${state}_${path.replaceAll('-', '--').replaceAll('/', '-')}.bin`;
}

function parseHeader(text: string): unknown {
  try {
    return parse(text, { maxAliasCount: 0, schema: 'core' });
  } catch (error) {
    throw errors.badRequest('The header of the backup is not valid YAML', error);
  }
}

/** Subvolumes inside states, parents first. @throws bad-request when one could lie elsewhere. */
function readHeader(text: string | undefined): (NativeInner & { readonly state: string | undefined })[] {
  if (text === undefined) return [];
  const header = parseHeader(text);
  const listed: unknown =
    typeof header === 'object' && header !== null && 'subvolumes' in header ? header.subvolumes : undefined;
  if (!Array.isArray(listed)) throw errors.badRequest('The header of the backup lists no subvolumes');
  return (listed as unknown[]).flatMap((one) => {
    if (typeof one !== 'object' || one === null) throw errors.badRequest('The header of the backup is not valid');
    const { path, snapshot, readonly } = one as Record<string, unknown>;
    if (typeof path !== 'string' || typeof snapshot !== 'string' || !path.startsWith('/'))
      throw errors.badRequest('The header of the backup is not valid');
    if (path === '/') return [];
    const inside = path.slice(1);
    if (inside.split('/').some((part) => part === '' || part === '.' || part === '..' || part.includes('\0')))
      throw errors.badRequest(`The header of the backup names "${path.slice(0, 200)}", which is outside the volume`);
    return [{ path: inside, readOnly: readonly === true, state: snapshot === '' ? undefined : snapshot }];
  });
}
