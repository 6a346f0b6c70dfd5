import { createHash } from 'node:crypto';
import { chmod, mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { errors } from '../../../core/errors.ts';
import type { Log } from '../../../core/log.ts';
import { UndoStack } from '../../../core/undo-stack.ts';
import type { HostInterfaces } from '../../../host/interface-types.ts';
import { CommandError } from '../../../host/run.ts';
import { hasSysctl, setSysctl } from '../../../host/sysctl.ts';
import { Dnsmasq, dnsmasqVersion } from '../../../host/tools/dnsmasq.ts';
import { addressesOf, ipBatch } from '../../../host/tools/ip.ts';
import { applyRuleset, nftVersion } from '../../../host/tools/nft.ts';
import type { HostInterface, Lease, NetworkDriver, NetworkSpec, Reservation } from '../contract.ts';
import { checkBridgeConfig, fillBridgeDefaults, isTrue, splitList } from './config.ts';
import {
  type BridgePlan,
  dnsmasqArgs,
  dnsmasqFiles,
  hostsFile,
  interfaceCommands,
  parseLeases,
  readBridge,
  routeCommands,
  ruleset,
} from './plan.ts';

export interface BridgeDriverOptions {
  readonly interfaces: HostInterfaces;
  readonly log: Log;
  /** Integer in [0, limit). */
  readonly random: (limit: number) => number;
  /** Makes the bridges' own MAC addresses stable: the same seed and name give the same address. */
  readonly seed: string;
}

/** How often a bridge's DHCP server is looked after, in milliseconds. */
const WATCH_INTERVAL = 10_000;

/** Linux bridges with dnsmasq for DHCP and DNS and an nftables table each. */
export class BridgeDriver implements NetworkDriver {
  readonly type = 'bridge';
  readonly #options: BridgeDriverOptions;
  /** Networks that are up, so that a DHCP server that died is started again. */
  readonly #active = new Map<string, { spec: NetworkSpec; args: readonly string[] | undefined }>();
  #timer: NodeJS.Timeout | undefined;

  constructor(options: BridgeDriverOptions) {
    this.#options = options;
  }

  async probe(): Promise<{ supported: boolean; reason?: string }> {
    const [nft, dnsmasq] = await Promise.all([nftVersion(), dnsmasqVersion()]);
    if (nft === undefined) return { supported: false, reason: 'nft is not installed (Debian package nftables)' };
    if (dnsmasq === undefined)
      return { supported: false, reason: 'dnsmasq is not installed (Debian package dnsmasq-base)' };
    return { supported: true };
  }

  async prepare(spec: NetworkSpec, usedSubnets: readonly string[]): Promise<Record<string, string>> {
    checkBridgeConfig(spec);
    const ipv6 = await hasSysctl('net/ipv6/conf/all/forwarding');
    return fillBridgeDefaults(spec, { used: usedSubnets, ipv6, random: this.#options.random });
  }

  async start(spec: NetworkSpec, reservations: readonly Reservation[]): Promise<void> {
    const plan = this.#plan(spec);
    await using undo = new UndoStack((error) =>
      this.#options.log.warn('Undo of a network start failed', { network: spec.name, error: String(error) }),
    );
    const fresh = await this.#setUpInterface(plan, undo);
    await ipBatch(routeCommands(plan));
    await this.#setSysctls(plan);
    await attachExternal(plan, this.#options.interfaces);
    await applyRuleset(ruleset(plan, spec.name));
    if (fresh) undo.add(() => applyRuleset(ruleset(undefined, spec.name)));
    await this.#startDnsmasq(plan, reservations);
    undo.commit();
    this.#active.set(spec.name, { spec, args: dnsmasqArgs(plan) });
    this.#watch();
  }

  async stop(spec: NetworkSpec): Promise<void> {
    this.#active.delete(spec.name);
    await new Dnsmasq(dnsmasqFiles(spec.path).pid).stop();
    await applyRuleset(ruleset(undefined, spec.name));
    const state = await this.#options.interfaces.state(spec.name);
    if (state?.bridge !== undefined) await ipBatch([['link', 'del', 'dev', spec.name]]);
    await rm(spec.path, { recursive: true, force: true });
  }

  async rename(spec: NetworkSpec, newSpec: NetworkSpec, reservations: readonly Reservation[]): Promise<void> {
    const leases = await readFile(dnsmasqFiles(spec.path).leases).catch(() => undefined);
    await this.stop(spec);
    if (leases !== undefined) {
      await mkdir(newSpec.path, { recursive: true });
      await writeFile(dnsmasqFiles(newSpec.path).leases, leases);
    }
    await this.start(newSpec, reservations);
  }

  async reserve(spec: NetworkSpec, reservations: readonly Reservation[]): Promise<void> {
    const files = dnsmasqFiles(spec.path);
    if (!(await writeIfChanged(files.hosts, hostsFile(reservations)))) return;
    await new Dnsmasq(files.pid).reload();
  }

  async leases(spec: NetworkSpec, reservations: readonly Reservation[]): Promise<readonly Lease[]> {
    const plan = this.#plan(spec);
    const text = await readFile(dnsmasqFiles(spec.path).leases, 'utf8').catch(() => '');
    const gateways = [plan.ipv4, plan.ipv6].filter((cidr) => cidr !== undefined);
    const fixed = reservations.flatMap((one) =>
      [one.ipv4, one.ipv6]
        .filter((address) => address !== undefined)
        .map((address): Lease => ({ hostname: one.instance, hwaddr: one.hwaddr, address, type: 'static' })),
    );
    const taken = new Set(fixed.map((lease) => lease.address));
    const dynamic = parseLeases(text).filter((lease) => !taken.has(lease.address));
    return [
      ...gateways.map(
        (cidr): Lease => ({ hostname: `${spec.name}.gw`, hwaddr: '', address: cidr.address, type: 'gateway' }),
      ),
      ...fixed,
      ...dynamic.map((lease): Lease => ({ ...lease, type: 'dynamic' })),
    ];
  }

  state(name: string): Promise<HostInterface | undefined> {
    return this.#options.interfaces.state(name);
  }

  async dispose(): Promise<void> {
    clearInterval(this.#timer);
    this.#active.clear();
  }

  #plan(spec: NetworkSpec): BridgePlan {
    const digest = createHash('sha256').update(`${this.#options.seed}/${spec.name}`).digest('hex');
    return readBridge(spec, `00:16:3e:${digest.slice(0, 2)}:${digest.slice(2, 4)}:${digest.slice(4, 6)}`);
  }

  /** True when the interface was made by this call. */
  async #setUpInterface(plan: BridgePlan, undo: UndoStack): Promise<boolean> {
    const state = await this.#options.interfaces.state(plan.name);
    if (state !== undefined && state.bridge === undefined) {
      throw errors.badRequest(`Network interface "${plan.name}" already exists and is not a bridge`);
    }
    const addresses = state === undefined ? [] : await addressesOf(plan.name);
    const now =
      state === undefined
        ? { exists: false, addresses }
        : { exists: true, addresses, mtu: state.mtu, hwaddr: state.hwaddr, up: state.state === 'up' };
    const commands = interfaceCommands(plan, now);
    if (!now.exists)
      undo.add(async () => {
        if ((await this.#options.interfaces.state(plan.name)) !== undefined)
          await ipBatch([['link', 'del', 'dev', plan.name]]);
      });
    // A bridge's MTU follows its smallest member while it has any: set only what the kernel keeps.
    await ipBatch(
      commands.filter(
        (command) => !(now.exists && command.includes('mtu') && (state?.bridge?.upperDevices.length ?? 0) > 0),
      ),
    );
    return !now.exists;
  }

  async #setSysctls(plan: BridgePlan): Promise<void> {
    if (plan.ipv4 !== undefined && isTrue(plan.config['ipv4.routing'], true))
      await setSysctl('net/ipv4/ip_forward', '1');
    const ipv6 = `net/ipv6/conf/${plan.name}`;
    if (!(await hasSysctl(`${ipv6}/forwarding`))) return;
    await setSysctl(`${ipv6}/accept_dad`, '0');
    await setSysctl(`${ipv6}/autoconf`, '0');
    if (plan.ipv6 === undefined || !isTrue(plan.config['ipv6.routing'], true)) return;
    await keepAcceptingAdvertisements(this.#options.interfaces);
    await setSysctl('net/ipv6/conf/all/forwarding', '1');
  }

  async #startDnsmasq(plan: BridgePlan, reservations: readonly Reservation[]): Promise<void> {
    const files = dnsmasqFiles(plan.path);
    const args = dnsmasqArgs(plan);
    const server = new Dnsmasq(files.pid);
    if (args === undefined) {
      await server.stop();
      await rm(files.args, { force: true });
      return;
    }
    await mkdir(plan.path, { recursive: true });
    await chmod(plan.path, 0o711);
    const changed = await writeIfChanged(files.hosts, hostsFile(reservations));
    await writeIfChanged(files.raw, rawConfig(plan.config['raw.dnsmasq'] ?? ''));
    const wanted = `${args.join('\n')}\n${plan.config['raw.dnsmasq'] ?? ''}`;
    const running =
      (await server.pid()) !== undefined && (await readFile(files.args, 'utf8').catch(() => '')) === wanted;
    if (running) {
      if (changed) await server.reload();
      return;
    }
    await server.stop();
    try {
      await server.start(args);
    } catch (error) {
      throw errors.badRequest(
        `The DNS and DHCP service of network "${plan.name}" cannot start: ${reason(error)}`,
        error,
      );
    }
    await writeFile(files.args, wanted);
  }

  #watch(): void {
    if (this.#timer !== undefined) return;
    this.#timer = setInterval(() => void this.#revive(), WATCH_INTERVAL);
    this.#timer.unref();
  }

  async #revive(): Promise<void> {
    for (const [name, { spec, args }] of this.#active) {
      if (args === undefined) continue;
      try {
        const server = new Dnsmasq(dnsmasqFiles(spec.path).pid);
        if ((await server.pid()) !== undefined || this.#active.get(name)?.args !== args) continue;
        this.#options.log.warn('The DHCP service of a network ended; starting it again', { network: name });
        await server.start(args);
      } catch (error) {
        this.#options.log.error('The DHCP service of a network cannot start', { network: name, error: reason(error) });
      }
    }
  }
}

function reason(error: unknown): string {
  if (error instanceof CommandError) return error.stderr.trim().split('\n').at(-1) ?? error.message;
  return error instanceof Error ? error.message : String(error);
}

/** dnsmasq's configuration file, one directive per line as the user wrote it. */
function rawConfig(raw: string): string {
  return raw === '' ? '' : `${raw.trimEnd()}\n`;
}

/** Replaces the file in one step; false when it already reads so. */
async function writeIfChanged(file: string, content: string): Promise<boolean> {
  if ((await readFile(file, 'utf8').catch(() => undefined)) === content) return false;
  await writeFile(`${file}.new`, content, { mode: 0o644 });
  await rename(`${file}.new`, file);
  return true;
}

/** A host that forwards IPv6 stops accepting its own router's advertisements unless told to go on. */
async function keepAcceptingAdvertisements(interfaces: HostInterfaces): Promise<void> {
  for (const { name, type } of await interfaces.list()) {
    if (type === 'loopback' || type === 'bridge') continue;
    const key = `net/ipv6/conf/${name}/accept_ra`;
    if (await hasSysctl(key)) await setSysctl(key, '2').catch(() => undefined);
  }
}

/** `bridge.external_interfaces`: host interfaces that join the bridge; absent ones are skipped as in LXD. */
async function attachExternal(plan: BridgePlan, interfaces: HostInterfaces): Promise<void> {
  for (const name of splitList(plan.config['bridge.external_interfaces'])) {
    const state = await interfaces.state(name);
    if (state === undefined) continue;
    if (state.addresses.some((address) => address.scope === 'global')) {
      throw errors.badRequest(`Only unconfigured network interfaces can be bridged; "${name}" has an address`);
    }
    await ipBatch([
      ['link', 'set', 'dev', name, 'master', plan.name],
      ['link', 'set', 'dev', name, 'up'],
    ]);
  }
}
