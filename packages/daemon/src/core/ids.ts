import { randomBytes, randomUUID } from 'node:crypto';

/** Source of unguessable names; a constructor argument wherever they are made. */
export interface Ids {
  /** UUID version 4. */
  uuid(): string;
  /** Lower-case hex of `bytes` random bytes. Default 32. */
  secret(bytes?: number): string;
  /** Hardware address `00:16:3e:xx:xx:xx`. */
  mac(): string;
}

export const randomIds: Ids = {
  uuid: () => randomUUID(),
  secret: (bytes = 32) => randomBytes(bytes).toString('hex'),
  mac: () =>
    `00:16:3e:${randomBytes(3)
      .toString('hex')
      .replace(/(..)(?=.)/g, '$1:')}`,
};
