import { until } from '@keelson/testkit';

/** Says the storage driver of podman and whether the kernel's own overlays do. */
export const PODMAN_DRIVER =
  'podman info --format \'{{.Store.GraphDriverName}} {{index .Store.GraphStatus "Native Overlay Diff"}}\'';

/** Script for a guest of `podmanImage` that imports, builds and runs; it prints `PODMAN_WORKS`. */
export const USE_PODMAN = [
  PODMAN_DRIVER,
  'podman import -q /root/busybox.tar inner > /dev/null',
  "printf 'FROM inner\\nRUN busybox rm /etc/inner && echo made > /etc/made\\n' > /tmp/Containerfile",
  'podman build -q --network none -t made -f /tmp/Containerfile /tmp > /dev/null',
  'podman run --rm --network none made /bin/busybox cat /etc/made',
  'podman run --rm --network none inner /bin/busybox cat /etc/inner',
  'podman run --rm --network none made /bin/sh -c \'busybox mount | busybox grep -c "^overlay on / type overlay"\'',
].join(' && ');

export const PODMAN_WORKS = 'overlay true\nmade\nfrom the image\n1\n';

/** Resolves when the guest has mounted its cgroups. `run`: a script's output. */
export async function cgroupsIn(run: (script: string) => Promise<string>): Promise<void> {
  await until('the cgroups of the guest', async () => (await run('mount')).includes('/sys/fs/cgroup'), {
    timeoutMs: 120_000,
  });
}
