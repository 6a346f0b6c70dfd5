/** How far a stage is; see `OperationContext.progress`. */
export interface Progress {
  readonly bytes?: number;
  readonly percent?: number;
  readonly bytesPerSecond?: number;
  /** What the stage is about, such as a volume's name. */
  readonly label?: string;
}

/** Words LXD puts before the numbers of a stage. */
const labels: Readonly<Record<string, string>> = {
  create_instance_from_image_unpack: 'Unpack',
  create_image_from_container_pack: 'Image pack',
  download: 'rootfs',
};

/** The metadata of a stage: LXD's text `<stage>_progress`, and the object `progress` whose members are texts too. */
export function progressMetadata(stage: string, progress: Progress): Record<string, unknown> {
  const amount = progress.percent === undefined ? amountOf(progress.bytes) : `${Math.floor(progress.percent)}%`;
  const speed = progress.bytesPerSecond === undefined ? '' : ` (${formatBytes(progress.bytesPerSecond)}/s)`;
  const words = progress.label ?? labels[stage];
  const label = words === undefined ? '' : `${words}: `;
  return {
    [`${stage}_progress`]: `${label}${amount}${speed}`.trim(),
    progress: {
      stage,
      ...(progress.percent === undefined ? {} : { percent: String(Math.floor(progress.percent)) }),
      ...(progress.bytes === undefined ? {} : { processed: String(Math.round(progress.bytes)) }),
      ...(progress.bytesPerSecond === undefined ? {} : { speed: String(Math.round(progress.bytesPerSecond)) }),
    },
  };
}

const amountOf = (bytes: number | undefined): string => (bytes === undefined ? '' : formatBytes(bytes));

/** Decimal units with two digits: `1.89GB`; whole numbers below a kilobyte: `12B`. */
export function formatBytes(bytes: number): string {
  if (bytes < 1000) return `${Math.round(bytes)}B`;
  let value = bytes;
  for (const unit of ['kB', 'MB', 'GB', 'TB', 'PB']) {
    value /= 1000;
    if (value < 1000) return `${value.toFixed(2)}${unit}`;
  }
  return `${(value / 1000).toFixed(2)}EB`;
}
