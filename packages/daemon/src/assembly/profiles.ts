import { profileRoutes } from '../http/routes/profiles.ts';
import type { ProfileGuard } from '../services/profiles/contract.ts';
import { ProfileService } from '../services/profiles/profile-service.ts';
import type { Foundations } from './foundations.ts';
import type { Vertical } from './vertical.ts';

export interface ProfilesVertical extends Vertical {
  readonly service: ProfileService;
}

/** `guard` is asked when a profile changes, so the instances may be made after this. */
export function profilesVertical(base: Foundations, guard: ProfileGuard): ProfilesVertical {
  const { profiles, instances, projects } = base.records;
  const { ledger, events } = base;
  const service = new ProfileService({ ledger, profiles, instances, projects, events, guard });
  return { service, routes: profileRoutes(service), start: () => service.ensureDefault() };
}
