/** Source of time; a constructor argument wherever time matters. */
export interface Clock {
  /** Milliseconds since 1970. */
  now(): number;
  /** Nanoseconds since 1970; never goes back by itself. */
  nanoseconds(): bigint;
}

const nanosPerMilli = 1_000_000n;
/** A larger gap than this between the two clocks means that somebody set the time. */
const driftLimit = 50n * nanosPerMilli;

/** The machine's clock. */
export class SystemClock implements Clock {
  #anchor = this.#newAnchor();

  now(): number {
    return Date.now();
  }

  nanoseconds(): bigint {
    const steady = this.#anchor + process.hrtime.bigint();
    const drift = steady - BigInt(Date.now()) * nanosPerMilli;
    if (drift > driftLimit || drift < -driftLimit) {
      this.#anchor = this.#newAnchor();
      return this.#anchor + process.hrtime.bigint();
    }
    return steady;
  }

  #newAnchor(): bigint {
    return BigInt(Date.now()) * nanosPerMilli - process.hrtime.bigint();
  }
}

/** A clock that stands still until it is told to move; for tests. */
export class ManualClock implements Clock {
  #nanoseconds: bigint;

  constructor(start = 1_600_000_000_000) {
    this.#nanoseconds = BigInt(start) * nanosPerMilli;
  }

  now(): number {
    return Number(this.#nanoseconds / nanosPerMilli);
  }

  nanoseconds(): bigint {
    return this.#nanoseconds;
  }

  advance(milliseconds: number): void {
    this.#nanoseconds += BigInt(Math.round(milliseconds * 1e6));
  }
}

/** LXD's "never" in most records. */
export const zeroTime = '0001-01-01T00:00:00Z';

/** RFC 3339 in UTC with up to nine digits of a second and no zeros at their end, as Go prints it. */
export function formatNano(nanoseconds: bigint): string {
  const seconds = nanoseconds / 1_000_000_000n;
  const fraction = String(nanoseconds % 1_000_000_000n)
    .padStart(9, '0')
    .replace(/0+$/, '');
  const whole = new Date(Number(seconds) * 1000).toISOString().slice(0, 19);
  return fraction === '' ? `${whole}Z` : `${whole}.${fraction}Z`;
}

/** The present, formatted. */
export function timestamp(clock: Clock): string {
  return formatNano(clock.nanoseconds());
}
