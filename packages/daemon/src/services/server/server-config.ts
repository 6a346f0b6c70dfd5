import { errors } from '../../core/errors.ts';
import type { Precondition } from '../../core/precondition.ts';
import type { Collection } from '../../state/collection.ts';
import type { ServerRecord } from '../../state/records/server.ts';
import { hashPassword, passwordMatches } from '../certificates/password.ts';
import type { ConfigEffect } from './contract.ts';
import { checkServerKey, isSecretKey, serverKeyValue } from './server-keys.ts';

const ID = 'config';
const PASSWORD = 'core.trust_password';

type Config = Readonly<Record<string, string>>;

/** The server's config keys: checked, stored, and put into effect. */
export class ServerConfig {
  readonly #records: Collection<ServerRecord>;
  readonly #effects: ConfigEffect[];
  #turn: Promise<unknown> = Promise.resolve();

  constructor(records: Collection<ServerRecord>, effects: readonly ConfigEffect[]) {
    this.#records = records;
    this.#effects = [...effects];
  }

  /** Before the start. */
  add(effects: readonly ConfigEffect[]): void {
    this.#effects.push(...effects);
  }

  /** Grows with every change. */
  get revision(): number {
    return this.#records.get(ID)?.revision ?? 0;
  }

  get stored(): Config {
    return this.#records.get(ID)?.value.config ?? {};
  }

  /** The value in force, the default where none is set. */
  value(key: string): string {
    return serverKeyValue(this.stored, key);
  }

  /** As `GET /1.0` shows it: secrets only as `true`. */
  get shown(): Readonly<Record<string, string | true>> {
    const entries = Object.entries(this.stored);
    return Object.fromEntries(entries.map(([key, value]) => [key, isSecretKey(key) ? true : value]));
  }

  /** Puts the stored values into effect; called at daemon start. `onError` hears what could not be. */
  async start(onError: (key: string, error: unknown) => void): Promise<void> {
    for (const effect of this.#effects) {
      if (effect.atStart === false) continue;
      await effect.apply(this.value(effect.key)).catch((error: unknown) => onError(effect.key, error));
    }
  }

  async passwordMatches(password: string): Promise<boolean> {
    const hash = this.stored[PASSWORD];
    return hash !== undefined && passwordMatches(password, hash);
  }

  /**
   * One change after another: check every key, bring the changed ones into effect, store. When a later step fails
   * the effects go back. `merge` keeps the keys that are not given. @throws bad-request naming the key.
   */
  async change(given: Readonly<Record<string, unknown>>, merge: boolean, precondition: Precondition): Promise<void> {
    const turn = this.#turn.then(() => this.#change(given, merge, precondition));
    this.#turn = turn.catch(() => undefined);
    await turn;
  }

  async #change(given: Readonly<Record<string, unknown>>, merge: boolean, precondition: Precondition): Promise<void> {
    const before = this.stored;
    precondition([this.shown]);
    const after = await this.#wanted(before, given, merge);
    const value = ({ key }: ConfigEffect): string => serverKeyValue(after, key);
    const changed = this.#effects.filter((effect) => value(effect) !== serverKeyValue(before, effect.key));
    for (const effect of changed) await effect.check?.(value(effect), after);
    const applied: ConfigEffect[] = [];
    try {
      for (const effect of changed) {
        await effect.apply(value(effect));
        applied.push(effect);
      }
      await this.#store(after);
    } catch (error) {
      for (const effect of applied.reverse())
        await effect.apply(serverKeyValue(before, effect.key)).catch(() => undefined);
      throw error;
    }
    for (const effect of applied) await effect.settled?.();
  }

  async #wanted(before: Config, given: Readonly<Record<string, unknown>>, merge: boolean): Promise<Config> {
    const wanted: Record<string, string> = merge ? { ...before } : {};
    for (const [key, value] of Object.entries(given)) {
      const old = before[key];
      // What GET showed for a secret comes back unchanged in a PUT.
      if (value === true && isSecretKey(key)) {
        if (old !== undefined) wanted[key] = old;
        continue;
      }
      const text = textOf(key, value);
      checkServerKey(key, text);
      if (text === '') delete wanted[key];
      else wanted[key] = isSecretKey(key) ? await hashPassword(text) : text;
    }
    return wanted;
  }

  async #store(config: Config): Promise<void> {
    if (this.#records.get(ID) === undefined) await this.#records.create(ID, { config });
    else await this.#records.update(ID, () => ({ config }));
  }
}

/** LXD's clients may send numbers and booleans as such. */
function textOf(key: string, value: unknown): string {
  if (typeof value === 'string') return value;
  if (typeof value === 'boolean' || typeof value === 'number') return String(value);
  throw errors.badRequest(`Field "config.${key}" must be string`);
}
