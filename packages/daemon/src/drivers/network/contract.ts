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

export interface HostInterface {
  readonly addresses: readonly { readonly family: 'inet' | 'inet6'; readonly address: string; readonly netmask: string; readonly scope: string }[];
  readonly counters: { readonly bytesReceived: number; readonly bytesSent: number; readonly packetsReceived: number; readonly packetsSent: number };
  readonly hwaddr: string;
  readonly mtu: number;
  readonly state: 'up' | 'down';
  readonly type: string;
  readonly bridge?: {
    readonly id: string;
    readonly stp: boolean;
    readonly forwardDelay: number;
    readonly vlanDefault: number;
    readonly vlanFiltering: boolean;
    readonly upperDevices: readonly string[];
  };
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
  /** Stops helper processes (dnsmasq) only if `daemonStops` asks so; networks outlive the daemon. */
  dispose(): Promise<void>;
}

/** Interfaces of the host that Keelson does not manage, for `GET /1.0/networks`. */
export interface HostInterfaces {
  list(): Promise<readonly { name: string; type: 'physical' | 'bridge' | 'loopback' | 'bond' | 'vlan' | 'unknown' }[]>;
  state(name: string): Promise<HostInterface | undefined>;
}
