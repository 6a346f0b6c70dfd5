/** A place where this server answers otherwise than LXD 5.0.2 on purpose. */
export interface Difference {
  readonly reason: string;
  /** Status LXD gives, and ours; absent when only the record differs. */
  readonly status?: readonly [lxd: number, ours: number];
}

const callersFault: Difference = {
  reason: "What the caller got wrong is a 400, not the server's failure.",
  status: [500, 400],
};
const missing: Difference = { reason: "What is not there is a 404, not the server's failure.", status: [500, 404] };
const taken: Difference = {
  reason: "A name that is taken is a conflict, not the server's failure.",
  status: [500, 409],
};

const managedPool: Difference = {
  reason: 'The contract of the project has a field `managed` in the record of a pool.',
};

/** The whole list, by the name of the case. A case that agrees must not stand here: the test says so. */
export const differences: Readonly<Record<string, Difference>> = {
  'instances of a missing project': {
    reason: 'A project that does not exist has no list of instances, empty or not.',
    status: [200, 404],
  },
  'profile create twice': taken,
  'profile trailing slash': {
    reason: 'A trailing slash is ignored, as the contract writes paths.',
    status: [404, 200],
  },
  'profile put bad key': callersFault,
  'profile rename missing': missing,
  'pool create unknown driver': callersFault,
  'pool create bad key': callersFault,
  'pool create bad value': callersFault,
  'pool create bad source': callersFault,
  'pool put': callersFault,
  'pools full': managedPool,
  pool: managedPool,
  'pool used': managedPool,
  'pool resources missing': missing,
  'network create bad key': callersFault,
  'network create bad value': callersFault,
  'image create from nothing': callersFault,
  'instance create missing profile': callersFault,
  'instance create missing fingerprint': {
    reason: 'An image that is not there is told at once, not by an operation that fails.',
    status: [202, 404],
  },
  'instance none patch bad key': callersFault,
  'instance none patch missing network': {
    reason: "The instance is there and its new device is wrong: a 400 on the request, with LXD's text.",
    status: [404, 400],
  },
  'instances by wrong filter': {
    reason: 'A filter that is not understood is refused instead of being ignored.',
    status: [200, 400],
  },
  'instance disk missing source': callersFault,
  'instance exec without command': {
    reason: 'Nothing can run without a command: it is told at once, not by an operation that fails.',
    status: [202, 400],
  },
};
