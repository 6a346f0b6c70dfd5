import { describe, expect, test } from 'vitest';
import { allConfigTables, type ConfigTable, profileContext, validateConfig } from '../config-keys.ts';
import measured from './lxd-5.0.2.json' with { type: 'json' };

interface Answers {
  /** Keys LXD 5.0.2 does not know. */
  readonly unknown: readonly string[];
  /** Values it took out of those tried; `*` is all of them. */
  readonly accepts: Readonly<Record<string, readonly string[]>>;
}

/** Where this server decides otherwise on purpose, or another layer decides. */
const exceptions: readonly { readonly at: RegExp; readonly reason: string }[] = [
  { at: /^instance (user|environment)\.$/, reason: 'an empty name behind the dot is a typing error' },
  { at: /^instance cloud-init\.network-config$/, reason: 'YAML is read by the service' },
  { at: /^device-nic-.* (limits\.(max|ingress|egress)|security\..*filtering)$/, reason: 'LXD finds out at start only' },
  { at: /^device-disk limits\./, reason: 'LXD finds out at start only' },
  {
    at: /^device-disk (propagation|pool|path|source|shift|recursive)$/,
    reason: 'LXD finds out at start, or reads other options',
  },
  { at: /^device-gpu gputype$/, reason: 'LXD reads the type before the options' },
  { at: /^device-proxy (uid|gid|mode)$/, reason: 'good for unix sockets only, which the service checks' },
  { at: /^device-nic-ipvlan ipv[46]\.gateway$/, reason: 'an address is good in l2 mode, which the service checks' },
  { at: /^device-nic-routed ipv[46]\.routes$/, reason: 'needs an address too, which the service checks' },
  { at: /^device-nic-bridged ipv[46]\.(address|routes)/, reason: 'depends on the network, which the service checks' },
  { at: /^server .*_address$/, reason: 'host names are resolved when the listener starts' },
  { at: /^server cluster\.images_minimal_replica$/, reason: 'a number beyond any cluster is refused' },
  { at: /^server storage\.(backups|images)_volume$/, reason: 'the volume must exist, which the service checks' },
  { at: /^device-disk ceph\./, reason: 'good for Ceph sources only, which the service checks' },
  { at: /^network-bridge dns\.zone\./, reason: 'the zone must exist, which the service checks' },
  { at: /^network-bridge bgp\.ipv[46]\.nexthop$/, reason: 'LXD takes it on update only' },
];

const tables = new Map<string, ConfigTable>(allConfigTables.map((table) => [table.noun, table]));
const answers = Object.entries(measured.tables as Readonly<Record<string, Answers>>);

function isException(noun: string, key: string): boolean {
  return exceptions.some(({ at }) => at.test(`${noun} ${key}`));
}

function problemsOf(noun: string, key: string, value: string): string[] {
  const table = tables.get(noun);
  if (table === undefined) {
    throw new Error(`No table ${noun}`);
  }
  const optional = { ...table, keys: table.keys.filter((row) => row.required !== true || row.key === key) };
  return validateConfig(optional, { [key]: value }, noun === 'instance' ? profileContext : {}).map(
    (problem) => problem.message,
  );
}

describe.each(answers)('%s keys against the answers of LXD 5.0.2', (noun, { unknown, accepts }) => {
  const tried = noun === 'instance' ? measured.tried.instance : measured.tried.other;

  test('what it does not know is unknown', () => {
    const known = unknown.filter((key) => !isException(noun, key) && problemsOf(noun, key, '5').length === 0);
    expect(known).toEqual([]);
  });

  test('values are taken and refused alike', () => {
    const differences: string[] = [];
    for (const [key, accepted] of Object.entries(accepts)) {
      for (const value of isException(noun, key) ? [] : tried) {
        const theirs = accepted.includes(value) || accepted[0] === '*';
        const ours = problemsOf(noun, key, value).length === 0;
        if (theirs !== ours) {
          differences.push(`${key}=${value}: LXD ${theirs ? 'takes' : 'refuses'} it`);
        }
      }
    }
    expect(differences).toEqual([]);
  });
});

test('every exception is needed', () => {
  const places = answers.flatMap(([noun, { unknown, accepts }]) =>
    [...unknown, ...Object.keys(accepts)].map((key) => `${noun} ${key}`),
  );
  expect(exceptions.filter(({ at }) => !places.some((place) => at.test(place)))).toEqual([]);
});
