import { projectRoutes } from '../http/routes/projects.ts';
import { RecordProjectGuard } from '../services/projects/project-guard.ts';
import { ProjectService } from '../services/projects/project-service.ts';
import type { Foundations } from './foundations.ts';
import type { Vertical } from './vertical.ts';

export interface ProjectsVertical extends Vertical {
  readonly service: ProjectService;
  readonly guard: RecordProjectGuard;
}

export function projectsVertical({ records, ledger, operations, events }: Foundations): ProjectsVertical {
  const { projects, certificates } = records;
  const guard = new RecordProjectGuard(projects, records);
  const service = new ProjectService({ ledger, projects, certificates, members: records, guard, operations, events });
  return { service, guard, routes: projectRoutes(service), start: () => service.ensureDefault() };
}
