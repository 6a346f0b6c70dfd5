import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { build, type Metafile } from 'esbuild';
import { describe, expect, it } from 'vitest';

/** A bundle for browsers. */
async function bundle(contents: string): Promise<{ code: Uint8Array; metafile: Metafile }> {
  const { outputFiles, metafile } = await build({
    stdin: { contents, resolveDir: fileURLToPath(new URL('..', import.meta.url)) },
    bundle: true,
    write: false,
    metafile: true,
    minify: true,
    format: 'esm',
    platform: 'browser',
    target: 'es2022',
    conditions: ['source'],
    logLevel: 'silent',
  });
  return { code: outputFiles[0]?.contents ?? new Uint8Array(), metafile };
}

describe('browser bundle', () => {
  it('leaves out what is not used', async () => {
    const { code } = await bundle(`export { NotFound } from '@keelson/client'`);
    expect(code.byteLength).toBeGreaterThan(100);
    expect(code.byteLength).toBeLessThan(2000);
  });

  it('imports nothing of Node and is below 40 kB gzipped', async () => {
    const { code, metafile } = await bundle(`export * from '@keelson/client'`);
    const inputs = Object.keys(metafile.inputs);
    expect(inputs.filter((path) => /node-transport|node_modules\/ws\//.test(path))).toEqual([]);
    expect(inputs.filter((path) => path.startsWith('node:'))).toEqual([]);
    expect(inputs.some((path) => path.endsWith('browser-transport.ts'))).toBe(true);
    const size = gzipSync(code).byteLength;
    expect(size).toBeGreaterThan(5_000);
    expect(size).toBeLessThan(40_000);
  });
});
