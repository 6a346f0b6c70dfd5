// Builds an image: a container is changed, published under an alias, and thrown away.
//   node examples/build-an-image.ts [image alias] [alias of the new image]
import { Client } from '@keelson/client';

const [base = 'debian/bookworm', alias = 'motd'] = process.argv.slice(2);

await using client = new Client();
await using builder = await client.instances.create({ source: { type: 'image', alias: base }, start: true });

await builder.files.put('/etc/motd', 'Built with Keelson\n', { mode: 0o644 });
await builder.execute(['sh', '-c', 'echo "more steps go here"']);
await builder.stop({ force: true });

const image = await builder.publish({ wait: true, properties: { description: `${base} with a message` } });
await image?.addAlias(alias);
console.log(`${alias} is ${image?.fingerprint.slice(0, 12)}, ${image?.size} bytes`);
