/** Stored under `/images/<project>/<fingerprint>`. Files lie in `StatePaths.images`. */
export interface ImageRecord {
  readonly project: string;
  /** sha256 hex of the unified tarball, or of metadata and rootfs concatenated. */
  readonly fingerprint: string;
  readonly filename: string;
  /** Bytes of the image files. */
  readonly size: number;
  readonly type: 'container' | 'virtual-machine';
  /** True when `<fingerprint>.rootfs` exists beside `<fingerprint>`. */
  readonly split: boolean;
  readonly architecture: string;
  readonly public: boolean;
  readonly autoUpdate: boolean;
  readonly cached: boolean;
  readonly properties: Readonly<Record<string, string>>;
  readonly profiles: readonly string[];
  readonly createdAt: string;
  readonly expiresAt: string;
  readonly lastUsedAt: string;
  readonly uploadedAt: string;
  readonly updateSource?: {
    readonly server: string;
    readonly protocol: string;
    readonly alias: string;
    readonly certificate: string;
    readonly imageType: string;
  };
}

/** Stored under `/image-aliases/<project>/<name>`. */
export interface ImageAliasRecord {
  readonly project: string;
  readonly name: string;
  readonly description: string;
  readonly target: string;
  readonly type: 'container' | 'virtual-machine';
}
