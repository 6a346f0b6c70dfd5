import { mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { buildDebianImage, defaultSuite } from './debian-image.mjs';

export const POOL = 'default';
export const BRIDGE = 'keelbr0';
export const FIRST = 'first';

/**
 * The devices the default profile lacks; devices somebody chose are left alone.
 * @param {Record<string, {type: string, path?: string}>} devices
 */
export function missingDevices(devices) {
  const present = Object.values(devices);
  const missing = {};
  if (!present.some(({ type, path }) => type === 'disk' && path === '/')) {
    missing.root = { type: 'disk', path: '/', pool: POOL };
  }
  if (!present.some(({ type }) => type === 'nic')) missing.eth0 = { type: 'nic', name: 'eth0', network: BRIDGE };
  return missing;
}

/**
 * The first global IPv4 address of an instance's state, if it has one.
 * @param {{network?: Record<string, {addresses: {family: string, scope: string, address: string}[]}> | null}} state
 */
export function addressOf(state) {
  return Object.values(state.network ?? {})
    .flatMap(({ addresses }) => addresses)
    .find(({ family, scope }) => family === 'inet' && scope === 'global')?.address;
}

/** @param {import('./unix-http.mjs').Api} api */
export async function ensurePool(api) {
  if (await api.find(`/1.0/storage-pools/${POOL}`)) return 'already there';
  await api.call('POST', '/1.0/storage-pools', { name: POOL, driver: 'dir', config: {} });
  return 'created';
}

/** @param {import('./unix-http.mjs').Api} api */
export async function ensureBridge(api) {
  const found = await api.find(`/1.0/networks/${BRIDGE}`);
  if (found?.managed) return 'already there';
  await api.call('POST', '/1.0/networks', { name: BRIDGE, type: 'bridge', config: {} });
  return 'created';
}

/** @param {import('./unix-http.mjs').Api} api */
export async function ensureProfile(api) {
  const profile = await api.call('GET', '/1.0/profiles/default');
  const devices = missingDevices(profile.devices);
  if (Object.keys(devices).length === 0) return 'already there';
  await api.call('PATCH', '/1.0/profiles/default', { devices });
  return `added ${Object.keys(devices).join(' and ')}`;
}

async function fromServer(api, server, alias) {
  const source = { type: 'image', mode: 'pull', protocol: 'simplestreams', server, alias };
  const operation = await api.call('POST', '/1.0/images', { source });
  return operation.metadata.fingerprint;
}

async function fromPackages(api, options, say) {
  const folder = mkdtempSync(join(options.scratch, 'image-'));
  try {
    const files = await buildDebianImage({ folder, suite: options.suite, now: Date.now() }, say);
    say('importing');
    const operation = await api.upload('/1.0/images', files);
    return operation.metadata.fingerprint;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/**
 * Makes sure the alias exists: from the image server when one is given and answers, else built from Debian's packages.
 * @param {import('./unix-http.mjs').Api} api
 * @param {{scratch: string, server: string | undefined}} options
 * @param {(text: string) => void} say
 * @returns {Promise<{alias: string, word: string}>}
 */
export async function ensureImage(api, { scratch, server }, say) {
  const suite = await defaultSuite();
  const alias = `debian/${suite}`;
  if (await api.find(`/1.0/images/aliases/${encodeURIComponent(alias)}`)) return { alias, word: 'already there' };
  let fingerprint;
  let word = `built from Debian ${suite}'s packages`;
  if (server) {
    try {
      say(`asking ${server}`);
      fingerprint = await fromServer(api, server, alias);
      word = `downloaded from ${server}`;
    } catch (error) {
      say(`${server} has no ${alias} (${error.message}); building it`);
    }
  }
  fingerprint ??= await fromPackages(api, { scratch, suite }, say);
  await api.call('POST', '/1.0/images/aliases', { name: alias, target: fingerprint, description: `Debian ${suite}` });
  return { alias, word };
}

/**
 * Makes sure the container is there and running.
 * @param {import('./unix-http.mjs').Api} api
 * @param {string} alias
 */
export async function ensureFirst(api, alias) {
  const instance = await api.find(`/1.0/instances/${FIRST}`);
  if (instance?.status === 'Running') return 'already running';
  if (!instance) {
    const source = { type: 'image', alias };
    await api.call('POST', '/1.0/instances', { name: FIRST, type: 'container', source });
  }
  await api.call('PUT', `/1.0/instances/${FIRST}/state`, { action: 'start', timeout: 60 });
  return instance ? 'started' : 'launched';
}

/**
 * Waits until the container has an address.
 * @param {import('./unix-http.mjs').Api} api
 * @param {number} timeout milliseconds
 * @returns {Promise<string>}
 */
export async function waitForAddress(api, timeout = 120_000) {
  for (const end = Date.now() + timeout; Date.now() < end; await sleep(200)) {
    const address = addressOf(await api.call('GET', `/1.0/instances/${FIRST}/state`));
    if (address) return address;
  }
  throw new Error(
    `container ${FIRST} got no address within ${timeout / 1000} s; look at "journalctl" inside it, and at the network: ` +
      `keelson network show ${BRIDGE}`,
  );
}

/**
 * Runs a command in the container and returns what it printed.
 * @param {import('./unix-http.mjs').Api} api
 * @param {string[]} command
 */
export async function runInFirst(api, command) {
  const body = { command, 'record-output': true, 'wait-for-websocket': false, interactive: false };
  const operation = await api.call('POST', `/1.0/instances/${FIRST}/exec`, body);
  const { return: code, output } = operation.metadata;
  const text = output?.['1'] ? await api.text(output['1']) : '';
  if (code !== 0) throw new Error(`${command.join(' ')} in container ${FIRST} ended with exit code ${code}`);
  return text.trim();
}
