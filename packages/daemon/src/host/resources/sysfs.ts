import { readdir, readFile, readlink } from 'node:fs/promises';
import { basename, join } from 'node:path';

/** Reads kernel files below `root` (`/` on a real host); what is missing or unreadable reads as absent. */
export class SysFs {
  readonly #root: string;

  constructor(root = '/') {
    this.#root = root;
  }

  /** Trimmed text; empty when the file is not there. */
  async text(path: string): Promise<string> {
    try {
      return (await readFile(join(this.#root, path), 'utf8')).trim();
    } catch {
      return ''; // a device that vanishes while we look simply has no such attribute
    }
  }

  /** 0 when absent or not a number. Takes `0x` numbers too. */
  async number(path: string): Promise<number> {
    const value = Number(await this.text(path));
    return Number.isFinite(value) ? value : 0;
  }

  async list(path: string): Promise<readonly string[]> {
    try {
      return (await readdir(join(this.#root, path))).sort((a, b) => a.localeCompare(b, 'en', { numeric: true }));
    } catch {
      return [];
    }
  }

  /** Last part of what a symbolic link points to; empty when it is none. */
  async linkName(path: string): Promise<string> {
    return basename(await this.link(path));
  }

  async link(path: string): Promise<string> {
    try {
      return await readlink(join(this.#root, path));
    } catch {
      return '';
    }
  }

  async exists(path: string): Promise<boolean> {
    return (await this.text(path)) !== '' || (await this.list(path)).length > 0;
  }

  /** NUMA node of a device; 0 where the kernel knows none. */
  async numaNode(device: string): Promise<number> {
    return Math.max(0, await this.number(`${device}/numa_node`));
  }
}

/** Ids in the kernel's list form, `0-3,8`. */
export function parseIdList(text: string): number[] {
  return text.split(',').flatMap((part) => {
    const [first = Number.NaN, last = first] = part.split('-').map(Number);
    if (part.trim() === '' || Number.isNaN(first) || Number.isNaN(last)) return [];
    return Array.from({ length: last - first + 1 }, (_, index) => first + index);
  });
}
