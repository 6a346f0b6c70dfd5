import { rm } from 'node:fs/promises';
import { emptyFolder, isEmptyFolder, ServerFolder } from '../host/server-folder.ts';
import type { ServerConfig } from '../services/server/server-config.ts';
import type { LivePools } from '../services/storage/live-pools.ts';
import { ServerVolumes } from '../services/storage/server-volumes.ts';
import type { StorageUsage } from '../services/storage/usage.ts';
import type { Foundations } from './foundations.ts';
import type { Vertical } from './vertical.ts';

/** Backups and image files on custom volumes. */
export function serverVolumesVertical(
  base: Foundations,
  { live, usage }: { readonly live: LivePools; readonly usage: StorageUsage },
  config: Pick<ServerConfig, 'add'>,
): Vertical {
  const { paths, gates, records, intents, log } = base;
  const volumes = new ServerVolumes({
    contents: {
      backups: { folder: new ServerFolder(paths.backups), gate: gates.backups },
      images: { folder: new ServerFolder(paths.images), gate: gates.images },
    },
    live,
    usage,
    server: records.server,
    volumes: records.storageVolumes,
    snapshots: records.storageVolumeSnapshots,
    intents,
    log,
    isEmpty: isEmptyFolder,
    empty: emptyFolder,
  });
  config.add(volumes.effects);
  return {
    routes: [],
    prepare: async () => {
      await volumes.prepare();
      await rm(paths.incomingBackups, { recursive: true, force: true });
    },
  };
}
