import { createHash } from 'node:crypto';
import { mkdir, readdir, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { errors } from '../../../core/errors.ts';

const HOOK = `#!/bin/sh
# Run by liblxc after the guest "$LXC_NAME" ended; LXC_TARGET says whether it stops or reboots.
: >"\${0%/*}/events/$LXC_NAME:$LXC_TARGET"
`;

/** liblxc's folder of one daemon (`<state>/lxc`) and the names that tell its guests from others on the host. */
export class LxcFiles {
  readonly root: string;
  /** Prefix of this daemon's cgroups: two daemons may have guests of one name. */
  readonly cgroupPrefix: string;

  constructor(root: string) {
    this.root = root;
    this.cgroupPrefix = `keelson-${createHash('sha256').update(root).digest('hex').slice(0, 8)}`;
  }

  folder(key: string): string {
    checkKey(key);
    return join(this.root, key);
  }
  config(key: string): string {
    return join(this.folder(key), 'config');
  }
  seccomp(key: string): string {
    return join(this.folder(key), 'seccomp');
  }
  pidFile(key: string): string {
    return join(this.folder(key), 'pid');
  }
  /** Names the log folder of the last start: how `consoleLog` finds it after a restart of the daemon. */
  logLink(key: string): string {
    return join(this.folder(key), 'logs');
  }
  deviceFolder(key: string): string {
    return join(this.folder(key), 'devices');
  }
  /** Mount points of the guest's disks; outside its own folder, which is removed recursively. */
  mountFolder(key: string): string {
    checkKey(key);
    return join(this.root, '.keelson', 'mounts', key);
  }
  get hook(): string {
    return join(this.root, '.keelson', 'post-stop');
  }
  /** The hook leaves `<key>:<target>` here. */
  get events(): string {
    return join(this.root, '.keelson', 'events');
  }
  /**
   * One cgroup around all guests: together they weigh what one other process of the host weighs (its default weight),
   * so guests that boot or run wild starve neither the host nor a launch. Shares among guests are as set.
   */
  get guests(): string {
    return `${this.cgroupPrefix}.guests`;
  }
  payload(key: string): string {
    return `${this.guests}/payload.${key}`;
  }
  /** Outside `guests`: liblxc's side of a start runs here and must not wait for guests. */
  monitor(key: string): string {
    return `${this.cgroupPrefix}.monitor.${key}`;
  }

  /** Makes the folders and the hook. Idempotent. */
  async prepare(): Promise<void> {
    await mkdir(this.events, { recursive: true, mode: 0o711 }); // the guest's init passes through before it changes root
    await writeFile(`${this.hook}.new`, HOOK, { mode: 0o755 });
    await rename(`${this.hook}.new`, this.hook); // one that runs right now keeps its text
  }

  /** Keys that have a folder. */
  async keys(): Promise<string[]> {
    const entries = await readdir(this.root, { withFileTypes: true }).catch(() => []);
    return entries.filter((entry) => entry.isDirectory() && !entry.name.startsWith('.')).map((entry) => entry.name);
  }

  async remove(key: string): Promise<void> {
    await rm(this.folder(key), { recursive: true, force: true });
  }
}

function checkKey(key: string): void {
  if (!/^[A-Za-z0-9][A-Za-z0-9_-]*$/.test(key)) throw errors.badRequest(`Invalid instance name ${JSON.stringify(key)}`);
}
