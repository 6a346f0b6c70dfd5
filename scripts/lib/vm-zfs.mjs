import { cp, mkdir, readdir, rename, rm, writeFile } from 'node:fs/promises';
import { cpus } from 'node:os';
import { join } from 'node:path';
import { aptSources, defaultSuite, mirrorOf } from './debian-image.mjs';
import { capture, must } from './process.mjs';

/** In an order in which they can be loaded; since 2.2 there are only the first and the last. */
const MODULES = ['spl', 'zavl', 'znvpair', 'zcommon', 'icp', 'zlua', 'zunicode', 'zzstd', 'zfs'];
const LIBRARIES = [
  'libnvpair3linux',
  'libuutil3linux',
  'libzfs4linux',
  'libzfs6linux',
  'libzpool5linux',
  'libzpool6linux',
];

/**
 * Debian's ZFS for a kernel: modules, built once, and tools, both unpacked and not installed. Needs a C compiler and make.
 * @param {{folder: string, version: string, release: 'stable' | 'backports'}} options `folder` keeps what is built,
 * `version` is the kernel's
 * @param {(text: string) => void} say
 * @returns {Promise<{modules: string[], tree: string}>} files in the order of loading; a folder to lay over the machine's root
 */
export async function debianZfs({ folder, version, release }, say) {
  const place = join(folder, `zfs-${release}-${version}`);
  const there = await readdir(place).catch(() => /** @type {string[]} */ ([]));
  if (!there.includes('tree')) {
    await rm(place, { recursive: true, force: true });
    await mkdir(place, { recursive: true });
    await build(place, { version, release }, say);
  }
  const built = await readdir(join(place, 'modules'));
  const modules = MODULES.filter((name) => built.includes(`${name}.ko`)).map((name) =>
    join(place, 'modules', `${name}.ko`),
  );
  return { modules, tree: join(place, 'tree') };
}

async function build(place, { version, release }, say) {
  say(`zfs for ${version}: packages`);
  const apt = await privateApt(place, release);
  const packed = join(place, 'packed');
  await mkdir(packed);
  const download = (options, names) => must(['apt-get', '-qq', ...options, 'download', ...names], { cwd: packed });
  await download(apt, ['zfs-dkms', 'zfsutils-linux', ...(await offered(apt, LIBRARIES))]);
  const kbuild = `linux-kbuild-${version.split('.', 2).join('.')}`;
  const common = `linux-headers-${version.replace(/-[^-]*$/u, '-common')}`;
  await download(['-o', 'APT::Sandbox::User=root'], [`linux-headers-${version}`, common, kbuild]);

  const [sources, tree] = [join(place, 'sources'), join(place, 'tree.new')];
  for (const file of await readdir(packed)) {
    const isTool = !/^(?:linux-|zfs-dkms)/u.test(file);
    await must(['dpkg', '-x', join(packed, file), isTool ? tree : sources]);
  }
  await joinUsr(tree);
  await joinUsr(sources);
  say(`zfs for ${version}: modules`);
  await buildModules(place, { sources, version });
  for (const name of ['apt', 'packed', 'sources']) await rm(join(place, name), { recursive: true, force: true });
  await rename(tree, join(place, 'tree'));
}

/** Options that make apt see Debian's `contrib` without a change to this machine. */
async function privateApt(place, release) {
  const root = join(place, 'apt');
  for (const name of ['lists/partial', 'cache/archives/partial']) await mkdir(join(root, name), { recursive: true });
  const mirror = mirrorOf(aptSources());
  if (mirror === undefined) throw new Error('apt has no sources');
  const suite = `${await defaultSuite()}${release === 'backports' ? '-backports' : ''}`;
  const keys = '/usr/share/keyrings/debian-archive-keyring.gpg';
  await writeFile(join(root, 'sources.list'), `deb [signed-by=${keys}] ${mirror} ${suite} contrib\n`);
  const options = {
    'Dir::Etc::SourceList': join(root, 'sources.list'),
    'Dir::Etc::SourceParts': '-',
    'Dir::State::Lists': join(root, 'lists'),
    'Dir::Cache': join(root, 'cache'),
    'APT::Sandbox::User': 'root',
  };
  const apt = Object.entries(options).flatMap(([name, value]) => ['-o', `${name}=${value}`]);
  await must(['apt-get', '-qq', ...apt, 'update']);
  return apt;
}

/** The packages among `names` that there are. */
async function offered(apt, names) {
  const { stdout } = await capture(['apt-cache', ...apt, 'madison', ...names]);
  return names.filter((name) => stdout.includes(name));
}

/** Makes /bin, /sbin and /lib of a tree part of its /usr, as they are on the machine. */
async function joinUsr(tree) {
  for (const name of ['bin', 'sbin', 'lib']) {
    await cp(join(tree, name), join(tree, 'usr', name), { recursive: true, verbatimSymlinks: true, force: true }).catch(
      (error) => {
        if (error.code !== 'ENOENT') throw error;
      },
    );
    await rm(join(tree, name), { recursive: true, force: true });
  }
}

/** The build sees the unpacked headers where they belong, in /usr; nobody else does. */
async function buildModules(place, { sources, version }) {
  const modules = join(place, 'modules');
  await mkdir(modules);
  const usr = join(sources, 'usr');
  const zfs = (await readdir(join(usr, 'src'))).find((name) => name.startsWith('zfs-'));
  const kernel = `/usr/lib/modules/${version}`;
  const script = `
    set -e
    mount -t overlay -o "lowerdir=$1:/usr" overlay /usr
    cd "$2"
    ./configure --with-config=kernel --with-linux=$(readlink -f ${kernel}/source) --with-linux-obj=$(readlink -f ${kernel}/build)
    make -j${cpus().length}
    find module -name '*.ko' -exec cp {} "$3" ';'
    strip -g "$3"/*.ko`;
  await must(['unshare', '--mount', 'bash', '-c', script, 'bash', usr, join(usr, 'src', zfs ?? ''), modules]);
}
