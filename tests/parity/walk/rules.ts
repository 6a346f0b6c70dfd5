import type { Seen } from './runner.ts';

/** A way in which the two servers differ at many steps, on purpose, with what makes them equal. */
export interface Rule {
  readonly what: string;
  readonly reason: string;
  readonly lxd?: (seen: Seen) => Partial<Seen>;
  readonly ours?: (seen: Seen) => Partial<Seen>;
}

type Lines = 'lifecycle' | 'operations';

const each =
  (part: Lines, change: (line: string) => string) =>
  (seen: Seen): Partial<Seen> => ({ [part]: seen[part].map(change) });
const without =
  (part: Lines, pattern: RegExp) =>
  (seen: Seen): Partial<Seen> => ({ [part]: seen[part].filter((line) => !pattern.test(line)) });
const replaced =
  (part: 'stdout' | 'stderr', from: RegExp, to: string) =>
  (seen: Seen): Partial<Seen> => ({ [part]: seen[part].replaceAll(from, to) });

const IMAGES = /^(image,<fingerprint>,.*\n|- \/1\.0\/images\/<fingerprint>\n| {2}images:\n {2}- <fingerprint>\n)/gm;

/** An operation's resources without the URLs: how many of each kind. */
function countResources(line: string): string {
  const operation = JSON.parse(line) as { resources: Record<string, string[]> | null };
  const { volume, container, ...rest } = operation.resources ?? {};
  const named = {
    ...rest,
    ...(volume === undefined ? {} : { storage_volumes: volume }),
    ...(container === undefined ? {} : { containers: container, instances: container }),
  };
  const counted = Object.entries(named)
    .map(([kind, urls]) => [kind, urls.length] as const)
    .sort(([a], [b]) => (a < b ? -1 : 1));
  return JSON.stringify({ ...operation, resources: operation.resources && Object.fromEntries(counted) });
}

export const rules: readonly Rule[] = [
  {
    what: 'lifecycle events of volumes',
    reason:
      'Their source is the URL of the volume; LXD names the volume as its driver does (`default_v1`, `containers`), which is no URL.',
    lxd: each('lifecycle', (line) =>
      line
        .replace(/(\/volumes\/custom\/)(default|second)_/, '$1')
        .replace('/volumes/containers/', '/volumes/container/'),
    ),
  },
  {
    what: 'resources of operations',
    reason:
      'They are URLs that can be asked for; LXD writes `/1.0/storage_volumes/v1`, and where a backup is deleted `volume` or `container`.',
    lxd: each('operations', countResources),
    ours: each('operations', countResources),
  },
  {
    what: '`may_cancel` of copies, backups and new instances',
    reason: 'They can be cancelled here; what they made is taken back.',
    ours: each('operations', (line) => line.replace('"may_cancel":true', '"may_cancel":false')),
  },
  {
    what: 'secrets in events of operations',
    reason: 'A secret is shown once, to its creator; LXD writes it into every event.',
    lxd: each('operations', (line) => line.replace(/"(control|fs|fds)",?/g, '').replace(',]', ']')),
  },
  {
    what: 'lifecycle events of a refused update',
    reason: 'What did not happen is not announced; LXD announces updates of pools and profiles all the same.',
    lxd: (seen) => (seen.code === 0 ? {} : without('lifecycle', /"(storage-pool|profile)-updated"/)(seen)),
  },
  {
    what: '`volatile.idmap.*` of custom volumes',
    reason: 'Mounts map the ids, the files keep theirs: there is no map to remember.',
    lxd: replaced('stdout', /,?\n\s*"?volatile\.idmap\.last"?: .*\n\s*"?volatile\.idmap\.next"?: .*/g, ''),
  },
  {
    what: 'images on `dir` pools',
    reason: 'Instances share the image that is unpacked there once; LXD unpacks it for each.',
    ours: replaced('stdout', IMAGES, ''),
    lxd: replaced('stdout', IMAGES, ''),
  },
  {
    what: 'a project that is not there',
    reason: 'One text for it.',
    lxd: replaced(
      'stderr',
      /(Failed to load project "nope": )?Project not found/g,
      'Failed loading project "nope": Project not found',
    ),
  },
  {
    what: 'a pool that is in use',
    reason: 'The refusal names the users.',
    ours: replaced('stderr', /(The storage pool is currently in use): .*/g, '$1'),
  },
  {
    what: 'a block volume that would shrink',
    reason: 'Said once; LXD says it twice.',
    lxd: replaced('stderr', /(Block volumes cannot be shrunk): Cannot be shrunk/g, '$1'),
  },
  {
    what: 'a name that is taken',
    reason: "Without LXD's inner step: `Add … info to the database`.",
    lxd: (seen) => ({
      ...replaced('stderr', /Add [a-z]+ info to the database: /g, '')(seen),
      ...each('operations', (line) => line.replace(/Add [a-z]+ info to the database: /, ''))(seen),
    }),
  },
  {
    what: 'who caused events of instances and of imported volumes',
    reason: 'It is told; LXD forgets it where an operation does the work.',
    ours: each('lifecycle', (line) =>
      line.includes('"instance-') || line.includes('"storage-volume-created')
        ? line.replace(/"requestor":\{[^}]*\},/, '')
        : line,
    ),
    lxd: each('lifecycle', (line) =>
      line.includes('"instance-') || line.includes('"storage-volume-created')
        ? line.replace(/"requestor":\{[^}]*\},/, '')
        : line,
    ),
  },
  {
    what: 'the field `managed` of a pool',
    reason: "The contract of the project has it in a pool's record.",
    ours: replaced('stdout', /\s*"managed": true,/g, ''),
  },
];

/** A step as both saw it, made equal where the rules say so; `used` gets the rules that changed something. */
export function applyRules(sides: { lxd: Seen; ours: Seen }, used: Set<Rule>): { lxd: Seen; ours: Seen } {
  let { lxd, ours } = sides;
  for (const rule of rules) {
    const next = { lxd: { ...lxd, ...rule.lxd?.(lxd) }, ours: { ...ours, ...rule.ours?.(ours) } };
    if (JSON.stringify(next) !== JSON.stringify({ lxd, ours })) used.add(rule);
    ({ lxd, ours } = next);
  }
  return { lxd, ours };
}
