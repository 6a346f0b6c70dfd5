import { warningRoutes } from '../http/routes/warnings.ts';
import { WarningService } from '../services/warnings/warning-service.ts';
import type { Foundations } from './foundations.ts';
import type { Vertical } from './vertical.ts';

export interface WarningsVertical extends Vertical {
  readonly service: WarningService;
}

export function warningsVertical({ ledger, events, clock, ids }: Foundations): WarningsVertical {
  const service = new WarningService({ warnings: ledger.collection('/warnings/'), events, clock, ids });
  return { service, routes: warningRoutes(service) };
}
