import { writeSync } from 'node:fs';
import { openSqliteStore } from '../../packages/daemon/src/state/sqlite/sqlite-store.ts';

/**
 * Writes pairs of documents without end, eight writers at once, and tells each one on standard output when the store
 * has acknowledged it. Arguments: database file, number of the first pair.
 */
const [file = '', first = '0'] = process.argv.slice(2);
const store = await openSqliteStore({ file });
let next = Number(first);

async function write(): Promise<never> {
  for (;;) {
    const number = next;
    next += 1;
    // Longer than a page now and then, so that a commit is more than one write.
    const value = { number, filler: 'x'.repeat(number % 7 === 0 ? 9000 : 50) };
    const result = await store.transact(
      [{ key: `/pairs/${number}/a`, revision: 0 }],
      [
        { type: 'put', key: `/pairs/${number}/a`, value },
        { type: 'put', key: `/pairs/${number}/b`, value },
        { type: 'put', key: '/last', value: number },
      ],
    );
    if (!result.committed) throw new Error(`Pair ${number} is there already`);
    writeSync(1, `${number} ${result.revision}\n`);
  }
}

await Promise.all(Array.from({ length: 8 }, write));
