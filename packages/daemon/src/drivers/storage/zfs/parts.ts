import type { Roots, Snapshots } from '../contract.ts';
import type { ZfsVolumes } from './volumes.ts';

/** Parts of the pool that take their roots from `volumes`. */
export function rootsOf(volumes: ZfsVolumes): Roots {
  return {
    createFromImage: (volume, image) => volumes.createFromImage(volume, image),
    createFilled: (volume, options, fill) => volumes.createRoot(volume, options, fill),
    copy: (source, target, options) => volumes.copy(source, target, options),
    mount: (volume, options) => volumes.exclusively(volume, () => volumes.mounter.mountRoot(volume, options)),
    unmount: (volume) => volumes.unmount(volume),
    imageOf: async () => undefined, // an image that roots stand on waits in `deleted/` until they are gone
  };
}

export function snapshotsOf(volumes: ZfsVolumes): Snapshots {
  return {
    create: (volume, name) => volumes.createSnapshot(volume, name),
    list: (volume) => volumes.listSnapshots(volume),
    rename: (volume, name, newName) => volumes.renameSnapshot(volume, name, newName),
    delete: (volume, name) => volumes.deleteSnapshot(volume, name),
    restore: (volume, name, options) => volumes.restore(volume, name, options),
    mount: (volume, snapshot, { idRange }) =>
      volumes.exclusively(volume, () => volumes.mounter.mountSnapshot({ ...volume, snapshot }, idRange)),
    unmount: (volume, snapshot) =>
      volumes.exclusively(volume, () => volumes.mounter.unmountSnapshot({ ...volume, snapshot })),
  };
}
