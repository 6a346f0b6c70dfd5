const seconds = (from) => `${((Date.now() - from) / 1000).toFixed(1)} s`;

/**
 * Runs named steps one after the other and says how long each took; a step longer than a second shows that it lives.
 * A step returns a word for what it did ("already there" when nothing).
 */
export class Steps {
  /** @type {{name: string, ms: number}[]} */
  timings = [];
  #out;

  /** @param {NodeJS.WriteStream} [out] */
  constructor(out = process.stdout) {
    this.#out = out;
  }

  /**
   * @template T
   * @param {string} name
   * @param {(say: (text: string) => void) => Promise<T>} work
   * @returns {Promise<T>}
   */
  async run(name, work) {
    const start = Date.now();
    const live = this.#out.isTTY === true;
    let detail = '';
    const draw = () => this.#out.write(`\r\u001b[K  ${name} … ${detail} ${seconds(start)}`);
    const beat = () => this.#out.write(`  ${name} … ${detail} ${seconds(start)}\n`);
    const timer = setInterval(live ? draw : beat, live ? 200 : 15_000);
    try {
      const result = await work((text) => (detail = text));
      const word = typeof result === 'string' ? result : 'done';
      this.#out.write(`${live ? '\r\u001b[K' : ''}  ${name}: ${word} (${seconds(start)})\n`);
      return result;
    } catch (error) {
      this.#out.write(`${live ? '\r\u001b[K' : ''}  ${name}: failed (${seconds(start)})\n`);
      throw error;
    } finally {
      clearInterval(timer);
      this.timings.push({ name, ms: Date.now() - start });
    }
  }
}
