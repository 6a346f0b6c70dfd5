import { type RecoverPost, type RecoverResult, routes } from '@keelson/api';
import type { Recovery, RecoverPool, RecoveryReport } from '../../services/recovery/contract.ts';
import { sync } from '../reply.ts';
import { bind, type RouteBinding } from '../route.ts';

export function recoveryRoutes(recovery: Recovery): RouteBinding[] {
  return [
    bind(routes['recovery.validate'], async ({ body }) => sync(resultOf(await recovery.validate(poolsOf(body))))),
    bind(routes['recovery.import'], async ({ body }) => sync(resultOf(await recovery.import(poolsOf(body))))),
  ];
}

function poolsOf({ pools }: RecoverPost): RecoverPool[] {
  return (pools ?? []).map(({ name, driver = '', description = '', config }) => ({
    name,
    driver,
    description,
    config: Object.fromEntries(
      Object.entries(config ?? {}).filter((entry): entry is [string, string] => (entry[1] ?? '') !== ''),
    ),
  }));
}

function resultOf({ volumes, missing, problems }: RecoveryReport): RecoverResult {
  return {
    UnknownVolumes: volumes.map(({ name, type, snapshots, project, pool }) => ({
      name,
      type: type === 'custom' ? 'volume' : type,
      snapshotCount: snapshots.length,
      project,
      pool,
    })),
    DependencyErrors: [...missing],
    Problems: [...problems],
  };
}
