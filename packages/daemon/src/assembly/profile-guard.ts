import type { InstanceService } from '../services/instances/instance-service.ts';
import type { ProfileGuard } from '../services/profiles/contract.ts';
import type { ProjectGuard } from '../services/projects/contract.ts';

/** Profiles keep the rules of instances and projects, and instances follow them. `instances` is asked late: it is built after. */
export function profileGuard(
  projects: Pick<ProjectGuard, 'checkProfile'>,
  instances: () => Pick<InstanceService, 'check' | 'apply'>,
): ProfileGuard {
  return {
    check: (profile) => {
      instances().check(profile);
      projects.checkProfile(profile);
    },
    apply: (before, after) => instances().apply(before, after),
  };
}
