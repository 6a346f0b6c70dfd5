// Backs up an instance into a file, and makes a copy from it.
//   node examples/back-up.ts <instance> <file> [name of the copy]
import { createReadStream } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { Client } from '@keelson/client';

const [name, file, copy] = process.argv.slice(2);
if (name === undefined || file === undefined) throw new Error('usage: back-up.ts <instance> <file> [name of the copy]');

await using client = new Client();
await client.assertHasApiExtension('container_backup');
const instance = await client.instances.get(name);

await instance.backups.create({ name: 'nightly', compression_algorithm: 'gzip' });
try {
  await writeFile(file, await instance.backups.export('nightly'));
} finally {
  await instance.backups.delete('nightly');
}
console.log(`${name} is in ${file}`);

if (copy !== undefined) {
  const restored = await client.instances.import(createReadStream(file), { name: copy });
  console.log(`${restored.name} was made from it`);
}
