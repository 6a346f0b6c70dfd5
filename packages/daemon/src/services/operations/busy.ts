import type { OperationSpec } from './contract.ts';

/** What to say when `holder` keeps the lock `key`: LXD's words for an instance, the same in general for the rest. */
export function busyText(key: string, holder: Pick<OperationSpec, 'description' | 'action'>): string {
  const action = holder.action ?? actionOf(holder.description);
  const [noun = '', ...rest] = key.split('/');
  if (noun === 'instance') return `Instance is busy running a "${action}" operation`;
  const name = rest.at(-1);
  const object = noun.charAt(0).toUpperCase() + noun.slice(1);
  return `${object}${name === undefined ? '' : ` "${name}"`} is busy running a "${action}" operation`;
}

/** LXD's verbs by the first word of a description. */
const verbs: Readonly<Record<string, string>> = {
  creating: 'create',
  copying: 'copy',
  deleting: 'delete',
  freezing: 'freeze',
  migrating: 'migrate',
  refreshing: 'refresh',
  renaming: 'rename',
  restarting: 'restart',
  restoring: 'restore',
  snapshotting: 'snapshot',
  starting: 'start',
  stopping: 'stop',
  unfreezing: 'unfreeze',
  updating: 'update',
};

function actionOf(description: string): string {
  const word = (description.split(' ')[0] ?? '').toLowerCase();
  return verbs[word] ?? word;
}
