import type { Profile as ProfileRecord } from '@keelson/api';
import { Manager } from '../manager.ts';
import { type CallOptions, defineAttributes, Model, type ModelContext, type WaitOptions } from '../model.ts';

const FIELDS = ['name', 'description', 'config', 'devices', 'used_by'] as const;
const WRITABLE = ['description', 'config', 'devices'] as const;

/** Config and devices that instances share. */
export class Profile extends Model<ProfileRecord> {
  /** Unique within its project. */
  declare readonly name: ProfileRecord['name'];
  /** For people. */
  declare description: ProfileRecord['description'];
  /** Config keys of its instances, all text. */
  declare config: ProfileRecord['config'];
  /** Devices of its instances by name. */
  declare devices: ProfileRecord['devices'];
  /** URL paths of its instances. */
  declare readonly used_by: ProfileRecord['used_by'];

  /** @internal */
  constructor(context: ModelContext, name: string, record: Partial<ProfileRecord>, populated: boolean) {
    super(context, definitionOf(context, name), { ...record, name }, populated);
  }

  /** `POST /1.0/profiles/<name>` @throws APIException when the name is taken or may not change */
  async rename(newName: string, options: WaitOptions = {}): Promise<void> {
    await this.run('POST', this.path, { json: { name: newName } }, { wait: true, ...options });
    this.moved(definitionOf(this.context, newName), { name: newName });
  }
}
defineAttributes<ProfileRecord>(Profile, FIELDS, WRITABLE);

function definitionOf(context: ModelContext, name: string): { path: string; label: string; writable: typeof WRITABLE } {
  return { path: context.connection.path('profiles', name), label: `Profile "${name}"`, writable: WRITABLE };
}

/** What a new profile is like. */
export interface ProfileOptions {
  /** For people. */
  readonly description?: string;
  /** Config keys of its instances, all text. */
  readonly config?: ProfileRecord['config'];
  /** Devices of its instances by name. */
  readonly devices?: ProfileRecord['devices'];
}

/** `client.profiles` */
export class ProfileManager extends Manager<ProfileRecord, Profile, 'name'> {
  /** @internal */
  constructor(context: ModelContext) {
    super(context, {
      path: context.connection.path('profiles'),
      fields: FIELDS,
      key: 'name',
      make: (name, record, populated, scoped = context) => new Profile(scoped, name, record, populated),
    });
  }

  /** `POST /1.0/profiles` @throws APIException */
  async create(name: string, definition: ProfileOptions = {}, options: CallOptions = {}): Promise<Profile> {
    const request = { json: { name, ...definition }, signal: options.signal };
    await this.context.connection.request('POST', this.definition.path, request);
    return this.get(name, options);
  }
}
