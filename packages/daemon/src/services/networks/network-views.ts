import type { NetworkRecord } from '../../state/records/network.ts';

/** `GET /1.0/networks/<name>`: LXD's Network record. */
export interface NetworkView {
  readonly config: Readonly<Record<string, string>>;
  readonly description: string;
  readonly name: string;
  readonly type: string;
  readonly used_by: readonly string[];
  readonly managed: boolean;
  readonly status: string;
  readonly locations: readonly string[];
}

export function managedView(record: NetworkRecord, usedBy: readonly string[]): NetworkView {
  const { config, description, name, type, status } = record;
  return { config, description, name, type, used_by: usedBy, managed: true, status, locations: ['none'] };
}

/** An interface the host manages. */
export function unmanagedView(name: string, type: string, usedBy: readonly string[]): NetworkView {
  return { config: {}, description: '', name, type, used_by: usedBy, managed: false, status: '', locations: [] };
}

/** The writable part, whose equality is the ETag's. */
export function etagSource(record: NetworkRecord): readonly unknown[] {
  return [record.name, record.type, record.description, record.config];
}

/** A type LXD has and this server does not. */
export function isKnownType(type: string): boolean {
  return ['macvlan', 'sriov', 'ovn', 'physical'].includes(type);
}

/** An empty value means: not set. */
export function clean(config: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(config).filter(([, value]) => value !== ''));
}
