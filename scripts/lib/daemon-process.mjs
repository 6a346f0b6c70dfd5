import { spawn } from 'node:child_process';
import { closeSync, mkdirSync, openSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { ROOT } from './process.mjs';
import { Api } from './unix-http.mjs';

const MAIN = join(ROOT, 'packages/daemon/dist/main.js');

/** The state folder: $KEELSON_DIR, else /var/lib/keelson. */
export function stateFolder(env = process.env) {
  return env['KEELSON_DIR'] || '/var/lib/keelson';
}

/** @param {string} folder */
export function apiOf(folder) {
  return new Api(join(folder, 'unix.socket'));
}

/**
 * `GET /1.0`, undefined while nobody answers.
 * @param {Api} api
 */
export async function ping(api) {
  try {
    return await api.call('GET', '/1.0');
  } catch (error) {
    if (['ENOENT', 'ECONNREFUSED', 'ECONNRESET'].includes(error.code)) return undefined;
    throw error;
  }
}

const pidFile = (folder) => join(folder, 'keelsond.pid');
const isAlive = (pid) => {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
};

/**
 * Starts keelsond in a session of its own; its log goes to logs/keelsond.log.
 * @param {string} folder
 * @returns {number} its process id
 */
function launch(folder) {
  mkdirSync(join(folder, 'logs'), { recursive: true, mode: 0o711 });
  const log = openSync(join(folder, 'logs', 'keelsond.log'), 'a', 0o600);
  const program = join(ROOT, 'node_modules', 'node', 'bin', 'node');
  const child = spawn(program, [MAIN, '--state-dir', folder], {
    cwd: '/',
    detached: true,
    env: { PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', LANG: 'C.UTF-8', KEELSON_DIR: folder },
    stdio: ['ignore', log, log],
  });
  closeSync(log);
  child.unref();
  if (child.pid === undefined) throw new Error(`cannot start ${program}`);
  writeFileSync(pidFile(folder), `${child.pid}\n`);
  return child.pid;
}

/** The socket is as old as the daemon. */
function isOlderThanBuild(folder) {
  return statSync(join(folder, 'unix.socket')).mtimeMs < statSync(MAIN).mtimeMs;
}

function lastLog(folder) {
  try {
    return readFileSync(join(folder, 'logs', 'keelsond.log'), 'utf8')
      .trim()
      .split('\n')
      .slice(-10)
      .join('\n');
  } catch {
    return '';
  }
}

/**
 * Makes sure a daemon answers on the socket of `folder`.
 * @param {string} folder
 * @param {number} timeout milliseconds
 */
export async function ensureDaemon(folder, timeout = 60_000) {
  const api = apiOf(folder);
  const running = await ping(api);
  if (running) {
    const word = `already running (process ${running.environment.server_pid})`;
    return isOlderThanBuild(folder) ? `${word}, from an older build: npm run down, then up, to take the new one` : word;
  }
  const pid = launch(folder);
  for (const end = Date.now() + timeout; Date.now() < end; await sleep(50)) {
    if (await ping(api)) return `started (process ${pid})`;
    if (!isAlive(pid)) throw new Error(`keelsond ended while it started. Its log says:\n${lastLog(folder)}`);
  }
  throw new Error(`keelsond did not answer within ${timeout / 1000} s. Its log says:\n${lastLog(folder)}`);
}

/** The process to stop: the one that answers, else the one `up` started if it is still the daemon. */
async function findDaemon(folder) {
  const server = await ping(apiOf(folder));
  if (server) return server.environment.server_pid;
  try {
    const pid = Number(readFileSync(pidFile(folder), 'utf8'));
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('daemon/dist/main.js') ? pid : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Asks the daemon to stop and waits until it is gone; containers go on running.
 * @param {string} folder
 * @param {number} timeout milliseconds
 */
export async function stopDaemon(folder, timeout = 60_000) {
  const pid = await findDaemon(folder);
  if (pid === undefined) return 'not running';
  process.kill(pid, 'SIGTERM');
  for (const end = Date.now() + timeout; Date.now() < end; await sleep(50)) {
    if (!isAlive(pid)) return `stopped (process ${pid})`;
  }
  throw new Error(`keelsond (process ${pid}) did not stop within ${timeout / 1000} s; see ${folder}/logs/keelsond.log`);
}
