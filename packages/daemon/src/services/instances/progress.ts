import type { OperationContext } from '../operations/contract.ts';

/** Progress of storage and images as the operation shows it. */
export function progressOf(operation: OperationContext): {
  readonly signal: AbortSignal;
  readonly onProgress: (progress: {
    readonly stage: string;
    readonly bytes: number;
    readonly percent?: number;
  }) => void;
} {
  return {
    signal: operation.signal,
    onProgress: ({ stage, bytes, percent }) => {
      if (bytes === 0 && percent === undefined) return;
      const name = stage === 'unpack' ? 'create_instance_from_image_unpack' : stage;
      operation.progress(name, percent === undefined ? { bytes } : { bytes, percent });
    },
  };
}
