// A test fixture: every test gets a system of its own, which is gone when the test ends, however it ends.
//   node --test examples/test-fixture.ts            (KEELSON_EXAMPLE_IMAGE names the image)
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { Client, type Instance } from '@keelson/client';

const alias = process.env['KEELSON_EXAMPLE_IMAGE'] ?? 'debian/bookworm';
const client = new Client();
after(() => client.close());

/** A running system, with files in place. `await using` throws it away. */
async function system(files: Record<string, string> = {}): Promise<Instance> {
  const instance = await client.instances.create({ ephemeral: true, source: { type: 'image', alias }, start: true });
  await instance.files.putAll(Object.entries(files).map(([path, content]) => ({ path, content })));
  return instance;
}

void test('a script counts words', async () => {
  await using machine = await system({ '/root/words': 'one two three\n' });
  const { stdout } = await machine.execute(['wc', '-w', '/root/words']);
  assert.match(stdout, /^3 /);
});

void test('systems do not see each other', async () => {
  await using one = await system({ '/root/secret': 'x' });
  await using two = await system();
  assert.notEqual(one.name, two.name);
  assert.deepEqual((await two.execute(['ls', '/root'])).stdout.includes('secret'), false);
});
