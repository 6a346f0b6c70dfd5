import { join } from 'node:path';

/** Where things live under the state folder (`KEELSON_DIR`); laid out as LXD documents it. */
export class StatePaths {
  readonly root: string;

  constructor(root: string) {
    this.root = root;
  }

  /** Unix socket of the API. */
  get socket(): string {
    return join(this.root, 'unix.socket');
  }
  get database(): string {
    return join(this.root, 'database', 'keelson.db');
  }
  /** Image files `<fingerprint>` and `<fingerprint>.rootfs`. */
  get images(): string {
    return join(this.root, 'images');
  }
  /** Loop files of pools created without a source: `<pool>.img`. */
  get disks(): string {
    return join(this.root, 'disks');
  }
  /** Exported backups of instances and volumes. */
  get backups(): string {
    return join(this.root, 'backups');
  }
  /** Backups on their way in; emptied at start. */
  get incomingBackups(): string {
    return join(this.backups, '.incoming');
  }
  pool(name: string): string {
    return join(this.root, 'storage-pools', name);
  }
  /** Scratch space on the same file system; emptied at start. */
  get scratch(): string {
    return join(this.root, 'scratch');
  }
  /** Per network: dnsmasq files. */
  network(name: string): string {
    return join(this.root, 'networks', name);
  }
  /** Per instance log folder; `instance` is `instanceKey(project, name)`. */
  logs(instance: string): string {
    return join(this.root, 'logs', instance);
  }
  /** Per instance host-side device files. */
  devices(instance: string): string {
    return join(this.root, 'devices', instance);
  }
  /** liblxc's configuration and runtime folder of all containers. */
  get lxc(): string {
    return join(this.root, 'lxc');
  }
}

/** Name used for files, liblxc and volumes: LXD's rule, `name` in project default, else `project_name`. */
export function instanceKey(project: string, name: string): string {
  return project === 'default' ? name : `${project}_${name}`;
}
