// Launches a container, runs commands in it, and deletes it.
//   node examples/launch-and-exec.ts [image alias]
import { Client } from '@keelson/client';

const [alias = 'debian/bookworm'] = process.argv.slice(2);

await using client = new Client();
await using web = await client.instances.create({ source: { type: 'image', alias }, start: true });
console.log(`${web.name} is ${web.status}`);

const { exitCode, stdout } = await web.execute(['cat', '/etc/os-release']);
console.log(`exit code ${exitCode}:\n${stdout}`);

// Streams: output as it comes, input as it is written.
await using sort = await web.exec(['sort']);
await sort.write('pear\napple\n');
sort.endInput();
for await (const chunk of sort.stdout) process.stdout.write(chunk);
console.log(`sort ended with ${await sort.exited}`);
