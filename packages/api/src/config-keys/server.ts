import * as v from '../values/index.ts';
import { type ConfigOf, type ConfigTable, key } from './table.ts';

const global = { scope: 'global', live: true } as const;
const local = { scope: 'local', live: true } as const;

/** The server's own words for what is no boolean or integer. */
const bool: v.ValueType = {
  ...v.bool,
  check: (value) => (v.bool.check(value) === undefined ? undefined : 'invalid boolean'),
};
const integer: v.ValueType = {
  ...v.integer,
  check: (value) => (v.integer.check(value) === undefined ? undefined : 'invalid integer'),
};

function between(minimum: number, maximum: number, problem: string): v.ValueType {
  return {
    name: `integer from ${minimum} to ${maximum}`,
    check: (value) => {
      const number = v.parseInteger(value);
      if (number === undefined) {
        return 'invalid integer';
      }
      return number < minimum || number > maximum ? problem : undefined;
    },
  };
}

const voters: v.ValueType = {
  name: 'odd number of at least 3',
  check: (value) => {
    const number = v.parseInteger(value);
    if (number === undefined) {
      return 'invalid integer';
    }
    return number < 3n || number % 2n === 0n ? 'Value must be an odd number equal to or higher than 3' : undefined;
  },
};

const daemonVolume: v.ValueType = {
  name: 'pool/volume',
  // The server looks at the volume, too, and has words of its own for all that can be wrong.
  check: () => undefined,
};

const clustering = [
  key('cluster.https_address', v.listenAddress, 'Address for traffic between cluster members.', { scope: 'local' }),
  key(
    'cluster.images_minimal_replica',
    between(-1, 1000, 'Invalid value'),
    'Members that keep a copy of each image; -1 is all.',
    { ...global, default: '3' },
  ),
  key('cluster.join_token_expiry', v.expiry, 'Time a join token is good for.', { ...global, default: '3H' }),
  key('cluster.max_standby', between(0, 5, 'Value must be between 0 and 5'), 'Most members that stand by as voters.', {
    ...global,
    default: '2',
  }),
  key('cluster.max_voters', voters, 'Most members that vote.', { ...global, default: '3' }),
  key(
    'cluster.offline_threshold',
    between(11, 2 ** 31 - 1, 'Value must be greater than 10'),
    'Seconds without a sign after which a member counts as offline.',
    { ...global, default: '20' },
  ),
];

const core = [
  key('core.bgp_address', v.listenAddress, 'Address to serve BGP on.', local),
  key(
    'core.bgp_asn',
    between(0, 4_294_967_294, 'Value must be between 0 and 4294967294'),
    'AS number of the server.',
    global,
  ),
  key('core.bgp_routerid', v.ipv4Address, 'Router id of the server.', local),
  key('core.debug_address', v.listenAddress, 'Address to serve profiling on.', local),
  key('core.dns_address', v.listenAddress, 'Address to serve DNS zones on.', local),
  key('core.https_address', v.listenAddress, 'Address and port to serve the API on; port 8443 unless given.', local),
  key('core.https_allowed_credentials', bool, 'Answer cross-origin requests with credentials.', {
    ...global,
    default: 'false',
  }),
  key('core.https_allowed_headers', v.singleLine, 'Headers cross-origin requests may use.', global),
  key('core.https_allowed_methods', v.singleLine, 'Methods cross-origin requests may use.', global),
  key('core.https_allowed_origin', v.singleLine, 'Origin cross-origin requests may come from.', global),
  key(
    'core.https_trusted_proxy',
    v.singleLine,
    'Addresses of proxies that tell the client address, separated by commas.',
    global,
  ),
  key('core.metrics_address', v.listenAddress, 'Address to serve metrics on.', local),
  key('core.metrics_authentication', bool, 'Ask for a certificate on the metrics address.', {
    ...global,
    default: 'true',
  }),
  key('core.proxy_http', v.singleLine, 'Proxy for HTTP requests of the server.', global),
  key('core.proxy_https', v.singleLine, 'Proxy for HTTPS requests of the server.', global),
  key('core.proxy_ignore_hosts', v.singleLine, 'Hosts to reach without the proxy, separated by commas.', global),
  key('core.remote_token_expiry', v.expiry, 'Time a trust token is good for.', global),
  key('core.shutdown_timeout', integer, 'Minutes to wait for operations when the server stops.', {
    ...global,
    default: '5',
  }),
  key('core.trust_ca_certificates', bool, 'Trust certificates signed by the CA.', { ...global, default: 'false' }),
  key(
    'core.trust_password',
    v.anyText,
    'Password by which clients add their certificate; shown as true when set.',
    global,
  ),
];

const images = [
  key('backups.compression_algorithm', v.compression, 'Compression of new backups.', { ...global, default: 'gzip' }),
  key('images.auto_update_cached', bool, 'Keep images that were cached on use up to date.', {
    ...global,
    default: 'true',
  }),
  key('images.auto_update_interval', integer, 'Hours between looks for newer images; 0 never looks.', {
    ...global,
    default: '6',
  }),
  key('images.compression_algorithm', v.compression, 'Compression of new images.', { ...global, default: 'gzip' }),
  key('images.default_architecture', v.architecture, 'Architecture to take in a mixed cluster.', global),
  key('images.remote_cache_expiry', integer, 'Days after which an unused cached image is deleted.', {
    ...global,
    default: '10',
  }),
  key('storage.backups_volume', daemonVolume, 'Volume to keep backups on, as pool/volume.', { scope: 'local' }),
  key('storage.images_volume', daemonVolume, 'Volume to keep images on, as pool/volume.', { scope: 'local' }),
];

const other = [
  key('candid.api.key', v.anyText, 'Public key of the Candid server.', global),
  key('candid.api.url', v.anyText, 'URL of the Candid server.', global),
  key('candid.domains', v.anyText, 'Candid domains that are allowed, separated by commas.', global),
  key('candid.expiry', integer, 'Seconds a Candid login is good for.', { ...global, default: '3600' }),
  key('maas.api.key', v.anyText, 'Key of the MAAS server.', global),
  key('maas.api.url', v.anyText, 'URL of the MAAS server.', global),
  key('maas.machine', v.anyText, 'Name of this host in MAAS.', { ...local, default: 'host name' }),
  key('network.ovn.integration_bridge', v.anyText, 'Open vSwitch bridge for OVN.', { ...global, default: 'br-int' }),
  key('network.ovn.northbound_connection', v.anyText, 'Where the OVN northbound database listens.', {
    ...global,
    default: 'unix:/var/run/ovn/ovnnb_db.sock',
  }),
  key('rbac.agent.private_key', v.anyText, 'Private key of the RBAC agent.', global),
  key('rbac.agent.public_key', v.anyText, 'Public key of the RBAC agent.', global),
  key('rbac.agent.url', v.anyText, 'URL of the RBAC agent.', global),
  key('rbac.agent.username', v.anyText, 'User of the RBAC agent.', global),
  key('rbac.api.expiry', integer, 'Seconds an RBAC login is good for.', { ...global, default: '3600' }),
  key('rbac.api.key', v.anyText, 'Public key of the RBAC server.', global),
  key('rbac.api.url', v.anyText, 'URL of the RBAC server.', global),
  key('rbac.expiry', integer, 'Seconds an RBAC macaroon is good for.', { ...global, default: '3600' }),
  key('user.*', v.anyText, 'Free text.', global),
];

const keys = [
  ...images.slice(0, 1),
  ...other.slice(0, 4),
  ...clustering,
  ...core,
  ...images.slice(1),
  ...other.slice(4),
];

/** Config of the server, with completion. */
export type ServerConfig = ConfigOf<(typeof keys)[number]>;

export const serverConfig: ConfigTable = {
  noun: 'server',
  keys,
  unknown: (name, value) => `cannot set '${name}' to '${value}': unknown key`,
  invalid: (name, value, problem) => `cannot set '${name}' to '${value}': ${problem}`,
};
