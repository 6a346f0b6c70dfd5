import type { Instance, InstanceBackup, InstanceSnapshot, InstanceState } from '@keelson/api';
import type { GuestMetrics, GuestState, GuestStatus } from '../../drivers/instance/contract.ts';
import type { InstanceBackupRecord, InstanceRecord, InstanceSnapshotRecord } from '../../state/records/instance.ts';
import type { Effective } from './plan/changes.ts';
import { sorted } from './plan/expand.ts';

export const STATUS_CODES: Readonly<Record<GuestStatus, number>> = {
  Stopped: 102,
  Running: 103,
  Frozen: 110,
  Error: 112,
};

/** An instance as the API shows it. */
export function renderInstance(record: InstanceRecord, effective: Effective, status: GuestStatus): Instance {
  return {
    architecture: record.architecture,
    config: sorted(record.config),
    devices: devicesOf(record.devices),
    ephemeral: record.ephemeral,
    profiles: [...record.profiles],
    stateful: record.stateful,
    description: record.description,
    created_at: record.createdAt,
    expanded_config: { ...effective.config },
    expanded_devices: devicesOf(effective.devices),
    name: record.name,
    status,
    status_code: STATUS_CODES[status],
    last_used_at: record.lastUsedAt,
    location: 'none',
    type: record.type,
    project: record.project,
  };
}

export function devicesOf(devices: Effective['devices']): Record<string, Record<string, string>> {
  const result: Record<string, Record<string, string>> = {};
  for (const [name, device] of Object.entries(sorted(devices))) result[name] = sorted(device);
  return result;
}

export function renderSnapshot(record: InstanceSnapshotRecord, effective: Effective): InstanceSnapshot {
  return {
    expires_at: record.expiresAt,
    architecture: record.architecture,
    config: sorted(record.config),
    created_at: record.createdAt,
    devices: devicesOf(record.devices),
    ephemeral: record.ephemeral,
    expanded_config: { ...effective.config },
    expanded_devices: devicesOf(effective.devices),
    last_used_at: record.lastUsedAt,
    name: record.name,
    profiles: [...record.profiles],
    stateful: record.stateful,
    size: record.size,
  };
}

export function renderBackup(record: InstanceBackupRecord): InstanceBackup {
  return {
    name: record.name,
    created_at: record.createdAt,
    expires_at: record.expiresAt,
    instance_only: record.instanceOnly,
    container_only: record.instanceOnly,
    optimized_storage: record.optimizedStorage,
  };
}

export interface Sample {
  readonly metrics: GuestMetrics | undefined;
  /** Bytes used by the root disk; undefined where the pool cannot tell. */
  readonly disk: number | undefined;
}

/** Live state; `hostNames` maps guest interfaces to the host's side where the guest's counters lack it. */
export function renderState(guest: GuestState, sample: Sample, rootDevice: string | undefined): InstanceState {
  const { metrics, disk } = sample;
  return {
    status: guest.status,
    status_code: STATUS_CODES[guest.status],
    disk: disk === undefined || rootDevice === undefined ? {} : { [rootDevice]: { usage: disk } },
    memory: {
      usage: metrics?.memory.usage ?? 0,
      usage_peak: metrics?.memory.usagePeak ?? 0,
      swap_usage: metrics?.memory.swapUsage ?? 0,
      swap_usage_peak: metrics?.memory.swapUsagePeak ?? 0,
    },
    network: metrics === undefined ? null : renderInterfaces(metrics),
    pid: guest.pid,
    processes: metrics?.processes ?? 0,
    cpu: { usage: metrics?.cpuUsage ?? 0 },
  };
}

function renderInterfaces(metrics: GuestMetrics): NonNullable<InstanceState['network']> {
  const result: NonNullable<InstanceState['network']> = {};
  for (const [name, found] of Object.entries(sorted(metrics.network))) {
    const { counters } = found;
    result[name] = {
      addresses: found.addresses.map(({ family, address, netmask, scope }) => ({ family, address, netmask, scope })),
      counters: {
        bytes_received: counters.bytesReceived,
        bytes_sent: counters.bytesSent,
        packets_received: counters.packetsReceived,
        packets_sent: counters.packetsSent,
        errors_received: counters.errorsReceived,
        errors_sent: counters.errorsSent,
        packets_dropped_outbound: counters.packetsDroppedOutbound,
        packets_dropped_inbound: counters.packetsDroppedInbound,
      },
      hwaddr: found.hwaddr,
      host_name: found.hostName,
      mtu: found.mtu,
      state: found.state,
      type: found.type,
    };
  }
  return result;
}
