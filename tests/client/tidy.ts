import type { Client } from '@keelson/client';
import type { TestContext } from 'vitest';

/**
 * For `afterEach`: takes away what a test that failed left behind, so that it spoils neither its second try nor the
 * tests after it. Stays: the instances named, running and without snapshots, and the image `tiny`.
 */
export async function tidyAfterFailure({ task }: TestContext, client: Client, kept: readonly string[]): Promise<void> {
  if (task.result?.state !== 'fail') return;
  for (const instance of await client.instances.all({ recursion: 1 })) {
    if (!kept.includes(instance.name)) {
      await instance[Symbol.asyncDispose]();
      continue;
    }
    if (instance.status === 'Frozen') await instance.unfreeze();
    if (instance.status === 'Stopped') await instance.start();
    for (const snapshot of await instance.snapshots.all()) await snapshot.delete();
  }
  for (const image of await client.images.all({ recursion: 1 })) {
    const aliases = image.aliases.map(({ name }) => name);
    if (!aliases.includes('tiny')) await image.delete();
    else for (const name of aliases) if (name !== 'tiny') await image.deleteAlias(name);
  }
}
