import { APIException, ClientConnectionFailed } from '@keelson/client';
import { ExitError, UsageError } from './command.ts';

/** Words for the collections of the API, as they stand in its URLs. */
const NOUNS: Readonly<Record<string, string>> = {
  instances: 'instance',
  images: 'image',
  aliases: 'image alias',
  profiles: 'profile',
  networks: 'network',
  projects: 'project',
  'storage-pools': 'storage pool',
  volumes: 'storage volume',
  custom: 'storage volume',
  snapshots: 'snapshot',
  backups: 'backup',
  certificates: 'certificate',
  operations: 'operation',
};

const LISTS: Readonly<Record<string, string>> = {
  instance: 'keelson list',
  image: 'keelson image list',
  'image alias': 'keelson image list',
  profile: 'keelson profile list',
  network: 'keelson network list',
  project: 'keelson project list',
  'storage pool': 'keelson storage list',
  'storage volume': 'keelson storage volume list POOL',
  snapshot: 'keelson snapshot list INSTANCE',
  certificate: 'keelson trust list',
  operation: 'keelson operation list',
};

/** An error as people should read it: what failed, on which object, what to do. */
export function explain(error: unknown): string {
  if (error instanceof AggregateError) return error.errors.map((one) => explain(one)).join('\nError: ');
  if (error instanceof ClientConnectionFailed) {
    const text = error.message.replace(/ \([A-Z]+ \S* at (\S+)\)$/, ' ($1)');
    return `${text}\nIs the server running? Start it with "npm run up" or "systemctl start keelsond"; another place is named with --endpoint or $KEELSON_DIR.`;
  }
  if (error instanceof APIException) {
    const text = error.message.replace(/ \([A-Z]+ \S+: \d+\)$/, '');
    if (error.status === 403)
      return `${text}\nThe server does not let this client do that: see "keelson remote add" and "keelson trust".`;
    if (error.status === 404) return notFound(text, error.url);
    if (error.status === 412) return `${text}\nSomebody changed it meanwhile; try again.`;
    return text;
  }
  return error instanceof Error ? error.message : String(error);
}

/** 2 for wrong use, the error's own code where it has one, else 1. */
export function exitCodeOf(error: unknown): number {
  if (error instanceof UsageError) return 2;
  return error instanceof ExitError ? error.exitCode : 1;
}

/** "Instance not found" with the name and where to look. */
function notFound(text: string, url: string): string {
  const parts = (url.split('?')[0] ?? '').split('/').map(decodeURIComponent);
  const name = parts.at(-1) ?? '';
  const noun = parts.map((part) => NOUNS[part]).findLast((one) => one !== undefined);
  if (noun === undefined || name === '' || NOUNS[name] !== undefined) return text;
  if (!text.toLowerCase().startsWith(noun) || !text.endsWith('not found')) return text;
  const first = text.split(/[\s"':]+/).includes(name) ? text : `${text}: ${name}`;
  const list = LISTS[noun];
  return list === undefined ? first : `${first}\nSee "${list}".`;
}
