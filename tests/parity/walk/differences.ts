/** A step at which this server is otherwise than LXD 5.0.2 on purpose. */
export interface StepDifference {
  readonly reason: string;
  /** What each prints, without white space around it: its errors, else its output. Absent where events alone differ, or it is long. */
  readonly says?: readonly [lxd: string, ours: string];
}

const usage = 'A use that the pool cannot tell is left out; LXD fails.';
const moved = 'A move within the server is one change of one instance; LXD copies, deletes and renames.';
const snapshotsApart = 'A snapshot is no volume: a guest that writes to it would spoil it.';
const real =
  'The operation names what it is about with a URL that can be asked for, and can be cancelled where it runs long.';

/** By step. A step that agrees must not stand here: the test says so. */
export const stepDifferences: Readonly<Record<string, StepDifference>> = {
  'lxc storage create p2 btrfs source=/no/such': {
    reason: 'Says what is wrong instead of what was tried.',
    says: [
      "Error: Failed to run: btrfs subvolume create /no/such: exit status 1 (ERROR: cannot access '/no': No such file or directory)",
      "Error: Source path '/no/such' doesn't exist",
    ],
  },
  'lxc storage create p2 btrfs source=$PWD/nonsense': {
    reason: 'Says so as for zfs and lvm.',
    says: [
      'Error: Provided path does not reside on a btrfs filesystem',
      'Error: Custom loop file locations are not supported',
    ],
  },
  'lxc storage set p2 size=512MiB': {
    reason: 'LXD writes the new size down and leaves the pool as it is.',
    says: ['', 'Error: Invalid value for option "size": A loop pool cannot shrink below its 671088640 bytes'],
  },
  'lxc storage create p3 dir --target none': {
    reason: 'Outside a cluster the server itself makes the pool; LXD leaves it "Pending".',
  },
  'lxc storage volume list p1 -f csv -c nU': {
    reason: usage,
    says: ['Error: Not supported', 'blk,0B\nblk8,0B\nsn,\ntgt,\nv1,\nv2,\nv3,\nvs,'],
  },
  'lxc storage volume info p1 v1': {
    reason: usage,
    says: ['Error: Not supported', 'Name: v1\nType: custom\nContent type: filesystem'],
  },
  'lxc storage volume info p1 v1 # snapshots': { reason: usage },
  'lxc query /1.0/storage-pools/p1/volumes/custom/v1/state': { reason: usage },
  'lxc storage volume snapshot p1 v1 x/y': {
    reason: 'The name of a snapshot is meant.',
    says: ['Error: Storage name cannot contain "/"', 'Error: Invalid snapshot name: Cannot contain "/"'],
  },
  'lxc storage volume snapshot p1 pat': {
    reason:
      '`snapshots.pattern` names snapshots without a name, as its documentation says; LXD does so for scheduled ones alone.',
  },
  'lxc storage volume delete p1 pat': { reason: 'The snapshot had the name of the pattern.' },
  'lxc storage volume rename p1 v1/s1 v1/s9': {
    reason: 'The source of the event is the snapshot as it is called now.',
  },
  'lxc storage volume rename p1 v1/s9 v1/s2': {
    reason: 'Says what is wrong instead of what was tried.',
    says: [
      'Error: Failed to rename "<dir>/storage-pools/p1/custom-snapshots/default_v1/s9" to "<dir>/storage-pools/p1/custom-snapshots/default_v1/s2": rename <dir>/storage-pools/p1/custom-snapshots/default_v1/s9 <dir>/storage-pools/p1/custom-snapshots/default_v1/s2: file exists',
      'Error: Snapshot "s2" already in use',
    ],
  },
  'lxc storage volume rename p1 v1/nope v1/s4': {
    reason: 'The same text as for every volume and snapshot that is not there.',
    says: [
      'Error: Storage volume "v1/nope" in project "default" of type "custom" does not exist on pool "p1": Storage volume not found',
      'Error: Storage pool volume not found',
    ],
  },
  'lxc storage volume show p1 blk2': { reason: 'A copy keeps `size` as it was written (16MiB); LXD counts bytes.' },
  'lxc storage volume import nope v1.tar.gz i5': {
    reason: 'Said once.',
    says: ['Error: Storage pool not found: Storage pool not found', 'Error: Storage pool not found'],
  },
  'lxc storage volume attach p1 v1 e1': {
    reason: 'The same text as for every disk without a path.',
    says: [
      'Error: Failed add validation for device "v1": Custom filesystem volumes require a path to be defined',
      'Error: Invalid devices: Device validation failed for "v1": Disk entry is missing the required "source" or "path" property',
    ],
  },
  'lxc storage volume attach p1 v1/s2 e2 snap /snap': {
    reason: snapshotsApart,
    says: [
      '',
      'Error: Failed add validation for device "snap": Failed loading custom volume: Storage volume not found',
    ],
  },
  'lxc config device remove e2 snap': {
    reason: snapshotsApart,
    says: ['Device snap removed from e2', "Error: Device doesn't exist"],
  },
  'lxc storage volume attach-profile p1 v1 nope x /x': {
    reason: 'Without the inner step.',
    says: ['Error: Fetch profile: Profile not found', 'Error: Profile not found'],
  },
  'lxc storage volume detach-profile p1 v1 nope': {
    reason: 'Without the inner step.',
    says: ['Error: Fetch profile: Profile not found', 'Error: Profile not found'],
  },
  'lxc config device add e2 d5 disk source=$PWD path=/d5 limits.read=much': {
    reason: 'Refused at once; LXD writes it down.',
    says: [
      'Device d5 added to e2',
      'Error: Invalid devices: Device validation failed for "d5": Invalid value for device option "limits.read": Invalid value: much',
    ],
  },
  'lxc config device remove e2 d5': {
    reason: 'It was refused here.',
    says: ['Device d5 removed from e2', "Error: Device doesn't exist"],
  },
  'lxc storage volume delete p1 container/e1/s0': {
    reason: 'Says that a snapshot of an instance is meant.',
    says: [
      'Error: Invalid storage volume type "container"',
      'Error: Snapshots of volumes of type "container" cannot be changed here',
    ],
  },
  'lxc copy t1 ct1 --refresh': { reason: 'A refresh changes the instance, and the event `instance-updated` says so.' },
  'lxc move ce1 -s p2': { reason: moved },
  'lxc move ce1 ce9 -s p1': { reason: moved },
  'lxc move ce9 -s nope': {
    reason: 'No instance is being created.',
    says: [
      'Error: Migration operation failure: Failed creating instance record: Failed initialising instance: Failed loading storage pool: Storage pool not found',
      'Error: Migration operation failure: Failed loading storage pool: Storage pool not found',
    ],
  },
  'lxc query /1.0/storage-pools/p1/volumes/custom/v1/snapshots?recursion=1': {
    reason: 'A list tells `content_type` too; in that of LXD it is empty.',
  },
  'lxc query --wait -X POST -d \'{"name":"s"}\' /1.0/storage-pools/p1/volumes/custom/q/snapshots': { reason: real },
  'lxc query --wait -X POST -d \'{"name":"b"}\' /1.0/storage-pools/p1/volumes/custom/q/backups': { reason: real },
};
