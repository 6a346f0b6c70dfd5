import { copyFileSync, cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { allOf, command, named, type Probe, probePrograms } from '@keelson/testkit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Fixture, servers } from './servers.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));

/** A Node of the machine, as old as the package promises to support, beside the one that runs the tests. */
const nodes = ['/usr/bin/node', '/usr/local/bin/node', process.execPath].filter((path) => existsSync(path));
const [node = process.execPath] = nodes;
const kind = servers[0];
const probe: Probe = kind === undefined ? { ok: false, reason: 'no server' } : allOf(kind.probe, probePrograms('npm'));

/** The first TypeScript block of a markdown file; it has to be plain JavaScript too. */
function firstExample(path: string): string {
  const found = /```ts\n([^]*?)```/.exec(readFileSync(path, 'utf8'))?.[1];
  if (found === undefined) throw new Error(`${path} has no example`);
  return found;
}

describe.skipIf(!probe.ok)(named('the package', probe), () => {
  let folder: string;
  let fixture: Fixture;
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'keelson-pack-'));
    if (kind === undefined) throw new Error('no server');
    fixture = await Fixture.start(kind);
  });
  afterAll(async () => {
    await fixture?.[Symbol.asyncDispose]();
    rmSync(folder, { recursive: true, force: true });
  });

  /** Builds a library into a copy of its package, so that nobody's dist is touched, and packs that. */
  async function pack(name: 'api' | 'client'): Promise<string> {
    const copy = join(folder, 'build', name);
    mkdirSync(copy, { recursive: true });
    const outDir = join(copy, 'dist');
    const options = ['--outDir', outDir, '--declaration', '--noEmit', 'false', '--customConditions', 'source'];
    await command(join(root, 'node_modules/.bin/tsc'), [
      '-p',
      join(root, `packages/${name}/tsconfig.build.json`),
      ...options,
    ]);
    const files = ['package.json', ...(name === 'client' ? ['README.md'] : [])];
    for (const file of files) copyFileSync(join(root, `packages/${name}`, file), join(copy, file));
    const { stdout } = await command('npm', ['pack', '--json', '--pack-destination', folder], { cwd: copy });
    const [packed] = JSON.parse(stdout) as [{ filename: string; files: { path: string }[] }];
    expect(packed.files.map(({ path }) => path).filter((path) => /\.test\.|testing\//.test(path))).toEqual([]);
    if (name === 'client') expect(packed.files.map(({ path }) => path)).toContain('dist/browser.js');
    return join(folder, packed.filename);
  }

  it("is packed, installed into a fresh folder, and runs its README's example on the machine's Node", async () => {
    const [api, client] = await Promise.all([pack('api'), pack('client')]);
    const app = join(folder, 'app');
    // What the packages depend on comes from this repository's own install, so that no registry is asked.
    const dependencies: Record<string, string> = { '@keelson/api': `file:${api}`, '@keelson/client': `file:${client}` };
    for (const name of ['ws', 'typebox']) {
      const copy = join(folder, 'dependencies', name);
      cpSync(join(root, 'node_modules', name), copy, { recursive: true });
      dependencies[name] = `file:${copy}`;
    }
    rmSync(app, { recursive: true, force: true });
    mkdirSync(app);
    const manifest = { name: 'app', private: true, type: 'module', dependencies, overrides: dependencies };
    writeFileSync(join(app, 'package.json'), JSON.stringify(manifest));
    await command('npm', ['install', '--offline', '--no-audit', '--no-fund', '--ignore-scripts'], { cwd: app });
    writeFileSync(join(app, 'main.js'), firstExample(join(root, 'packages/client/README.md')));
    const env = { KEELSON_DIR: join(fixture.socket, '..'), NODE_OPTIONS: '' };
    const { stdout } = await command(node, ['main.js', 'tiny'], { cwd: app, env, timeoutMs: 50_000 });
    expect(stdout).toMatch(/has \d+ API extensions\n0 hello from web\n/);
    expect(await fixture.client.instances.exists('web')).toBe(false);
  });
});
