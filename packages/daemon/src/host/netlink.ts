import { closeSync, openSync } from 'node:fs';
import koffi from 'koffi';

/** An interface as the kernel describes it in its own network namespace. */
export interface LinkInfo {
  readonly index: number;
  readonly name: string;
  /** Index of the other end or the parent, in its own namespace; 0 = none. */
  readonly peerIndex: number;
  readonly hwaddr: string;
  readonly mtu: number;
  /** `IFF_*` bits. */
  readonly flags: number;
  readonly counters: LinkCounters;
  readonly addresses: readonly LinkAddress[];
}

export interface LinkCounters {
  readonly bytesReceived: number;
  readonly bytesSent: number;
  readonly packetsReceived: number;
  readonly packetsSent: number;
  readonly errorsReceived: number;
  readonly errorsSent: number;
  readonly droppedReceived: number;
  readonly droppedSent: number;
}

export interface LinkAddress {
  readonly family: 'inet' | 'inet6';
  readonly address: string;
  readonly prefix: number;
  readonly scope: 'local' | 'link' | 'global';
}

const CLONE_NEWNET = 0x40000000;
const AF_NETLINK = 16;
const AF_INET = 2;
const SOCK_RAW_CLOEXEC = 3 | 0x80000;
const RTM_NEWLINK = 16;
const RTM_GETLINK = 18;
const RTM_NEWADDR = 20;
const RTM_GETADDR = 22;
const NLMSG_ERROR = 2;
const NLMSG_DONE = 3;
const NLM_F_REQUEST_DUMP = 0x1 | 0x300;
const RECEIVE_BUFFER = 64 * 1024;
const MAX_MESSAGES = 4_096;

type Call = (...args: (number | Uint8Array)[]) => number;
type NameOf = (index: number, buffer: Uint8Array) => string | null;
const libc = koffi.load('libc.so.6');
const bind = (prototype: string): Call => libc.func(prototype);
const c = {
  setns: bind('int setns(int fd, int type)'),
  socket: bind('int socket(int domain, int type, int protocol)'),
  send: bind('long send(int fd, const void *data, size_t size, int flags)'),
  indexToName: libc.func('const char *if_indextoname(unsigned int index, void *buffer)') as NameOf,
  recv: bind('long recv(int fd, void *data, size_t size, int flags)'),
};

function check(name: string, result: number): number {
  if (result < 0) throw new Error(`${name}: errno ${koffi.errno()}`);
  return result;
}

/**
 * Reads the interfaces of other network namespaces. Opening the socket enters the namespace and leaves it again
 * without giving up the thread; the socket then stays in it, whatever this process does.
 */
export class NetworkNamespaces implements Disposable {
  readonly #own = openSync('/proc/self/ns/net', 'r');
  readonly #buffer = Buffer.alloc(RECEIVE_BUFFER);

  /** Interfaces of the network namespace of `pid`. @throws when the process has ended. */
  links(pid: number): LinkInfo[] {
    const socket = this.#open(pid);
    try {
      const links = new Map<number, LinkInfo & { addresses: LinkAddress[] }>();
      this.#dump(socket, RTM_GETLINK, (type, body) => {
        const link = type === RTM_NEWLINK ? parseLink(body) : undefined;
        if (link !== undefined) links.set(link.index, { ...link, addresses: [] });
      });
      this.#dump(socket, RTM_GETADDR, (type, body) => {
        const found = type === RTM_NEWADDR ? parseAddress(body) : undefined;
        if (found !== undefined) links.get(found.index)?.addresses.push(found.address);
      });
      return [...links.values()];
    } finally {
      closeSync(socket);
    }
  }

  /** Name of an interface of this process's own namespace. */
  nameOf(index: number): string | undefined {
    return index === 0 ? undefined : (c.indexToName(index, Buffer.alloc(16)) ?? undefined);
  }

  [Symbol.dispose](): void {
    closeSync(this.#own);
  }

  #open(pid: number): number {
    const target = openSync(`/proc/${pid}/ns/net`, 'r');
    try {
      check('setns', c.setns(target, CLONE_NEWNET));
      try {
        return check('socket', c.socket(AF_NETLINK, SOCK_RAW_CLOEXEC, 0));
      } finally {
        // A daemon that went on inside a guest's network would be worse than one that restarts.
        if (c.setns(this.#own, CLONE_NEWNET) !== 0) process.abort();
      }
    } finally {
      closeSync(target);
    }
  }

  #dump(socket: number, request: number, each: (type: number, body: Buffer) => void): void {
    const message = Buffer.alloc(16 + 16);
    message.writeUInt32LE(message.length, 0);
    message.writeUInt16LE(request, 4);
    message.writeUInt16LE(NLM_F_REQUEST_DUMP, 6);
    message.writeUInt32LE(1, 8);
    check('send', c.send(socket, message, message.length, 0));
    for (let count = 0; count < MAX_MESSAGES; count++) {
      const length = Number(check('recv', c.recv(socket, this.#buffer, this.#buffer.length, 0)));
      if (forEachMessage(this.#buffer.subarray(0, length), each)) return;
    }
    throw new Error('netlink answer does not end');
  }
}

/** Returns whether the answer is complete. */
export function forEachMessage(data: Buffer, each: (type: number, body: Buffer) => void): boolean {
  for (let offset = 0; offset + 16 <= data.length; ) {
    const length = data.readUInt32LE(offset);
    const type = data.readUInt16LE(offset + 4);
    if (length < 16 || offset + length > data.length) throw new Error('netlink message is cut off');
    if (type === NLMSG_DONE) return true;
    const body = data.subarray(offset + 16, offset + length);
    if (type === NLMSG_ERROR) throw new Error(`netlink: errno ${-body.readInt32LE(0)}`);
    each(type, body);
    offset += (length + 3) & ~3;
  }
  return false;
}

function attributes(data: Buffer): Map<number, Buffer> {
  const found = new Map<number, Buffer>();
  for (let offset = 0; offset + 4 <= data.length; ) {
    const length = data.readUInt16LE(offset);
    if (length < 4 || offset + length > data.length) break;
    found.set(data.readUInt16LE(offset + 2) & 0x3fff, data.subarray(offset + 4, offset + length));
    offset += (length + 3) & ~3;
  }
  return found;
}

const IFLA_ADDRESS = 1;
const IFLA_IFNAME = 3;
const IFLA_MTU = 4;
const IFLA_LINK = 5;
const IFLA_STATS64 = 23;

export function parseLink(body: Buffer): Omit<LinkInfo, 'addresses'> | undefined {
  if (body.length < 16) return undefined;
  const found = attributes(body.subarray(16));
  const stats = found.get(IFLA_STATS64);
  const counter = (index: number): number =>
    stats === undefined || stats.length < (index + 1) * 8 ? 0 : Number(stats.readBigUInt64LE(index * 8));
  return {
    index: body.readInt32LE(4),
    flags: body.readUInt32LE(8),
    name: (found.get(IFLA_IFNAME)?.toString('utf8') ?? '').replace(/\0+$/, ''),
    hwaddr: [...(found.get(IFLA_ADDRESS) ?? [])].map((byte) => byte.toString(16).padStart(2, '0')).join(':'),
    mtu: found.get(IFLA_MTU)?.readUInt32LE(0) ?? 0,
    peerIndex: found.get(IFLA_LINK)?.readUInt32LE(0) ?? 0,
    counters: {
      packetsReceived: counter(0),
      packetsSent: counter(1),
      bytesReceived: counter(2),
      bytesSent: counter(3),
      errorsReceived: counter(4),
      errorsSent: counter(5),
      droppedReceived: counter(6),
      droppedSent: counter(7),
    },
  };
}

const IFA_ADDRESS = 1;
const IFA_LOCAL = 2;
const SCOPES: Readonly<Record<number, LinkAddress['scope']>> = { 253: 'link', 254: 'local' };

export function parseAddress(body: Buffer): { index: number; address: LinkAddress } | undefined {
  if (body.length < 8) return undefined;
  const found = attributes(body.subarray(8));
  const bytes = found.get(IFA_LOCAL) ?? found.get(IFA_ADDRESS);
  if (bytes === undefined) return undefined;
  const family = body.readUInt8(0) === AF_INET ? 'inet' : 'inet6';
  const address = family === 'inet' ? [...bytes].join('.') : formatIpv6(bytes);
  const scope = SCOPES[body.readUInt8(3)] ?? 'global';
  return { index: body.readUInt32LE(4), address: { family, address, prefix: body.readUInt8(1), scope } };
}

/** RFC 5952: the longest run of at least two zero groups is written as `::`. */
export function formatIpv6(bytes: Uint8Array): string {
  const groups = Array.from({ length: 8 }, (_, index) => ((bytes[index * 2] ?? 0) << 8) | (bytes[index * 2 + 1] ?? 0));
  let best = { start: -1, length: 1 };
  for (let start = 0; start < 8; start++) {
    let length = 0;
    while (start + length < 8 && groups[start + length] === 0) length++;
    if (length > best.length) best = { start, length };
  }
  const text = (part: readonly number[]) => part.map((group) => group.toString(16)).join(':');
  if (best.start === -1) return text(groups);
  return `${text(groups.slice(0, best.start))}::${text(groups.slice(best.start + best.length))}`;
}
