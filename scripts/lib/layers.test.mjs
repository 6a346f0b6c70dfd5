import { describe, expect, test } from 'vitest';
import { importsOf, roomOf, violations } from './layers.mjs';

const daemon = (path) => `packages/daemon/src/${path}`;

describe('importsOf', () => {
  test('finds static, type, side-effect, re-export and dynamic imports with their lines', () => {
    const text = [
      "import a from './a.ts';",
      "import type { B } from './b.ts';",
      "import './c.ts';",
      "export { d } from './d.ts';",
      'import {',
      '  e,',
      "} from './e.ts';",
      "const f = await import('./f.ts');",
      "const text = 'not an import';",
    ].join('\n');
    expect(importsOf(text)).toEqual([
      { specifier: './a.ts', typeOnly: false, line: 1 },
      { specifier: './b.ts', typeOnly: true, line: 2 },
      { specifier: './c.ts', typeOnly: false, line: 3 },
      { specifier: './d.ts', typeOnly: false, line: 4 },
      { specifier: './e.ts', typeOnly: false, line: 5 },
      { specifier: './f.ts', typeOnly: false, line: 8 },
    ]);
  });
});

describe('roomOf', () => {
  test.each([
    [daemon('http/routes/instances.ts'), 'http'],
    [daemon('drivers/storage/contract.ts'), 'driver-contract'],
    [daemon('drivers/storage/dir/pool.ts'), 'driver'],
    [daemon('main.ts'), 'main'],
    ['packages/api/src/index.ts', 'api'],
  ])('%s is in %s', (path, room) => expect(roomOf(path)?.name).toBe(room));
});

describe('violations', () => {
  test.each([
    [daemon('http/routes/a.ts'), "import type { X } from '../../services/a/contract.ts';"],
    [daemon('http/access.ts'), "import { isAdmin } from '../services/certificates/caller.ts';"],
    [daemon('services/a/b.ts'), "import type { D } from '../../drivers/storage/contract.ts';"],
    [daemon('services/a/b.ts'), "import { s } from '../../state/store.ts';"],
    [daemon('drivers/storage/dir/pool.ts'), "import { m } from '../../../host/mounts.ts';"],
    [daemon('host/run.ts'), "import { spawn } from 'node:child_process';"],
    [daemon('assembly/daemon.ts'), "import { m } from '../host/mounts.ts';"],
    [daemon('state/records/a.ts'), "import type { A } from '@keelson/api';"],
    ['packages/client/src/a.ts', "import type { A } from '@keelson/api';"],
  ])('allows %s: %s', (path, text) => expect(violations(path, text)).toEqual([]));

  test.each([
    [daemon('http/routes/a.ts'), "import { X } from '../../services/a/a.ts';", /only types of services/u],
    [
      daemon('http/routes/a.ts'),
      "import type { D } from '../../drivers/storage/contract.ts';",
      /may not import driver/u,
    ],
    [daemon('services/a/b.ts'), "import { p } from '../../drivers/storage/dir/pool.ts';", /may not import driver/u],
    [daemon('services/projects/scope.ts'), "import { s } from '../../state/store.ts';", /only types of state/u],
    [daemon('services/a/b.ts'), "import { run } from '../../host/run.ts';", /may not import host/u],
    [daemon('services/a/b.ts'), "import { spawn } from 'node:child_process';", /start processes/u],
    [daemon('drivers/storage/dir/pool.ts'), "import type { N } from '../../network/contract.ts';", /another kind/u],
    [
      daemon('drivers/storage/dir/pool.ts'),
      "import type { S } from '../../../state/store.ts';",
      /may not import state/u,
    ],
    [daemon('host/run.ts'), "import type { S } from '../state/store.ts';", /may not import state/u],
    [daemon('core/a.ts'), "import { run } from '../host/run.ts';", /may not import host/u],
    [daemon('nowhere/a.ts'), '', /belongs to no room/u],
    ['packages/api/src/a.ts', "import { readFile } from 'node:fs';", /may not use Node/u],
    ['packages/cli/src/a.ts', "import { x } from '@keelson/daemon';", /may not import main/u],
  ])('refuses %s: %s', (path, text, why) => expect(violations(path, text)).toEqual([expect.stringMatching(why)]));
});
