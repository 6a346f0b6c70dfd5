import { access, readFile, writeFile } from 'node:fs/promises';

/** Writes `/proc/sys/<path>`; `path` uses slashes (`net/ipv4/conf/br0/forwarding`). Skips a write that changes nothing. */
export async function setSysctl(path: string, value: string): Promise<void> {
  if (path.split('/').includes('..')) throw new Error(`Not a sysctl: ${path}`);
  const file = `/proc/sys/${path}`;
  if ((await readFile(file, 'utf8')).trim() !== value) await writeFile(file, value);
}

export async function hasSysctl(path: string): Promise<boolean> {
  return access(`/proc/sys/${path}`).then(
    () => true,
    () => false,
  );
}
