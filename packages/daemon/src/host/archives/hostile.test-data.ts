import { writeFile } from 'node:fs/promises';
import { type Header, pack } from 'tar-stream';

/** One member of an archive made for a test. */
export interface TestEntry {
  readonly name: string;
  readonly type?: NonNullable<Header['type']>;
  readonly link?: string;
  readonly text?: string;
  /** A size the header claims without content behind it: the archive then ends early. */
  readonly claimedSize?: number;
  readonly device?: readonly [number, number];
}

/** A small sound image's metadata.yaml. */
export const METADATA = 'architecture: x86_64\ncreation_date: 1700000000\nproperties:\n  os: Tiny\n';

const metadata: TestEntry = { name: 'metadata.yaml', text: METADATA };
const rootfs: TestEntry = { name: 'rootfs/', type: 'directory' };

/** Unified images that must be refused, with what the refusal names. */
export const hostileImages: readonly { what: string; entries: readonly TestEntry[]; names: RegExp }[] = [
  {
    what: 'an absolute path',
    entries: [metadata, rootfs, { name: '/etc/passwd', text: 'x' }],
    names: /"\/etc\/passwd"/,
  },
  { what: '.. at the start', entries: [metadata, rootfs, { name: '../up', text: 'x' }], names: /"\.\.\/up"/ },
  { what: '.. inside', entries: [metadata, rootfs, { name: 'rootfs/a/../../../up', text: 'x' }], names: /\.\.\/up/ },
  {
    what: 'a folder that becomes a link',
    entries: [metadata, rootfs, { name: 'rootfs', type: 'symlink', link: '/' }],
    names: /"rootfs".*symlink/,
  },
  { what: 'rootfs as a link', entries: [metadata, { name: 'rootfs', type: 'symlink', link: '/' }], names: /"rootfs"/ },
  {
    what: 'a file below a link',
    entries: [
      metadata,
      rootfs,
      { name: 'rootfs/a', type: 'symlink', link: '/etc' },
      { name: 'rootfs/a/passwd', text: 'x' },
    ],
    names: /"rootfs\/a\/passwd".*parent/,
  },
  {
    what: 'a hard link out of the root',
    entries: [metadata, rootfs, { name: 'rootfs/shadow', type: 'link', link: '/etc/shadow' }],
    names: /"rootfs\/shadow"/,
  },
  {
    what: 'a hard link to a file that is not in the archive',
    entries: [metadata, rootfs, { name: 'rootfs/h', type: 'link', link: 'rootfs/missing' }],
    names: /"rootfs\/h"/,
  },
  {
    what: 'a hard link from the root to the metadata',
    entries: [metadata, rootfs, { name: 'rootfs/h', type: 'link', link: 'metadata.yaml' }],
    names: /"rootfs\/h"/,
  },
  {
    what: 'metadata.yaml as a link',
    entries: [{ name: 'metadata.yaml', type: 'symlink', link: '/etc/shadow' }, rootfs],
    names: /"metadata\.yaml"/,
  },
  { what: 'metadata.yaml twice', entries: [metadata, rootfs, metadata], names: /"metadata\.yaml".*twice/ },
  {
    what: 'templates as a link',
    entries: [metadata, rootfs, { name: 'templates', type: 'symlink', link: '/etc' }],
    names: /"templates"/,
  },
  {
    what: 'a template as a link',
    entries: [
      metadata,
      rootfs,
      { name: 'templates/', type: 'directory' },
      { name: 'templates/x.tpl', type: 'symlink', link: '/etc/shadow' },
    ],
    names: /"templates\/x\.tpl"/,
  },
  {
    what: 'a block device',
    entries: [metadata, rootfs, { name: 'rootfs/dev/sda', type: 'block-device', device: [8, 0] }],
    names: /"rootfs\/dev\/sda".*device/,
  },
  {
    what: 'kernel memory',
    entries: [metadata, rootfs, { name: 'rootfs/dev/mem', type: 'character-device', device: [1, 1] }],
    names: /"rootfs\/dev\/mem".*device/,
  },
  {
    what: 'a device outside dev/',
    entries: [metadata, rootfs, { name: 'rootfs/null', type: 'character-device', device: [1, 3] }],
    names: /"rootfs\/null".*device/,
  },
  {
    what: 'a file of many terabytes',
    entries: [metadata, rootfs, { name: 'rootfs/bomb', claimedSize: 8 * 1024 ** 3 }],
    names: /"rootfs\/bomb".*unpacks to more/,
  },
  {
    what: 'an end in the middle of a file',
    entries: [metadata, rootfs, { name: 'rootfs/cut', claimedSize: 1024 * 1024 }],
    names: /damaged or ends early after entry "rootfs\/cut"/,
  },
  {
    what: 'a file that becomes a folder',
    entries: [metadata, rootfs, { name: 'rootfs/a', text: 'x' }, { name: 'rootfs/a/', type: 'directory' }],
    names: /"rootfs\/a\/".*first as a file/,
  },
  { what: 'no metadata.yaml', entries: [rootfs], names: /missing metadata\.yaml/ },
  { what: 'no root', entries: [metadata], names: /Invalid instance type/ },
];

type NewEntry = Partial<Header> & { name: string };

/** Two blocks of zeros, which end a tar. */
const END_LENGTH = 1024;

/** A plain tar; an entry with `claimedSize` must be the last one. */
export async function makeTar(entries: readonly TestEntry[]): Promise<Buffer> {
  const tar = pack();
  let cut: NewEntry | undefined;
  for (const { name, type = 'file', link, text = '', claimedSize, device } of entries) {
    const header: NewEntry = {
      name,
      type,
      ...(link === undefined ? {} : { linkname: link }),
      ...(device === undefined ? {} : { devmajor: device[0], devminor: device[1] }),
    };
    if (claimedSize === undefined) tar.entry(header, text);
    else cut = { ...header, size: claimedSize };
  }
  tar.finalize();
  const chunks: Uint8Array[] = [];
  for await (const chunk of tar as AsyncIterable<Uint8Array>) chunks.push(chunk);
  const whole = Buffer.concat(chunks);
  if (cut === undefined) return whole;
  const last = pack();
  last.entry(cut, () => undefined);
  const head = await new Promise<Uint8Array>((resolve) => {
    last.once('data', (chunk) => resolve(chunk as Uint8Array));
  });
  return Buffer.concat([whole.subarray(0, -END_LENGTH), head, Buffer.alloc(512, 'x')]);
}

export async function writeTar(path: string, entries: readonly TestEntry[]): Promise<void> {
  await writeFile(path, await makeTar(entries));
}
