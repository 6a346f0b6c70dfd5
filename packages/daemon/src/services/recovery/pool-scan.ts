import { names } from '@keelson/api';
import { isKeelsonError } from '../../core/errors.ts';
import { instanceKey } from '../../core/paths.ts';
import type { FoundVolume, PoolRecovery, VolumeRef } from '../../drivers/storage/contract.ts';
import type { InstanceMetadataRecord } from '../../state/records/instance-metadata.ts';
import { gatherMetadata } from '../instances/gather-metadata.ts';
import { type BackupConfig, parseBackupConfig, parseBackupYaml } from '../instances/plan/backup-config.ts';
import { checkInstanceName, checkSnapshotName } from '../instances/plan/names.ts';
import { POOL_NOTE, type PoolNote, readPoolNote, readVolumeNote, VOLUME_NOTE, type VolumeNote } from './volume-note.ts';

export interface FoundInstance {
  readonly found: FoundVolume;
  readonly project: string;
  readonly name: string;
  readonly described: BackupConfig;
  readonly metadata: InstanceMetadataRecord;
}

export interface FoundCustom {
  readonly found: FoundVolume;
  readonly project: string;
  readonly name: string;
  /** Absent on pools that LXD made. */
  readonly note: VolumeNote | undefined;
}

/** What a pool holds that could come back, by its own word. */
export interface PoolContent {
  readonly note: PoolNote | undefined;
  readonly instances: readonly FoundInstance[];
  readonly customs: readonly FoundCustom[];
  readonly images: readonly FoundVolume[];
  /** What is there and cannot be read, one sentence each. */
  readonly problems: readonly string[];
}

/**
 * Reads what a pool tells about itself. Names decide who a volume belongs to, and its description has to agree with
 * them; of what is in a volume nothing is read, as that is its guest's to write. Of what is `known` nothing is read at
 * all: its description may just be on its way.
 */
export async function scanPool(
  pool: string,
  recovery: PoolRecovery,
  known: (volume: VolumeRef) => boolean,
): Promise<PoolContent> {
  const instances: FoundInstance[] = [];
  const customs: FoundCustom[] = [];
  const images: FoundVolume[] = [];
  const problems: string[] = [];
  for (const found of await recovery.scan()) {
    const { type, name } = found.volume;
    try {
      if (type === 'image') images.push(found);
      else if (known(found.volume)) continue;
      else if (type === 'custom') customs.push(await readCustom(found, recovery));
      else instances.push(await readInstance(found, recovery));
    } catch (error) {
      if (!isKeelsonError(error) && !(error instanceof Unreadable)) throw error;
      problems.push(`${nounOf(type)} "${printable(name)}" on pool "${pool}" cannot be recovered: ${error.message}`);
    }
  }
  return { note: readPoolNote(await recovery.read(undefined, POOL_NOTE)), instances, customs, images, problems };
}

class Unreadable extends Error {}

async function readInstance(found: FoundVolume, recovery: PoolRecovery): Promise<FoundInstance> {
  const { volume, snapshots } = found;
  if (volume.type !== 'container') throw new Unreadable('Virtual machines are not supported on this server');
  const cut = volume.name.indexOf('_');
  const project = cut < 0 ? 'default' : volume.name.slice(0, cut);
  const name = volume.name.slice(cut + 1);
  checkProject(project);
  checkInstanceName(name);
  for (const snapshot of snapshots) checkSnapshotName(snapshot);
  if (instanceKey(project, name) !== volume.name) throw new Unreadable('Its folder has no name an instance could have');
  const files = await recovery.files?.(volume);
  const read = async (file: string) => (files === undefined ? recovery.read(volume, file) : files.get(file));
  const text = await read('backup.yaml');
  if (text === undefined) throw new Unreadable('It has no backup.yaml that could be read');
  const described = parseBackupConfig(parseBackupYaml(text, 'description'));
  const { instance } = described;
  if (instance.name !== name || (instance.project !== '' && instance.project !== project))
    throw new Unreadable(
      `Its backup.yaml describes "${printable(instance.name)}" in project "${printable(instance.project)}"`,
    );
  if (instance.type !== 'container' && instance.type !== '')
    throw new Unreadable('Its backup.yaml does not describe a container');
  const metadata = await gatherMetadata(read);
  return { found, project, name, described, metadata };
}

async function readCustom(found: FoundVolume, recovery: PoolRecovery): Promise<FoundCustom> {
  const { volume, snapshots } = found;
  const cut = volume.name.indexOf('_');
  const project = volume.name.slice(0, Math.max(cut, 0));
  const name = volume.name.slice(cut + 1);
  checkProject(project);
  const problem = cut < 0 ? 'Its folder names no project' : names.volumeName.check(name);
  if (problem !== undefined) throw new Unreadable(problem);
  for (const snapshot of snapshots) checkSnapshotName(snapshot);
  const note = readVolumeNote(await recovery.read(volume, VOLUME_NOTE));
  const agrees = note?.name === name && note.project === project;
  if (note === undefined || !agrees) return { found, project, name, note: undefined };
  return { found: { ...found, volume: { ...volume, contentType: note.contentType } }, project, name, note };
}

function checkProject(project: string): void {
  const problem = project === '' ? 'Its folder names no project' : names.projectName.check(project);
  if (problem !== undefined) throw new Unreadable(problem);
}

function nounOf(type: FoundVolume['volume']['type']): string {
  return type === 'custom' ? 'Volume' : type === 'image' ? 'Image' : 'Instance';
}

/** A name from elsewhere that goes into a message. */
function printable(name: string): string {
  return name.replace(/[\p{Cc}"]/gu, '?').slice(0, 200);
}
