import type { ImageRecord } from '../../state/records/image.ts';
import type { ExportedFile, ImageExport } from './contract.ts';
import type { ImageFiles, StoredPart } from './ports.ts';

/** The files of an export under the names LXD gives them. */
export async function exportOf(files: ImageFiles, image: ImageRecord): Promise<ImageExport> {
  const { fingerprint } = image;
  const main = await files.part(fingerprint, 'main');
  const named = (part: StoredPart, name: string): ExportedFile => ({
    size: part.size,
    filename: name + part.suffix,
    open: () => files.read(part),
  });
  if (!image.split) return { fingerprint, main: named(main, fingerprint), root: undefined };
  const root = await files.part(fingerprint, 'root');
  return {
    fingerprint,
    main: named(main, `meta-${fingerprint}`),
    root: { ...named(root, fingerprint), disk: image.type === 'virtual-machine' },
  };
}
