import { UsageError } from '../command.ts';

/** How the API says that something never expires. */
export const NEVER = '0001-01-01T00:00:00Z';

/** A time as RFC 3339; `never` for none. @throws UsageError */
export function timeOf(text: string): string {
  if (text === NEVER || text === 'never') return NEVER;
  const time = new Date(text);
  if (Number.isNaN(time.getTime())) throw new UsageError(`"${text}" is no time such as 2027-01-31T12:00:00Z`);
  return time.toISOString();
}
