import type { ProgressOptions } from '../contract.ts';

const REPORT_EVERY = 64 * 1024 * 1024;

/** Reports the bytes of a stream, now and then. */
export function byteCounter(stage: string, { onProgress }: ProgressOptions): (count: number) => void {
  let [bytes, reported] = [0, 0];
  return (count) => {
    bytes += count;
    if (bytes - reported < REPORT_EVERY) return;
    reported = bytes;
    onProgress?.({ stage, bytes });
  };
}
