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

const names: Difference = {
  reason: 'LXD makes a volume of this name, and its lists then kill the daemon or name a folder wrongly.',
  status: [200, 400],
};
const untold: Difference = {
  reason: 'A use that the pool cannot tell is left out, as for instances; LXD calls it "Not supported".',
  status: [500, 200],
};
const notMade: Difference = { reason: 'It was refused here, so that it is not there.', status: [200, 404] };

const managedPool: Difference = {
  reason: 'The contract of the project has a field `managed` in the record of a pool.',
};

const nothingNamed: Difference = {
  reason: 'Without secrets nothing can be connected: it is told at once, not by an operation that fails.',
  status: [202, 400],
};
const connects: Difference = {
  reason: 'The operation connects, not the request, which would wait as long as the other server does.',
  status: [500, 202],
};
const noUrl: Difference = {
  reason: 'Only the HTTPS URL of an operation is connected to; what is none is told at once.',
  status: [202, 400],
};
const live: Difference = {
  reason: 'Containers cannot be checkpointed here: it is told at once, not when everything has been copied.',
  status: [202, 400],
};

/** The whole list, by the name of the case. A case that agrees must not stand here: the test says so. */
export const differences: Readonly<Record<string, Difference>> = {
  'instances of a missing project': {
    reason: 'A project that does not exist has no list of instances, empty or not.',
    status: [200, 404],
  },
  'cluster members': callersFault,
  'cluster member': callersFault,
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
  'volume create control character': names,
  'volume created control character delete': notMade,
  'volume create too long': callersFault,
  'volume create unknown key': callersFault,
  'volume create key of another driver': callersFault,
  'volume create bad size': callersFault,
  'volume create negative size': callersFault,
  'volume create bad flag': callersFault,
  'volume create bad schedule': callersFault,
  'volume create bad expiry': callersFault,
  'volume create shifted and unmapped': {
    reason: 'The two keys contradict each other; LXD refuses the instance that uses the volume.',
    status: [200, 400],
  },
  'volume created shifted and unmapped delete': notMade,
  'volumes by wrong filter': {
    reason: 'A filter that is not understood is refused instead of being ignored.',
    status: [200, 400],
  },
  'volume state': untold,
  'volume state of a block volume': untold,
  'volume of an instance state': untold,
  'volume snapshots missing': {
    reason: 'A volume that does not exist has no list of snapshots, empty or not.',
    status: [200, 404],
  },
  'volume snapshot as a volume': {
    reason: "A snapshot has an address of its own, below the volume's.",
    status: [200, 404],
  },
  'volume patched': { reason: 'A patch leaves what it does not name; LXD empties the description.' },
  'volume put unknown key': callersFault,
  'volume patch unknown key': callersFault,
  'volume put bad size': callersFault,
  'volume restore missing snapshot': missing,
  'volume block shrink': callersFault,
  'volume copy without source name': {
    reason: 'A copy says what it copies; LXD makes an empty volume.',
    status: [200, 400],
  },
  'volume copied without source name delete': notMade,
  'volume move to a missing project': {
    reason: 'A project that is not there is told at once, not by an operation that fails.',
    status: [202, 404],
  },
  'volume import into a missing pool': missing,
  'volume import of nonsense': callersFault,
  'volume import of nothing': callersFault,
  'volume import of an image of a disc': {
    reason: 'LXD 5.0.2 does not know discs yet; later ones take them so.',
    status: [500, 202],
  },
  'volume of an instance patch': {
    reason: 'A volume that takes PUT takes PATCH.',
    status: [400, 200],
  },
  'volume of an instance patched': { reason: 'A volume that takes PUT takes PATCH.' },
  'volume of an instance put unknown key': callersFault,
  'volume delete stale': {
    reason: 'If-Match holds for every change, deletion too.',
    status: [200, 412],
  },
  'volume delete': {
    reason: 'LXD deleted it in spite of If-Match.',
    status: [404, 200],
  },
  'volume iso delete': { reason: 'LXD could not make it.', status: [404, 200] },
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
  'instance send to nothing': nothingNamed,
  'instance send to an unknown operation': connects,
  'instance send to no server': connects,
  'instance send to a bad certificate': callersFault,
  'instance snapshot send without name': {
    reason: 'The target names the new instance; LXD asks for a name here and does not use it.',
    status: [400, 202],
  },
  'instance pull from nothing': callersFault,
  'instance pull without architecture': {
    reason: "The architecture of the source, or this server's, is meant.",
    status: [400, 202],
  },
  'instance pull by plain text': noUrl,
  'instance pull from no URL': noUrl,
  'instance pull bad certificate': callersFault,
  'instance pull without secrets': callersFault,
  'instance pull with one secret': callersFault,
  'instance pull to a taken name': callersFault,
  'instance pull bad key': callersFault,
  'instance pull missing pool': {
    reason: 'A pool that is not there is told at once, not by an operation that fails.',
    status: [202, 400],
  },
  'instance pull of a virtual machine': callersFault,
  'instance pull live': live,
  'instance push to a taken name': callersFault,
  'instance push live': live,
  'volume send to nothing': nothingNamed,
  'volume send to an unknown operation': connects,
  'volume send to no server': connects,
  'volume send to a bad certificate': callersFault,
  'volume pull from nothing': callersFault,
  'volume pull bad certificate': callersFault,
  'volume pull without secrets': callersFault,
  'instance exec without command': {
    reason: 'Nothing can run without a command: it is told at once, not by an operation that fails.',
    status: [202, 400],
  },
};
