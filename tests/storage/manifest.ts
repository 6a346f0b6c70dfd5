import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { lstat, readdir, readlink } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';
import { command } from '@keelson/testkit';

/**
 * One line for every file of a tree: owner, mode, time, link target, device, content, attributes, ACLs, holes, and which
 * files are one. `base`: host id that stands for 0.
 */
export async function manifestOf(folder: string, base = 0): Promise<string[]> {
  const attributes = await attributesOf(folder);
  const first = new Map<bigint, string>();
  const lines: string[] = [];
  const walk = async (path: string): Promise<void> => {
    // Names are bytes: one character each.
    const full = Buffer.concat([Buffer.from(`${folder}/`), Buffer.from(path, 'latin1')]);
    const found = await lstat(full, { bigint: true });
    const facts = [
      path,
      (found.mode & 0o170000n).toString(8),
      (found.mode & 0o7777n).toString(8),
      `${found.uid - BigInt(base)}:${found.gid - BigInt(base)}`,
      `mtime ${found.mtimeNs}`,
      ...(attributes.get(path) ?? []),
    ];
    if (found.isSymbolicLink()) facts.push(`-> ${await readlink(full)}`);
    if (found.isCharacterDevice() || found.isBlockDevice()) facts.push(`device ${found.rdev}`);
    if (found.isFile()) {
      facts.push(`${found.size}`, await hashOf(full));
      if (found.size >= 1024n ** 2n && found.blocks * 512n < found.size / 2n) facts.push('holes');
    }
    if (!found.isDirectory() && found.nlink > 1n) {
      const same = first.get(found.ino) ?? path;
      first.set(found.ino, same);
      facts.push(`= ${same}`);
    }
    lines.push(facts.join(' | '));
    if (!found.isDirectory()) return;
    const names = (await readdir(full, { encoding: 'buffer' })).map((name) => name.toString('latin1')).sort();
    for (const name of names) await walk(path === '.' ? name : `${path}/${name}`);
  };
  await walk('.');
  return lines;
}

async function hashOf(path: Buffer): Promise<string> {
  const hash = createHash('sha256');
  await pipeline(createReadStream(path), hash);
  return hash.digest('hex').slice(0, 16);
}

/** Extended attributes and ACLs of every file, links not followed. */
async function attributesOf(folder: string): Promise<Map<string, string[]>> {
  const { stdout } = await command('sh', ['-c', 'cd "$1" && getfattr -R -P -h -d -m - -e hex .', 'sh', folder]);
  const result = new Map<string, string[]>();
  for (const block of stdout.split('\n\n')) {
    const [head = '', ...rest] = block.split('\n').filter((line) => line !== '');
    const name = head.replace(/^# file: /, '');
    const kept = rest.filter((line) => /^(user\.|security\.capability|system\.posix_acl)/.test(line)).sort();
    if (name !== '') result.set(name, kept);
  }
  return result;
}

/**
 * Fills a folder with every kind of file there is; `state` makes contents differ. Times have a part of a second unless
 * `wholeSeconds`: LXD's tarballs round.
 */
export async function fillTree(folder: string, state: number, { wholeSeconds = false } = {}): Promise<void> {
  await command('sh', ['-euc', SCRIPT, 'sh', folder, String(state), wholeSeconds ? '' : '.123456789']);
}

const SCRIPT = `
cd "$1"; s=$2; f=$3
mkdir -p dir/deep "with space" sticky
echo "state $s" > dir/changing; touch -d "2020-01-02 03:04:05$f" dir/changing
if [ "$s" = 1 ]; then
  echo owned > dir/owned; chown 1000:33 dir/owned; chmod 0640 dir/owned
  echo root > dir/setuid; chmod 4755 dir/setuid
  chmod 1777 sticky; chown 65534:65534 sticky
  echo linked > dir/hard1; ln dir/hard1 dir/deep/hard2; ln dir/hard1 hard3
  ln -s ../../../../etc/shadow dir/escape; ln -s nothing dangling; chown -h 1000:1000 dangling
  mkfifo -m 0600 fifo
  mknod -m 0666 null c 1 3; mknod whiteout c 0 0
  truncate -s 8M sparse; printf x | dd of=sparse bs=1 seek=4194304 conv=notrunc status=none
  dd if=/dev/urandom of=big bs=64k count=16 status=none
  setfattr -n user.note -v "a value" dir/owned
  setfattr -n user.folder -v 1 dir
  setfacl -m u:1000:r,g:33:rwx,m::rwx dir/owned
  setfacl -d -m u:1001:rwx dir/deep
  cp /bin/true caps; setcap cap_net_raw+ep caps
  : > ./-dash; : > "with space/new
line"; : > "$(printf 'latin\\351')"
  : > "$(printf '%0200d' 7)"
  touch -h -d "1999-12-31 23:59:58$f" dangling dir/escape
  chown 1000:1000 hard3
else
  rm -f dir/deep/hard2; echo "new $s" > dir/new$s
  chmod 0600 dir/owned; chown $s:$s sticky
  setfattr -x user.note dir/owned 2>/dev/null || :
  setfattr -n user.note$s -v x dir/owned
  printf "$s" | dd of=sparse bs=1 seek=1048576 conv=notrunc status=none
  rm -rf fifo; mkdir fifo; mv "with space" moved$s; mkdir "with space"
fi
find . -depth -newermt '2022-01-01' ! -type l -exec touch -d "2021-06-0$s 01:02:03$f" {} +
touch -d "2020-01-02 03:04:05$f" dir/changing
`;
