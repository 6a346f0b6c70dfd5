/** A network interface of the host as kernel files show it. */
export interface HostInterface {
  readonly addresses: readonly {
    readonly family: 'inet' | 'inet6';
    readonly address: string;
    /** Prefix length as text. */
    readonly netmask: string;
    readonly scope: string;
  }[];
  readonly counters: {
    readonly bytesReceived: number;
    readonly bytesSent: number;
    readonly packetsReceived: number;
    readonly packetsSent: number;
  };
  readonly hwaddr: string;
  readonly mtu: number;
  readonly state: 'up' | 'down';
  /** `broadcast`, `loopback`, `point-to-point` or `unknown`. */
  readonly type: string;
  readonly bridge?: {
    readonly id: string;
    readonly stp: boolean;
    /** Hundredths of a second, as the kernel counts. */
    readonly forwardDelay: number;
    readonly vlanDefault: number;
    readonly vlanFiltering: boolean;
    readonly upperDevices: readonly string[];
  };
}

/** Interfaces of the host that Keelson does not manage, for `GET /1.0/networks`. */
export interface HostInterfaces {
  list(): Promise<readonly { name: string; type: 'physical' | 'bridge' | 'loopback' | 'bond' | 'vlan' | 'unknown' }[]>;
  state(name: string): Promise<HostInterface | undefined>;
  /** Bytes; undefined when there is no such interface. Cheaper than `state`, which waits for the kernel's address lists. */
  mtu(name: string): Promise<number | undefined>;
  /** Subnets the host already uses: its addresses and routes, as `address/prefix`. */
  subnets(): Promise<readonly string[]>;
}
