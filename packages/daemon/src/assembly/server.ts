import { configurationMetadata, openApiDocument, supportedExtensions } from '@keelson/api';
import { networkInterfaces } from 'node:os';
import { join } from 'node:path';
import { readMachineFacts } from '../host/host-facts.ts';
import { readResources } from '../host/resources/resources.ts';
import { formatAddress } from '../http/listeners/address.ts';
import type { HttpsListener } from '../http/listeners/https-listener.ts';
import { clusterRoutes } from '../http/routes/cluster.ts';
import { serverRoutes } from '../http/routes/server.ts';
import { SingleServer } from '../services/cluster/single-server.ts';
import type { HostFacts } from '../services/server/contract.ts';
import { ServerConfig } from '../services/server/server-config.ts';
import { loadServerCertificate, type ServerCertificate } from '../services/server/server-certificate.ts';
import { ServerService } from '../services/server/server-service.ts';
import type { DriverFacts } from './driver-facts.ts';
import type { Foundations } from './foundations.ts';
import type { Vertical } from './vertical.ts';

export interface ServerParts {
  readonly config: ServerConfig;
  readonly certificate: ServerCertificate;
  /** Addresses clients reach the API at. */
  readonly addresses: () => readonly string[];
}

/** Config and certificate: needed before the listeners exist. `https` is looked at only when asked. */
export async function openServerParts(base: Foundations, https: () => HttpsListener): Promise<ServerParts> {
  const { root } = base.paths;
  return {
    config: new ServerConfig(base.records.server, [
      { key: 'core.https_address', apply: (address) => https().bind(address) },
    ]),
    certificate: await loadServerCertificate(join(root, 'server.crt'), join(root, 'server.key')),
    addresses: () => reachableAddresses(https().bound),
  };
}

export async function serverVertical(
  base: Foundations,
  parts: ServerParts,
  drivers: DriverFacts,
  version: string,
): Promise<Vertical> {
  const machine = await readMachineFacts();
  const facts: HostFacts = {
    ...drivers,
    architectures: [...machine.architectures],
    certificate: parts.certificate.certificate,
    certificate_fingerprint: parts.certificate.fingerprint,
    kernel: machine.kernel,
    kernel_architecture: machine.architecture,
    kernel_features: { ...machine.kernelFeatures },
    kernel_version: machine.kernelVersion,
    os_name: machine.osName,
    os_version: machine.osVersion,
    server: 'keelson',
    server_clustered: false,
    server_event_mode: 'full-mesh',
    server_name: machine.hostname,
    server_pid: process.pid,
    server_version: version,
  };
  const service = new ServerService({
    config: parts.config,
    facts,
    extensions: supportedExtensions,
    addresses: parts.addresses,
    readResources,
    events: base.events,
  });
  return {
    routes: [
      ...serverRoutes(service, { openApi: openApiText(version), configuration: configurationMetadata }),
      ...clusterRoutes(new SingleServer(base.records.storagePools)),
    ],
    start: () =>
      parts.config.start((key, error) => base.log.error('Cannot put a server key into effect', { key, error })),
  };
}

/** A wildcard address stands for every address of the host but loopback. */
function reachableAddresses(bound: { readonly host: string; readonly port: number } | undefined): readonly string[] {
  if (bound === undefined) return [];
  const { host, port } = bound;
  if (host !== '::' && host !== '0.0.0.0') return [formatAddress(host, port)];
  return Object.values(networkInterfaces())
    .flatMap((addresses) => addresses ?? [])
    .filter(({ internal, family, scopeid }) => !internal && (family === 'IPv4' || (host === '::' && scopeid === 0)))
    .map(({ address }) => formatAddress(address, port));
}

/** JSON text, made at the first request. */
function openApiText(version: string): () => string {
  let text: string | undefined;
  return () => (text ??= JSON.stringify(openApiDocument(version)));
}
