import type { Operation } from '@keelson/api';
import { type Answer, clientCertificate, httpsCall, type HttpsTarget } from '@keelson/testkit';
import { InstanceWorld } from '../instances/world.ts';

/** A client over HTTPS whose certificate is limited to projects. */
export class Tenant {
  readonly #target: HttpsTarget;

  constructor(target: HttpsTarget) {
    this.#target = target;
  }

  call<T = unknown>(method: string, path: string, body?: unknown): Promise<Answer<T>> {
    return httpsCall<T>(this.#target, method, path, body);
  }

  /** Status of the answer, or the status the operation ended with; and what was said. */
  async outcome(method: string, path: string, body?: unknown): Promise<{ status: number; text: string }> {
    const answer = await this.call(method, path, body);
    if (answer.body.type !== 'async') return { status: answer.status, text: answer.text };
    const ended = await this.call<Pick<Operation, 'status_code' | 'err'> | null>(
      'GET',
      `${answer.body.operation}/wait`,
    );
    const { metadata } = ended.body;
    return metadata === null
      ? { status: ended.status, text: ended.text }
      : { status: metadata.status_code, text: metadata.err };
  }
}

/** An `InstanceWorld` that listens on the network. */
export class SecurityWorld implements AsyncDisposable {
  readonly world: InstanceWorld;
  readonly address: string;

  private constructor(world: InstanceWorld, address: string) {
    this.world = world;
    this.address = address;
  }

  static async open(): Promise<SecurityWorld> {
    const world = await InstanceWorld.open();
    try {
      await world.daemon.run('PATCH', '/1.0', {
        config: { 'core.https_address': '127.0.0.1:0', 'core.trust_password': 'correct horse' },
      });
      const { body } = await world.daemon.request<{ environment: { addresses: string[] } }>('GET', '/1.0');
      return new SecurityWorld(world, body.metadata.environment.addresses[0] ?? '');
    } catch (error) {
      await world[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** A new certificate that may use `projects` only. */
  async tenant(name: string, projects: readonly string[]): Promise<Tenant & { readonly fingerprint: string }> {
    const own = await clientCertificate(name);
    await this.world.daemon.run('POST', '/1.0/certificates', {
      name,
      type: 'client',
      certificate: own.base64,
      restricted: true,
      projects,
    });
    const tenant = new Tenant({ address: this.address, certificate: own.certificate, key: own.key });
    return Object.assign(tenant, { fingerprint: own.fingerprint });
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.world[Symbol.asyncDispose]();
  }
}
