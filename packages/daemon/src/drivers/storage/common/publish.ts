import { errors } from '../../../core/errors.ts';
import { errnoOf, renameNoReplace } from '../../../host/syscalls.ts';

/** Gives something finished its name, in one step. @throws conflict when the name is taken. */
export async function renameOrConflict(from: string, to: string, name: string): Promise<void> {
  try {
    await renameNoReplace(from, to);
  } catch (error) {
    if (errnoOf(error) === 'EEXIST' || errnoOf(error) === 'ENOTEMPTY')
      throw errors.conflict(`Volume "${name}" already exists`);
    throw error;
  }
}
