import { execFile } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const root = fileURLToPath(new URL('..', import.meta.url));

interface Comment {
  readonly summary?: readonly { readonly text: string }[];
}

interface Reflection {
  readonly name: string;
  readonly children?: readonly Reflection[];
  readonly signatures?: readonly {
    readonly comment?: Comment;
    readonly type?: { readonly name?: string };
    readonly inheritedFrom?: unknown;
  }[];
}

/** Classes whose every asynchronous method is a request. */
const REQUESTS =
  /^(Model|Manager|Backups|ServerInfo|Instance(Files|Logs|Templates)?|StoragePoolResources)$|Manager$|Volume(Snapshots)?$|^(Image|Network|Snapshot|Operation)$/;

describe('reference site', () => {
  const folder = mkdtempSync(join(tmpdir(), 'keelson-client-site-'));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  let pages: Reflection;

  // TypeDoc fails for a symbol without JSDoc, one that is not exported, and a link that leads nowhere.
  beforeAll(async () => {
    const typedoc = join(root, 'node_modules/typedoc/bin/typedoc');
    const args = [
      '--options',
      join(root, 'typedoc.json'),
      '--out',
      join(folder, 'site'),
      '--json',
      join(folder, 'pages.json'),
    ];
    await promisify(execFile)(process.execPath, [typedoc, ...args], { cwd: root });
    pages = JSON.parse(readFileSync(join(folder, 'pages.json'), 'utf8')) as Reflection;
  }, 120_000);

  it('has a page for everything public, without a warning', () => {
    expect(existsSync(join(folder, 'site/index.html'))).toBe(true);
    expect(pages.children?.map(({ name }) => name)).toEqual(
      expect.arrayContaining([
        'Client',
        'Instance',
        'StoragePool',
        'ApiNode',
        'ClientConnectionFailed',
        'exportToFile',
      ]),
    );
  });

  it('names the endpoint of every request', () => {
    const without: string[] = [];
    for (const { name, children = [] } of pages.children?.filter((page) => REQUESTS.test(page.name)) ?? []) {
      for (const method of children) {
        for (const { comment, type, inheritedFrom } of method.signatures ?? []) {
          if (inheritedFrom !== undefined || !/^(Promise|AsyncGenerator)$/.test(type?.name ?? '')) continue;
          const text = (comment?.summary ?? []).map((part) => part.text).join('');
          if (!/`(GET|POST|PUT|PATCH|DELETE)\b/.test(text)) without.push(`${name}.${method.name}`);
        }
      }
    }
    expect(without).toEqual([]);
  });
});
