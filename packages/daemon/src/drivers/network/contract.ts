import type { HostInterface } from '../../host/interface-types.ts';

export type { HostInterface, HostInterfaces } from '../../host/interface-types.ts';

/** A network as the driver needs it. */
export interface NetworkSpec {
  readonly name: string;
  readonly config: Readonly<Record<string, string>>;
  /** `<state>/networks/<name>`. */
  readonly path: string;
}

/** A nic that will use the network: DHCP reservations and host names come from it. */
export interface Reservation {
  readonly instance: string;
  readonly project: string;
  readonly hwaddr: string;
  readonly ipv4: string | undefined;
  readonly ipv6: string | undefined;
}

export interface Lease {
  readonly hostname: string;
  readonly hwaddr: string;
  readonly address: string;
  readonly type: 'static' | 'dynamic' | 'gateway';
}

export interface NetworkDriver {
  readonly type: string;
  probe(): Promise<{ supported: boolean; reason?: string }>;
  /**
   * Checks a definition and fills in defaults (free subnet, NAT) as LXD does.
   * @throws bad-request naming the key.
   */
  prepare(spec: NetworkSpec, usedSubnets: readonly string[]): Promise<Record<string, string>>;
  /** Brings it up (interface, addresses, dnsmasq, nftables); idempotent, also after a crash or with changed config. On failure nothing new is left. */
  start(spec: NetworkSpec, reservations: readonly Reservation[]): Promise<void>;
  /** Takes it down completely. Idempotent. */
  stop(spec: NetworkSpec): Promise<void>;
  rename(spec: NetworkSpec, newSpec: NetworkSpec, reservations: readonly Reservation[]): Promise<void>;
  /** Makes changed reservations known to DHCP and DNS without a restart. */
  reserve(spec: NetworkSpec, reservations: readonly Reservation[]): Promise<void>;
  leases(spec: NetworkSpec, reservations: readonly Reservation[]): Promise<readonly Lease[]>;
  /** The host interface; undefined when it does not exist. Reads kernel files, starts no process. */
  state(name: string): Promise<HostInterface | undefined>;
  /** Lets go of timers; interfaces and DHCP servers outlive the daemon. */
  dispose(): Promise<void>;
}

/** What a guest may send through one nic. */
export interface NicFilter {
  /** Host side interface. */
  readonly hostName: string;
  readonly hwaddr: string;
  /** The only IPv4 source address; undefined = any. */
  readonly ipv4: string | undefined;
  /** The only global IPv6 source address; undefined = any. */
  readonly ipv6: string | undefined;
}

export interface NicFilters {
  /** May be called before the interface exists; replaces an earlier filter of the same nic. */
  apply(filter: NicFilter): Promise<void>;
  /** Idempotent. */
  remove(hostName: string): Promise<void>;
}
