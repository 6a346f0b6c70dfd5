import { createHash, timingSafeEqual } from 'node:crypto';
import type { Operations, StartedOperation } from '../operations/contract.ts';
import { imageUrl } from './image-names.ts';

interface Issued {
  readonly fingerprint: string;
  readonly digest: Buffer;
  readonly end: () => void;
}

/** Secrets that open an image to an untrusted caller. Each is a token operation: its secret is good for one download. */
export class ImageSecrets {
  readonly #operations: Operations;
  readonly #newSecret: () => string;
  readonly #issued = new Set<Issued>();

  constructor(operations: Operations, newSecret: () => string) {
    this.#operations = operations;
    this.#newSecret = newSecret;
  }

  issue(project: string, fingerprint: string): StartedOperation {
    const secret = this.#newSecret();
    return this.#operations.start({
      class: 'token',
      project,
      description: 'Image download token',
      resources: { images: [imageUrl(fingerprint)] },
      metadata: { secret },
      mayCancel: true,
      run: (context) =>
        new Promise<void>((resolve) => {
          const issued: Issued = { fingerprint, digest: digestOf(secret), end: resolve };
          this.#issued.add(issued);
          context.signal.addEventListener('abort', () => resolve(), { once: true });
        }).finally(() => this.#forget(secret)),
    });
  }

  opens(fingerprint: string, secret: string): boolean {
    return this.#find(fingerprint, secret) !== undefined;
  }

  /** The secret was used: it opens nothing any more. */
  spend(fingerprint: string, secret: string): void {
    this.#find(fingerprint, secret)?.end();
    this.#forget(secret);
  }

  #find(fingerprint: string, secret: string): Issued | undefined {
    const digest = digestOf(secret);
    return [...this.#issued].find(
      (issued) => issued.fingerprint === fingerprint && timingSafeEqual(issued.digest, digest),
    );
  }

  #forget(secret: string): void {
    const digest = digestOf(secret);
    for (const issued of this.#issued) if (timingSafeEqual(issued.digest, digest)) this.#issued.delete(issued);
  }
}

function digestOf(secret: string): Buffer {
  return createHash('sha256').update(secret).digest();
}
