import { command } from '@keelson/testkit';

/** Everything a tree holds that a transfer must keep, one line a fact, sorted. */
export type Manifest = readonly string[];

/**
 * Owners, modes, times, sizes, links, hard links, device numbers, contents, holes, extended attributes and ACLs of
 * `folder`. `base`: host id that stands for guest id 0 there.
 */
export async function manifestOf(folder: string, base = 0): Promise<Manifest> {
  const run = async (program: string, ...args: string[]): Promise<string[]> => {
    const { stdout } = await command(program, args, { cwd: folder });
    return stdout.split('\n').filter((line) => line !== '');
  };
  const entries = await run('find', '.', '-printf', '%P\\t%y\\t%m\\t%U\\t%G\\t%s\\t%n\\t%T@\\t%l\\t%b\\t%i\\n');
  const links = new Map<string, string[]>();
  const lines = entries.map((line) => {
    const [path = '', kind = '', mode, uid, gid, size = '', count, time, target, blocks, inode = ''] = line.split('\t');
    const file = kind === 'f';
    if (file) links.set(inode, [...(links.get(inode) ?? []), path]);
    const holes = file && Number(size) >= 1_000_000 && Number(blocks) * 512 < Number(size) / 2 ? 'holes' : '';
    const facts = [
      kind,
      mode,
      Number(uid) - base,
      Number(gid) - base,
      file ? `${size} bytes, ${count} names,` : '',
      time,
      target,
      holes,
    ];
    return `entry ${path}: ${facts.join(' ')}`;
  });
  const same = [...links.values()].filter((paths) => paths.length > 1).map((paths) => `same ${paths.sort().join(' ')}`);
  const devices = await run('find', '.', '-type', 'c', '-exec', 'stat', '-c', 'device %n %t:%T', '{}', '+');
  const contents = await run('find', '.', '-type', 'f', '-exec', 'sha256sum', '{}', '+');
  const attributes = await command(
    'getfattr',
    ['-R', '-P', '-h', '-d', '-e', 'hex', '-m', '^(user|security|trusted)\\.', '.'],
    { cwd: folder },
  );
  const acls = await command('getfacl', ['-R', '-P', '-n', '-s', '.'], { cwd: folder });
  const unshifted = acls.stdout.replaceAll(
    /^((?:default:)?(?:user|group):)(\d+)/gm,
    (_all, kind: string, id: string) => `${kind}${Number(id) - base}`,
  );
  return [
    ...lines,
    ...same,
    ...devices,
    ...contents,
    ...blocksOf(
      attributes.stdout.replaceAll(ROOTED, (all, head: string, id: string) =>
        fromLittleEndian(id) === base ? `0x01000002${head}` : all,
      ),
      'attributes',
    ),
    ...blocksOf(unshifted.replaceAll(/^# (owner|group|flags):.*\n/gm, ''), 'acl'),
  ].sort();
}

/** A file capability of a guest: the host sees whose root it is meant for. */
const ROOTED = /0x01000003([0-9a-f]{32})([0-9a-f]{8})/g;

function fromLittleEndian(hex: string): number {
  return Buffer.from(hex, 'hex').readUInt32LE();
}

/** The manifest as far as a transfer keeps it that leaves hard links behind. */
export function withoutHardLinks(manifest: Manifest): string[] {
  return manifest.filter((line) => !line.startsWith('same ')).map((line) => line.replace(/, \d+ names,/, ','));
}

/** Blocks separated by empty lines, one line each. */
function blocksOf(text: string, label: string): string[] {
  return text
    .split('\n\n')
    .map((block) => block.trim().split('\n').sort().join(' '))
    .filter((block) => block !== '')
    .map((block) => `${label} ${block}`);
}

/** Fills the empty folder `nasty` of a root whose files carry ids from `base` on. */
export async function makeNasty(root: string, base = 0): Promise<string> {
  const script = `
set -e
mkdir "$1/nasty"; cd "$1/nasty"
own() { chown -h $(($2 + BASE)):$(($3 + BASE)) "$1"; }
echo plain > plain; own plain 0 0
echo user > owned; chmod 640 owned; own owned 1000 1001
cp plain setuid; own setuid 0 0; chmod 4755 setuid
ln plain hard
ln -s /etc/passwd link; own link 1000 1000
ln -s ../../../../../../etc/shadow outside; own outside 0 0
mknod null c 1 3; own null 0 0; chmod 666 null
mkfifo pipe; own pipe 5 5
truncate -s 20M sparse; printf end >> sparse; own sparse 0 0
mkdir -p deep/er; chmod 2775 deep/er; own deep 1000 1000; own deep/er 1000 50
echo x > "deep/name with  spaces and ünïcode"; own "deep/name with  spaces and ünïcode" 7 7
setfattr -n user.note -v hello plain
setfattr -n user.note -v folder deep
setfacl -m u:$((2000 + BASE)):rw,g:$((3000 + BASE)):r owned
setfacl -d -m u:$((2000 + BASE)):rwx deep
cp plain capable; own capable 0 0; if [ $BASE = 0 ]; then setcap cap_net_raw=ep capable; else setcap -n $BASE cap_net_raw=ep capable; fi
# rsync leaves a time alone that is wrong by less than the second it works in
find . -exec touch -h -d '2005-05-05 05:05:05.5' {} +
touch -h -d '2001-02-03 04:05:06.123456789' plain link deep
touch -d '1999-12-31 23:59:59' sparse
own . 0 0; touch -d '2010-01-01' .
`;
  await command('sh', ['-c', script, 'sh', root], { env: { BASE: String(base) } });
  return `${root}/nasty`;
}
