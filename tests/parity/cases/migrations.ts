import { type Begun, type Case, type Names, none, one, root } from '../case.ts';

const I = '/1.0/instances';
const V = '/1.0/storage-pools/p1/volumes/custom';

/** No operation has this id. */
const UNKNOWN = '/1.0/operations/11111111-1111-1111-1111-111111111111';
/** Nothing listens there. */
const NOWHERE = `https://127.0.0.1:1${UNKNOWN}`;

/** What a server needs to connect to an operation of its own; `more` replaces parts of it. */
function end({ https, certificate }: Names, more: Partial<Begun> & { certificate?: string } = {}): object {
  return { operation: `${https}${UNKNOWN}`, certificate, secrets: { control: 'a', fs: 'b' }, ...more };
}

type More = Parameters<typeof end>[1];

/** The operation of the last case that began one waits for us. */
const wrongSecret = ({ begun: { operation } }: Names): More => ({ operation });
const right = ({ begun }: Names): More => begun;

const receive = (source: object, more: object = {}): object => ({
  name: 'mig-new',
  architecture: 'x86_64',
  profiles: [],
  devices: { root },
  source: { type: 'migration', ...source },
  ...more,
});
const pull =
  (more: (names: Names) => More = () => ({}), body: object = {}, source: object = {}) =>
  (names: Names): object =>
    receive({ mode: 'pull', ...end(names, more(names)), ...source }, body);
const push = (source: object = {}, more: object = {}): object => receive({ mode: 'push', ...source }, more);
const send =
  (more: (names: Names) => More) =>
  (names: Names): object => ({ migration: true, target: end(names, more(names)) });

const instances: readonly Case[] = [
  one('migration instance', 'POST', I, none('mig')),
  one('migration instance snapshot', 'POST', `${I}/mig/snapshots`, { name: 's0' }),
  one('instance send', 'POST', `${I}/mig`, { migration: true }, { begins: 'cancel' }),
  one('instance send with its name', 'POST', `${I}/mig`, { name: 'mig', migration: true }, { begins: 'cancel' }),
  one('instance send with another name', 'POST', `${I}/mig`, { name: 'mig9', migration: true }, { begins: 'cancel' }),
  one('instance send alone', 'POST', `${I}/mig`, { migration: true, instance_only: true }, { begins: 'cancel' }),
  one('instance send live, stopped', 'POST', `${I}/mig`, { migration: true, live: true }, { begins: 'cancel' }),
  one('instance send missing', 'POST', `${I}/nope`, { migration: true }),
  one('instance send wrong type', 'POST', `${I}/mig`, { migration: 'yes' }),
  one('instance send to nothing', 'POST', `${I}/mig`, { migration: true, target: {} }),
  one(
    'instance send to an unknown operation',
    'POST',
    `${I}/mig`,
    send(() => ({})),
  ),
  one(
    'instance send to no server',
    'POST',
    `${I}/mig`,
    send(() => ({ operation: NOWHERE })),
  ),
  one(
    'instance send to a bad certificate',
    'POST',
    `${I}/mig`,
    send(() => ({ certificate: 'nonsense' })),
  ),
  one('instance send with secrets of a wrong type', 'POST', `${I}/mig`, { migration: true, target: { secrets: [] } }),
  one('instance snapshot send', 'POST', `${I}/mig/snapshots/s0`, { name: 'x', migration: true }, { begins: 'leave' }),
  one(
    'instance snapshot send without name',
    'POST',
    `${I}/mig/snapshots/s0`,
    { migration: true },
    { begins: 'cancel' },
  ),
  one('instance snapshot send missing', 'POST', `${I}/mig/snapshots/nope`, { name: 'x', migration: true }),

  one('instance receive without mode', 'POST', I, receive({})),
  one('instance receive in an unknown mode', 'POST', I, receive({ mode: 'relay' })),
  one('instance pull from nothing', 'POST', I, receive({ mode: 'pull' })),
  one('instance pull without architecture', 'POST', I, pull(undefined, { architecture: '' })),
  one('instance pull bad architecture', 'POST', I, pull(undefined, { architecture: 'foo' })),
  one('instance pull from an unknown operation', 'POST', I, pull()),
  one(
    'instance pull from no server',
    'POST',
    I,
    pull(() => ({ operation: NOWHERE })),
  ),
  one(
    'instance pull by plain text',
    'POST',
    I,
    pull(({ https }) => ({ operation: https.replace('https', 'http') })),
  ),
  one(
    'instance pull from no URL',
    'POST',
    I,
    pull(() => ({ operation: 'nonsense' })),
  ),
  one(
    'instance pull bad certificate',
    'POST',
    I,
    pull(() => ({ certificate: 'nonsense' })),
  ),
  one(
    'instance pull without certificate',
    'POST',
    I,
    pull(() => ({ certificate: '' })),
  ),
  one(
    'instance pull without secrets',
    'POST',
    I,
    pull(() => ({ secrets: {} })),
  ),
  one(
    'instance pull with one secret',
    'POST',
    I,
    pull(() => ({ secrets: { control: 'a' } })),
  ),
  one('instance pull to a taken name', 'POST', I, pull(undefined, { name: 'mig' })),
  one('instance pull to a bad name', 'POST', I, pull(undefined, { name: 'a_b' })),
  one('instance pull bad key', 'POST', I, pull(undefined, { config: { 'no.such': '1' } })),
  one('instance pull missing pool', 'POST', I, pull(undefined, { devices: { root: { ...root, pool: 'nope' } } })),
  one('instance pull of a virtual machine', 'POST', I, pull(undefined, { type: 'virtual-machine' })),
  one('instance pull live', 'POST', I, pull(undefined, {}, { live: true })),
  one('instance refresh of nothing', 'POST', I, pull(undefined, {}, { refresh: true })),
  one('instance refresh from an unknown operation', 'POST', I, pull(undefined, { name: 'mig' }, { refresh: true })),
  one('instances after failed pulls', 'GET', I, undefined, { values: namesIn(/^mig/) }),
  one('instance push to a taken name', 'POST', I, push({}, { name: 'mig' })),
  one('instance push live', 'POST', I, push({ live: true }, { name: 'mig-live' }), { begins: 'leave' }),
  one('instance push to a new one', 'POST', I, push({}, { name: 'mig-push' }), { begins: 'leave' }),

  one('instance send to a wrong secret', 'POST', `${I}/mig`, { migration: true }, { begins: 'leave' }),
  one('instance pull with a wrong secret', 'POST', I, pull(wrongSecret)),
  one('instance send to ourselves', 'POST', `${I}/mig`, { migration: true }, { begins: 'leave' }),
  one('instance pull from ourselves', 'POST', I, pull(right)),
  one('instance pulled', 'GET', `${I}/mig-new`),
  one('instance pulled snapshots', 'GET', `${I}/mig-new/snapshots`, undefined, { values: (record) => record }),
  one('instance send to a refresh', 'POST', `${I}/mig`, { migration: true }, { begins: 'leave' }),
  one('instance refresh from ourselves', 'POST', I, pull(right, {}, { refresh: true })),
  one('instance receive from ourselves', 'POST', I, push({}, { name: 'mig-pushed' }), { begins: 'leave' }),
  one('instance push to ourselves', 'POST', `${I}/mig`, send(right)),
  one('instance pulled delete', 'DELETE', `${I}/mig-new`),
];

const volume = (source: object, more: object = {}): object => ({
  name: 'mig-new',
  source: { type: 'migration', ...source },
  ...more,
});
const pullVolume =
  (more: (names: Names) => More = () => ({}), body: object = {}, source: object = {}) =>
  (names: Names): object =>
    volume({ mode: 'pull', ...end(names, more(names)), ...source }, body);
const away = { name: 'mig', migration: true };
const sendVolume =
  (more: (names: Names) => More) =>
  (names: Names): object => ({ ...away, target: end(names, more(names)) });

const volumes: readonly Case[] = [
  one('migration volume', 'POST', V, { name: 'mig', config: { 'user.note': 'kept' } }),
  one('migration volume snapshot', 'POST', `${V}/mig/snapshots`, { name: 's0' }),
  one('volume send', 'POST', `${V}/mig`, away, { begins: 'leave' }),
  one('volume send with another name', 'POST', `${V}/mig`, { ...away, name: 'mig9' }, { begins: 'leave' }),
  one('volume send alone', 'POST', `${V}/mig`, { ...away, volume_only: true }, { begins: 'leave' }),
  one('volume send without name', 'POST', `${V}/mig`, { migration: true }),
  one('volume send missing', 'POST', `${V}/nope`, away),
  one('volume send to nothing', 'POST', `${V}/mig`, { ...away, target: {} }),
  one(
    'volume send to an unknown operation',
    'POST',
    `${V}/mig`,
    sendVolume(() => ({})),
  ),
  one(
    'volume send to no server',
    'POST',
    `${V}/mig`,
    sendVolume(() => ({ operation: NOWHERE })),
  ),
  one(
    'volume send to a bad certificate',
    'POST',
    `${V}/mig`,
    sendVolume(() => ({ certificate: 'nonsense' })),
  ),
  one('volume snapshot send', 'POST', `${V}/mig/snapshots/s0`, { name: 's0', migration: true }),
  one('volume of an instance send', 'POST', '/1.0/storage-pools/p1/volumes/container/mig', away),

  one('volume receive without mode', 'POST', V, volume({})),
  one('volume receive in an unknown mode', 'POST', V, volume({ mode: 'relay' })),
  one('volume pull from nothing', 'POST', V, volume({ mode: 'pull' })),
  one('volume pull from an unknown operation', 'POST', V, pullVolume()),
  one(
    'volume pull from no server',
    'POST',
    V,
    pullVolume(() => ({ operation: NOWHERE })),
  ),
  one(
    'volume pull bad certificate',
    'POST',
    V,
    pullVolume(() => ({ certificate: 'nonsense' })),
  ),
  one(
    'volume pull without secrets',
    'POST',
    V,
    pullVolume(() => ({ secrets: {} })),
  ),
  one('volume pull to a taken name', 'POST', V, pullVolume(undefined, { name: 'mig' })),
  one('volume pull to a bad name', 'POST', V, pullVolume(undefined, { name: 'a/b' })),
  one('volume pull unknown content', 'POST', V, pullVolume(undefined, { content_type: 'nonsense' })),
  one('volume pull bad key', 'POST', V, pullVolume(undefined, { config: { 'no.such': '1' } })),
  one('volume refresh of nothing', 'POST', V, pullVolume(undefined, {}, { refresh: true })),
  one('volume refresh from an unknown operation', 'POST', V, pullVolume(undefined, { name: 'mig' }, { refresh: true })),
  one('volume push to a taken name', 'POST', V, volume({ mode: 'push' }, { name: 'mig' })),
  one('volume push to a new one', 'POST', V, volume({ mode: 'push' }, { name: 'mig-push' }), { begins: 'leave' }),

  one('volume send to ourselves', 'POST', `${V}/mig`, away, { begins: 'leave' }),
  one('volume pull from ourselves', 'POST', V, pullVolume(right)),
  one('volume pulled', 'GET', `${V}/mig-new`),
  one('volume send to a refresh', 'POST', `${V}/mig`, away, { begins: 'leave' }),
  one('volume refresh from ourselves', 'POST', V, pullVolume(right, {}, { refresh: true })),
  one('volume receive from ourselves', 'POST', V, volume({ mode: 'push' }, { name: 'mig-pushed' }), {
    begins: 'leave',
  }),
  one('volume push to ourselves', 'POST', `${V}/mig`, sendVolume(right)),
  one('volume pushed snapshots', 'GET', `${V}/mig-pushed/snapshots`, undefined, { values: (record) => record }),
];

/** The last parts of URLs that match. */
function namesIn(pattern: RegExp): (record: unknown) => unknown {
  return (record) =>
    (record as string[]).map((url) => url.split('/').at(-1) ?? '').filter((name) => pattern.test(name));
}

/** Instances and custom volumes that go to another server, which is the same one here, and come from it. */
export const migrations: readonly Case[] = [
  one('migration listen', 'PATCH', '/1.0', ({ https }: Names) => ({
    config: { 'core.https_address': https.slice('https://'.length) },
  })),
  one('migration pool', 'POST', '/1.0/storage-pools', { name: 'p1', driver: 'dir' }),
  ...instances,
  ...volumes,
];
