import { createReadStream } from 'node:fs';
import { APIException, Client, type Instance, NotFound, type ServerEvent, StaleObject } from '@keelson/client';
import { clientCertificate, named, until } from '@keelson/testkit';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { freePort } from './free-port.ts';
import { Fixture, servers } from './servers.ts';
import { tidyAfterFailure } from './tidy.ts';

describe.each(servers)('client: $name', (kind) => {
  describe.skipIf(!kind.probe.ok)(named('against the server', kind.probe), () => {
    let fixture: Fixture;
    let client: Client;
    let instance: Instance;
    beforeAll(async () => {
      fixture = await Fixture.start(kind);
      client = fixture.client;
      instance = await client.containers.create({ name: 'c1', source: { type: 'image', alias: 'tiny' }, start: true });
    });
    afterEach((context) => tidyAfterFailure(context, client, ['c1']));
    afterAll(async () => {
      await instance?.[Symbol.asyncDispose]().finally(() => fixture?.[Symbol.asyncDispose]());
    });

    it('execute tells exit code, stdout and stderr apart', async () => {
      // LXD may lose what a command wrote just before it ended.
      const pause = kind.name === 'Keelson' ? '' : 'sleep 0.5;';
      const command = ['sh', '-c', `echo out; echo err >&2; echo $WHO; pwd; id -u; ${pause} exit 7`];
      const options = { environment: { WHO: 'me' }, cwd: '/home/tester', user: 1000, group: 1000 };
      expect(await instance.execute(command, options)).toEqual({
        exitCode: 7,
        stdout: 'out\nme\n/home/tester\n1000\n',
        stderr: 'err\n',
      });
    });

    it('execute passes input and output through whole', async () => {
      const data = Buffer.alloc(300_000, 'keelson ');
      const { stdout } = await instance.execute(['cat'], { stdin: data });
      expect(stdout).toBe(data.toString());
      const pieces = async function* (): AsyncGenerator<string> {
        yield 'a\n';
        yield 'b\n';
      };
      expect((await instance.execute(['cat'], { stdin: pieces() })).stdout).toBe('a\nb\n');
    });

    it('exec streams output as it comes', async () => {
      await using process = await instance.exec(['sh', '-c', 'echo first; read line; echo "got $line"']);
      const output = process.stdout[Symbol.asyncIterator]();
      const first = await output.next();
      expect(Buffer.from(first.value ?? []).toString()).toBe('first\n');
      await process.write('hello\n');
      expect(Buffer.from((await output.next()).value ?? []).toString()).toBe('got hello\n');
      expect(await process.exited).toBe(0);
    });

    it('an aborted signal kills the command', async () => {
      const controller = new AbortController();
      const process = await instance.exec(['sh', '-c', 'echo $$ > /tmp/pid; echo up; exec sleep 1000'], {
        signal: controller.signal,
      });
      await process.stdout[Symbol.asyncIterator]().next();
      controller.abort(new Error('enough'));
      await expect(process.exited).rejects.toThrow('enough');
      await until('the command to end', async () => {
        const { exitCode } = await instance.execute(['sh', '-c', 'kill -0 $(cat /tmp/pid)']);
        return exitCode !== 0;
      });
      await expect(instance.execute(['true'], { signal: controller.signal })).rejects.toThrow('enough');
    });

    it('a shell has a terminal that can be resized', async () => {
      // LXD may lose what a command wrote just before it ended.
      const pause = kind.name === 'Keelson' ? ':' : 'sleep 0.5';
      const wait = 'until [ "$(stty size)" = "40 120" ]; do sleep 0.05; done';
      const command = ['sh', '-c', `stty size; ${wait}; read line; echo "resized $line"; ${pause}`];
      await using shell = await instance.shell(command, { width: 100, height: 30 });
      const output = shell.stdout[Symbol.asyncIterator]();
      let text = '';
      const shows = async (wanted: string): Promise<void> => {
        while (!text.includes(wanted)) {
          const { value, done } = await output.next();
          if (done) throw new Error(`the terminal showed only ${JSON.stringify(text)}`);
          text += Buffer.from(value).toString();
        }
      };
      await shows('30 100');
      shell.resize(120, 40);
      await shell.write('well\n');
      await shows('resized well');
      expect(await shell.exited).toBe(0);
    });

    it('a command that is not there is an error', async () => {
      await expect(instance.execute(['no-such-command'])).rejects.toBeInstanceOf(APIException);
    });

    it('the console shows what the guest prints', async () => {
      await using console = await instance.console({ width: 80, height: 24, signal: AbortSignal.timeout(30_000) });
      await instance.execute(['sh', '-c', 'for i in 1 2 3 4; do echo hello >/dev/console; sleep 0.1; done']);
      let text = '';
      for await (const chunk of console.stdout) {
        text += Buffer.from(chunk).toString();
        if (text.includes('hello')) break;
      }
      expect(text).toContain('hello');
    });

    it('files: put, get, list, walk, link, delete', async () => {
      await instance.files.putAll([
        { path: '/root/tree' },
        { path: '/root/tree/sub', mode: 0o750 },
        { path: '/root/tree/sub/a.bin', content: Buffer.from([0, 1, 255]), uid: 1000, gid: 1000, mode: 0o640 },
      ]);
      await instance.files.symlink('/root/tree/link', 'sub/a.bin');
      const file = await instance.files.get('/root/tree/sub/a.bin');
      expect([...(await file.bytes())]).toEqual([0, 1, 255]);
      expect(file.info).toEqual({ type: 'file', uid: 1000, gid: 1000, mode: 0o640 });
      await instance.files.put('/root/tree/sub/a.bin', 'more', { append: true });
      expect((await instance.files.list('/root/tree')).toSorted()).toEqual(['link', 'sub']);
      const found: string[] = [];
      for await (const { path, info } of instance.files.walk('/root/tree')) found.push(`${info.type} ${path}`);
      expect(found.toSorted()).toEqual([
        'directory /root/tree/sub',
        'file /root/tree/sub/a.bin',
        'symlink /root/tree/link',
      ]);
      await instance.files.delete('/root/tree/sub/a.bin');
      await expect(instance.files.get('/root/tree/sub/a.bin')).rejects.toBeInstanceOf(NotFound);
      await expect(instance.files.list('/etc/passwd')).rejects.toThrow('not a folder');
    });

    it('state, freeze, unfreeze, restart, stop, start', async () => {
      const state = await instance.state();
      expect([state.status, (state.pid ?? 0) > 0]).toEqual(['Running', true]);
      await instance.freeze();
      expect(instance.status).toBe('Frozen');
      await instance.unfreeze();
      // LXD may still end the guest it has just restarted, when it cleans up after the old one.
      if (kind.name !== 'LXD') await instance.restart({ force: true });
      expect((await instance.sync()).status).toBe('Running');
      await instance.stop({ force: true });
      expect(instance.status).toBe('Stopped');
      await instance.start();
      expect(instance.status).toBe('Running');
    });

    it('a sparse instance fetches once for all its attributes', async () => {
      const [sparse] = await client.instances.all();
      const [status, type] = await Promise.all([sparse?.status, sparse?.type]);
      expect([sparse?.name, status, type]).toEqual(['c1', 'Running', 'container']);
      expect((await client.virtualMachines.all()).map(({ name }) => name)).toEqual([]);
      expect((await client.containers.all({ recursion: 1 })).map(({ name }) => name)).toEqual(['c1']);
    });

    it('save under an old ETag is refused', async () => {
      const [one, two] = await Promise.all([client.profiles.get('default'), client.profiles.get('default')]);
      one.description = 'first';
      two.description = 'second';
      await one.save();
      await expect(two.save()).rejects.toMatchObject({ name: 'PreconditionFailed', status: 412 });
    });

    it('copy, rename, publish, metadata, templates, logs', async () => {
      await using copy = await instance.copy('c2');
      await copy.rename('c3');
      expect([copy.name, (await copy.files.list('/')).includes('etc')]).toEqual(['c3', true]);
      expect((await copy.templates.metadata()).architecture).toBe('x86_64');
      expect(await copy.templates.all()).toEqual(['hostname.tpl']);
      await copy.templates.put('more.tpl', 'text');
      expect(await copy.templates.get('more.tpl')).toBe('text');
      const image = await copy.publish({ wait: true, properties: { colour: 'green' } });
      expect(image?.properties['colour']).toBe('green');
      await image?.delete();
      expect(await instance.logs.all()).toBeInstanceOf(Array);
    });

    it('backups: make, list, get, rename, export, import, delete', async ({ skip }) => {
      const missing = await fixture.lacks('container_backup');
      if (missing !== undefined) skip(missing);
      await using small = await client.instances.create({ name: 'c4', source: { type: 'image', alias: 'tiny' } });
      await small.backups.create({ name: 'b0' });
      await small.backups.rename('b0', 'b1');
      expect(await small.backups.all()).toEqual(['b1']);
      expect((await small.backups.get('b1')).name).toMatch(/b1$/);
      await using copied = await client.instances.import(await small.backups.export('b1'), { name: 'c5' });
      expect(copied.name).toBe('c5');
      await small.backups.delete('b1');
      expect(await small.backups.all()).toEqual([]);
    });

    it('an ephemeral instance is stale when it has stopped', async () => {
      const source = { type: 'image' as const, alias: 'tiny' };
      const one = await client.instances.create({ name: 'c6', ephemeral: true, source, start: true });
      await one.stop({ force: true });
      await until('it to be gone', async () => !(await client.instances.exists('c6')));
      await one[Symbol.asyncDispose]();
      await one.delete().catch((error: unknown) => {
        if (!(error instanceof StaleObject || error instanceof NotFound)) throw error;
      });
    });

    it('lifecycle events are typed, and end with their signal', async () => {
      const controller = new AbortController();
      const stream = client.events({ types: ['lifecycle'], signal: controller.signal });
      await stream.opened();
      const seen: ServerEvent[] = [];
      const reading = (async () => {
        for await (const event of stream) {
          seen.push(event);
          if (event.type === 'lifecycle' && event.metadata.action === 'profile-deleted') controller.abort();
        }
      })();
      reading.catch(() => undefined); // waited for below
      await (await client.profiles.create('short')).delete();
      await reading;
      const actions = seen.map((event) => (event.type === 'lifecycle' ? event.metadata.action : event.type));
      expect(actions).toEqual(['profile-created', 'profile-deleted']);
    });

    it('progress of an operation comes through its events', async () => {
      const seen = new Set<string>();
      await using made = await client.instances.create(
        { name: 'c7', source: { type: 'image', alias: 'tiny' } },
        { onProgress: ({ status }) => seen.add(status) },
      );
      expect([made.name, seen.has('Success')]).toEqual(['c7', true]);
    });

    it('HTTPS: pinned certificate, authenticate, and wrong ones', async () => {
      const port = await freePort();
      await client.server.patch({ 'core.https_address': `127.0.0.1:${port}` });
      const endpoint = `https://127.0.0.1:${port}`;
      const record = await client.server.get();
      const verify = 'environment' in record ? (record.environment.certificate ?? '') : '';
      const pair = await clientCertificate('https');
      const cert = { cert: pair.certificate, key: pair.key };
      await using remote = new Client({ endpoint, verify, cert });
      await until('the listener', async () => (await remote.api.get()).status === 200);
      await expect(remote.instances.all()).rejects.toMatchObject({ status: 403 });
      const wrong = remote.authenticate('wrong password');
      await expect(wrong).rejects.toSatisfy((error: Error) => !`${error.stack}`.includes('wrong password'));
      await remote.authenticate(await client.certificates.createToken('remote'));
      expect((await remote.instances.all()).map(({ name }) => name)).toContain('c1');
      const inside = await remote.instances.get('c1');
      expect((await inside.execute(['echo', 'over TLS'])).stdout).toBe('over TLS\n');
      expect((await client.certificates.get(pair.fingerprint)).name).toBe('remote');
      await using distrusting = new Client({ endpoint, cert });
      await expect(distrusting.server.get()).rejects.toMatchObject({ name: 'ClientConnectionFailed', endpoint });
      await using blind = new Client({ endpoint, cert, verify: false });
      expect((await blind.api.get()).status).toBe(200);
      await using other = new Client({ endpoint, cert, verify: pair.certificate });
      await expect(other.server.get()).rejects.toMatchObject({ name: 'ClientConnectionFailed' });
    });

    it('HTTPS: authenticate with the trust password', async ({ skip }) => {
      if (kind.name === 'Incus') skip('Incus has no trust password');
      const port = await freePort();
      await client.server.patch({ 'core.https_address': `127.0.0.1:${port}`, 'core.trust_password': 'open sesame' });
      const { certificate, key } = await clientCertificate('password');
      const endpoint = `https://127.0.0.1:${port}`;
      await using remote = new Client({ endpoint, verify: false, cert: { cert: certificate, key } });
      await until('the listener', async () => (await remote.api.get()).status === 200);
      await expect(remote.authenticate('wrong')).rejects.toBeInstanceOf(APIException);
      await remote.authenticate('open sesame');
      expect(await remote.instances.exists('c1')).toBe(true);
    });

    it('images stream from and to files', async () => {
      const image = await client.images.create(createReadStream(fixture.image.unified));
      let size = 0;
      for await (const chunk of await image.export()) size += chunk.byteLength;
      expect(size).toBe(image.size);
      await image.delete();
    });
  });
});
