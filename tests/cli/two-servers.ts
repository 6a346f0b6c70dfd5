import { CliWorld, type Person } from './world.ts';

/** Two servers, `here` with the instance `c1` and its snapshot `s0`, and `b:`; a person at the first who knows both. */
export class TwoServers implements AsyncDisposable {
  readonly here: CliWorld;
  readonly there: CliWorld;
  readonly person: Person;

  private constructor(here: CliWorld, there: CliWorld) {
    this.here = here;
    this.there = there;
    this.person = here.person;
  }

  static async open(): Promise<TwoServers> {
    await using stack = new AsyncDisposableStack();
    const [here, there] = [stack.use(await CliWorld.open()), stack.use(await CliWorld.open())];
    const servers = new TwoServers(here, there);
    await servers.#prepare();
    stack.move();
    return servers;
  }

  async #prepare(): Promise<void> {
    const { person, there } = this;
    for (const { daemon } of [this.here, there]) {
      await daemon.run('PATCH', '/1.0', {
        config: { 'core.https_address': '127.0.0.1:0', 'core.trust_password': 'sesame' },
      });
      await daemon.run('POST', '/1.0/storage-pools', { name: 'q', driver: 'dir' });
    }
    const { body } = await there.daemon.request<{ environment: { addresses: string[] } }>('GET', '/1.0');
    const address = body.metadata.environment.addresses[0] ?? '';
    await person.ok('remote', 'add', 'b', address, '--accept-certificate', '--password', 'sesame');
    await person.ok('init', 'tiny', 'c1', '-c', 'user.note=first');
    await person.run(['file', 'push', '-', 'c1/root/file'], { input: 'one\n' });
    await person.ok('snapshot', 'create', 'c1', 's0');
    await person.ok('config', 'set', 'c1', 'user.note=second');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.here[Symbol.asyncDispose]();
    await this.there[Symbol.asyncDispose]();
  }
}
