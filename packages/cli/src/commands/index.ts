import type { Command } from '../command.ts';
import { configCommands } from './config.ts';
import { createCommands } from './create.ts';
import { execCommands } from './exec.ts';
import { fileCommands } from './file.ts';
import { imageCommands } from './image.ts';
import { instanceCommands } from './instance.ts';
import { networkCommands } from './network.ts';
import { profileCommands } from './profile.ts';
import { projectCommands } from './project.ts';
import { serverCommands } from './server.ts';
import { snapshotCommands } from './snapshot.ts';
import { storageCommands } from './storage.ts';
import { volumeCommands } from './volume.ts';

/** Every command, in the order of the help. */
export const commands: readonly Command[] = [
  ...createCommands,
  ...instanceCommands,
  ...execCommands,
  ...fileCommands,
  ...snapshotCommands,
  ...configCommands,
  ...imageCommands,
  ...profileCommands,
  ...storageCommands,
  ...volumeCommands,
  ...networkCommands,
  ...projectCommands,
  ...serverCommands,
];
