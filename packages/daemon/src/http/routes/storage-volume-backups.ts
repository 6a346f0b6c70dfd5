import { routes } from '@keelson/api';
import type { StorageVolumeBackups } from '../../services/storage/contract.ts';
import { bindList } from '../list.ts';
import { operation, raw, sync } from '../reply.ts';
import { changeOptions } from '../request.ts';
import { bind, type RouteBinding } from '../route.ts';
import { volumeAddress } from './storage-volumes.ts';

export function storageVolumeBackupRoutes(backups: StorageVolumeBackups): RouteBinding[] {
  return [
    bindList(routes['storage-volume-backups.list'], (request) => backups.list(volumeAddress(request))),
    bind(routes['storage-volume-backups.create'], (request) =>
      operation(backups.create(volumeAddress(request), request.body, changeOptions(request))),
    ),
    bind(routes['storage-volume-backups.get'], (request) =>
      sync(backups.get(volumeAddress(request), request.params.backup)),
    ),
    bind(routes['storage-volume-backups.rename'], (request) => {
      const { params, body } = request;
      return operation(backups.rename(volumeAddress(request), params.backup, body.name, changeOptions(request)));
    }),
    bind(routes['storage-volume-backups.delete'], (request) =>
      operation(backups.delete(volumeAddress(request), request.params.backup, changeOptions(request))),
    ),
    bind(routes['storage-volume-backups.export'], async (request) => {
      const { body, size } = await backups.export(
        volumeAddress(request),
        request.params.backup,
        changeOptions(request),
      );
      return raw(body, { 'Content-Type': 'application/octet-stream', 'Content-Length': String(size) });
    }),
  ];
}
