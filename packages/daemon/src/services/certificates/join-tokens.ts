import type { CertificateAddToken, CertificatesPost } from '@keelson/api';
import { randomBytes, timingSafeEqual } from 'node:crypto';
import type { Operations, StartedOperation } from '../operations/contract.ts';
import type { TrustSettings } from './contract.ts';

/** What the certificate that a token lets in may do. */
export type Grant = Pick<CertificatesPost, 'name' | 'type' | 'restricted' | 'projects'>;

interface Issued {
  readonly grant: Grant;
  readonly operation: string;
}

/** One-time invitations; each lives as long as its operation, and the operation ends when it is used. */
export class JoinTokens {
  readonly #operations: Operations;
  readonly #settings: TrustSettings;
  readonly #issued = new Map<string, Issued>();

  constructor(operations: Operations, settings: TrustSettings) {
    this.#operations = operations;
    this.#settings = settings;
  }

  /** The operation's metadata holds what the client encodes as the token. */
  issue(grant: Grant): StartedOperation {
    const secret = randomBytes(32).toString('hex');
    const { fingerprint } = this.#settings;
    const started = this.#operations.start({
      class: 'token',
      project: 'default',
      description: 'Executing operation',
      resources: {},
      mayCancel: true,
      metadata: {
        addresses: [...this.#settings.addresses()],
        fingerprint,
        request: {
          name: grant.name ?? '',
          type: grant.type ?? 'client',
          restricted: grant.restricted ?? false,
          projects: grant.projects ?? [],
          certificate: '',
          password: '',
          token: true,
        },
      },
      secrets: { secret },
      secretsAs: 'metadata',
      run: (context) =>
        new Promise((_resolve, reject) => {
          context.signal.addEventListener('abort', () => reject(context.signal.reason), { once: true });
        }),
    });
    this.#issued.set(secret, { grant, operation: started.record.id });
    void started.done.then(() => this.#issued.delete(secret));
    return started;
  }

  /** Uses up the token a client brought as its password; undefined when it is none of ours. */
  async redeem(password: string): Promise<Grant | undefined> {
    const secret = secretOf(password);
    if (secret === undefined) return undefined;
    for (const [known, { grant, operation }] of this.#issued) {
      if (!equal(known, secret)) continue;
      this.#issued.delete(known);
      await this.#operations.cancel(operation);
      return grant;
    }
    return undefined;
  }
}

function secretOf(password: string): string | undefined {
  try {
    const token = JSON.parse(Buffer.from(password, 'base64').toString('utf8')) as Partial<CertificateAddToken> | null;
    return typeof token?.secret === 'string' ? token.secret : undefined;
  } catch {
    return undefined;
  }
}

function equal(a: string, b: string): boolean {
  const [left, right] = [Buffer.from(a), Buffer.from(b)];
  return left.length === right.length && timingSafeEqual(left, right);
}
