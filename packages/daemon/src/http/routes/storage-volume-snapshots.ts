import { routes } from '@keelson/api';
import type { StorageVolumeSnapshots } from '../../services/storage/contract.ts';
import { bindList } from '../list.ts';
import { empty, operation, sync } from '../reply.ts';
import { changeOptions } from '../request.ts';
import { bind, type RouteBinding } from '../route.ts';
import { volumeAddress } from './storage-volumes.ts';

export function storageVolumeSnapshotRoutes(snapshots: StorageVolumeSnapshots): RouteBinding[] {
  return [
    bindList(routes['storage-volume-snapshots.list'], (request) => snapshots.list(volumeAddress(request))),
    bind(routes['storage-volume-snapshots.create'], (request) =>
      operation(snapshots.create(volumeAddress(request), request.body, changeOptions(request))),
    ),
    bind(routes['storage-volume-snapshots.get'], (request) => {
      const { snapshot, etag } = snapshots.get(volumeAddress(request), request.params.snapshot);
      return sync(snapshot, etag);
    }),
    bind(routes['storage-volume-snapshots.put'], async (request) => {
      await snapshots.put(volumeAddress(request), request.params.snapshot, request.body, changeOptions(request));
      return empty();
    }),
    bind(routes['storage-volume-snapshots.patch'], async (request) => {
      await snapshots.patch(volumeAddress(request), request.params.snapshot, request.body, changeOptions(request));
      return empty();
    }),
    bind(routes['storage-volume-snapshots.rename'], (request) => {
      const { params, body } = request;
      return operation(snapshots.rename(volumeAddress(request), params.snapshot, body.name, changeOptions(request)));
    }),
    bind(routes['storage-volume-snapshots.delete'], (request) =>
      operation(snapshots.delete(volumeAddress(request), request.params.snapshot, changeOptions(request))),
    ),
  ];
}
