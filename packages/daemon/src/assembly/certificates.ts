import { certificateRoutes } from '../http/routes/certificates.ts';
import { CertificateService } from '../services/certificates/certificate-service.ts';
import type { Foundations } from './foundations.ts';
import type { ServerParts } from './server.ts';
import type { Vertical } from './vertical.ts';

export function certificatesVertical(
  base: Foundations,
  server: ServerParts,
  projectExists: (name: string) => boolean,
): Vertical {
  const { events, operations, records, clock } = base;
  const service = new CertificateService({
    certificates: records.certificates,
    operations,
    events,
    settings: {
      passwordMatches: (password) => server.config.passwordMatches(password),
      addresses: server.addresses,
      fingerprint: server.certificate.fingerprint,
    },
    projectExists,
    now: () => clock.now(),
  });
  return { routes: certificateRoutes(service) };
}
