import type { Command } from '../command.ts';
import { adminCommands } from './admin.ts';
import { backupCommands } from './backup.ts';
import { completionCommands } from './completion.ts';
import { configCommands } from './config.ts';
import { consoleCommands } from './console.ts';
import { copyCommands } from './copy.ts';
import { createCommands } from './create.ts';
import { execCommands } from './exec.ts';
import { fileCommands } from './file.ts';
import { imageCommands } from './image.ts';
import { instanceCommands } from './instance.ts';
import { listCommands } from './list.ts';
import { networkCommands } from './network.ts';
import { operationCommands } from './operation.ts';
import { profileCommands } from './profile.ts';
import { projectCommands } from './project.ts';
import { remoteCommands } from './remote.ts';
import { serverCommands } from './server.ts';
import { snapshotCommands } from './snapshot.ts';
import { storageCommands } from './storage.ts';
import { trustCommands } from './trust.ts';
import { volumeAttachCommands } from './volume-attach.ts';
import { volumeCopyCommands } from './volume-copy.ts';
import { volumeSnapshotCommands } from './volume-snapshot.ts';
import { volumeCommands } from './volume.ts';

const all: readonly Command[] = [
  ...createCommands,
  ...listCommands,
  ...instanceCommands,
  ...copyCommands,
  ...execCommands,
  ...consoleCommands,
  ...fileCommands,
  ...snapshotCommands,
  ...backupCommands,
  ...configCommands,
  ...imageCommands,
  ...profileCommands,
  ...storageCommands,
  ...volumeCommands,
  ...volumeCopyCommands,
  ...volumeAttachCommands,
  ...volumeSnapshotCommands,
  ...networkCommands,
  ...projectCommands,
  ...remoteCommands,
  ...trustCommands,
  ...operationCommands,
  ...serverCommands,
  ...adminCommands,
];

/** Every command, in the order of the help. */
export const commands: readonly Command[] = [...all, ...completionCommands(all)];
