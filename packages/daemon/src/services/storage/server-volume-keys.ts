import { errors } from '../../core/errors.ts';
import { DEFAULT_PROJECT } from '../projects/scope.ts';
import type { VolumeId } from './volume-names.ts';

/** What the server can keep on a custom volume. */
export const SERVER_CONTENTS = ['backups', 'images'] as const;
export type ServerContent = (typeof SERVER_CONTENTS)[number];

/** The server's key that names the volume. */
export function keyOf(content: ServerContent): string {
  return `storage.${content}_volume`;
}

/** The volume that a value names. @throws bad-request with LXD's text. */
export function serverVolume(value: string): VolumeId {
  const [pool, name, ...rest] = value.split('/');
  if (pool === undefined || name === undefined || rest.length > 0)
    throw errors.badRequest('Invalid syntax for volume, must be <pool>/<volume>');
  return { pool, project: DEFAULT_PROJECT, type: 'custom', name };
}

/** Volumes of the default project that the server's keys name. */
export function serverVolumesOf(config: Readonly<Record<string, string>>): readonly VolumeId[] {
  return SERVER_CONTENTS.flatMap((content) => {
    const value = config[keyOf(content)] ?? '';
    return value === '' ? [] : [serverVolume(value)];
  });
}
