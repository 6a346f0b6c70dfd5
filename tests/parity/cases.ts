import type { Case } from './case.ts';
import { images } from './cases/images.ts';
import { instanceErrors } from './cases/instance-errors.ts';
import { instanceParts } from './cases/instance-parts.ts';
import { instances } from './cases/instances.ts';
import { migrations } from './cases/migrations.ts';
import { networks } from './cases/networks.ts';
import { profiles } from './cases/profiles.ts';
import { server } from './cases/server.ts';
import { storagePools } from './cases/storage-pools.ts';
import { storageVolumes } from './cases/storage-volumes.ts';

/** Every request, in the order they build on each other. */
export const cases: readonly Case[] = [
  ...server,
  ...profiles,
  ...storagePools,
  ...storageVolumes,
  ...networks,
  ...images,
  ...instanceErrors,
  ...instances,
  ...instanceParts,
  ...migrations,
];
