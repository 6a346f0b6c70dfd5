import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { build } from 'esbuild';
import { describe, expect, it } from 'vitest';

describe('browser bundle', () => {
  it('imports nothing of Node and is below 40 kB gzipped', async () => {
    const { outputFiles, metafile } = await build({
      stdin: { contents: `export * from '@keelson/client'`, resolveDir: fileURLToPath(new URL('..', import.meta.url)) },
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
    const code = outputFiles[0]?.contents ?? new Uint8Array();
    const inputs = Object.keys(metafile.inputs);
    expect(inputs.filter((path) => /node-transport|node_modules\/ws\//.test(path))).toEqual([]);
    expect(inputs.some((path) => path.endsWith('browser-transport.ts'))).toBe(true);
    const size = gzipSync(code).byteLength;
    expect(size).toBeGreaterThan(5_000);
    expect(size).toBeLessThan(40_000);
  });
});
