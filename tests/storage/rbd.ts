import { tmpdir } from 'node:os';
import { type Probe, probeCeph } from '@keelson/testkit';
import { findMapper } from '../../packages/daemon/src/host/tools/rbd-map.ts';

/** A cluster can be started here, and its images mapped. */
export async function probeRbd(): Promise<Probe> {
  const cluster = probeCeph();
  if (!cluster.ok) return cluster;
  const found = await findMapper(tmpdir());
  return 'reason' in found ? { ok: false, reason: found.reason } : { ok: true };
}
