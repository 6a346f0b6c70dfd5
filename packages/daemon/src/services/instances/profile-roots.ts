import { errors } from '../../core/errors.ts';
import type { ProfileRecord } from '../../state/records/profile.ts';
import type { InstanceContext } from './context.ts';
import { isRootDisk } from './plan/expand.ts';

type Devices = Readonly<Record<string, Readonly<Record<string, string>>>>;

/** @throws bad-request with LXD's text when an instance would lose the root disk it has from the profile. */
export function checkRootsOfUsers(context: InstanceContext, profile: ProfileRecord): void {
  const users = context.deps.collections.instances
    .list()
    .map(({ value }) => value)
    .filter(
      ({ project, profiles }) => profiles.includes(profile.name) && context.profileProject(project) === profile.project,
    );
  for (const user of users) {
    const keeps = (devices: Devices): boolean => poolOfRoot(devices) === user.pool;
    if (keeps(context.expand(user).devices) && !keeps(context.expandWith(user, profile).devices))
      throw errors.badRequest("At least one instance relies on this profile's root disk device");
  }
}

function poolOfRoot(devices: Devices): string | undefined {
  return Object.values(devices).find(isRootDisk)?.['pool'];
}
