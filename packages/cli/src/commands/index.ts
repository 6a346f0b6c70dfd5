import type { Command } from '../command.ts';
import { createCommands } from './create.ts';
import { execCommands } from './exec.ts';
import { instanceCommands } from './instance.ts';

/** Every command, in the order of the help. */
export const commands: readonly Command[] = [...createCommands, ...instanceCommands, ...execCommands];
