import type { OperationContext } from '../operations/contract.ts';

/** Progress of storage and images as the operation shows it; `label`: what is copied, which goes before the numbers. */
export function progressOf(
  operation: OperationContext,
  label?: string,
): {
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
      const name = stage === 'unpack' ? 'create_instance_from_image_unpack' : stage;
      const labelled = label === undefined ? {} : { label };
      operation.progress(name, { bytes, ...labelled, ...(percent === undefined ? {} : { percent }) });
    },
  };
}
