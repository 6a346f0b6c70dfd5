import { readFile } from 'node:fs/promises';

/** Id of a group in /etc/group; undefined when there is none of that name. */
export async function groupId(name: string): Promise<number | undefined> {
  const text = await readFile('/etc/group', 'utf8').catch(() => '');
  for (const line of text.split('\n')) {
    const [group, , id] = line.split(':');
    if (group === name) return Number(id);
  }
  return undefined;
}
