export interface RetryOptions {
  /** Attempts at most, the first included. */
  readonly attempts: number;
  /** Pause after the first failure in milliseconds; doubles each time. */
  readonly delay: number;
  /** Longest pause. Default 30 s. */
  readonly maxDelay?: number;
  /** False: give up at once. Default: every error is tried again. */
  readonly retryable?: (error: unknown) => boolean;
  readonly signal?: AbortSignal | undefined;
}

/** Runs `work` until it succeeds; rejects with its last error, or with the signal's reason. */
export async function retry<T>(work: (attempt: number) => Promise<T>, options: RetryOptions): Promise<T> {
  const { attempts, maxDelay = 30_000, retryable = () => true, signal } = options;
  let pause = options.delay;
  for (let attempt = 1; ; attempt += 1) {
    signal?.throwIfAborted();
    try {
      return await work(attempt);
    } catch (error) {
      if (attempt >= attempts || !retryable(error)) throw error;
    }
    await sleep(Math.min(pause, maxDelay), signal);
    pause *= 2;
  }
}

/** Resolves after `milliseconds`; rejects with the signal's reason when it aborts first. */
export function sleep(milliseconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted === true) return reject(signal.reason);
    const stop = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', stop);
      resolve();
    }, milliseconds);
    signal?.addEventListener('abort', stop, { once: true });
  });
}
