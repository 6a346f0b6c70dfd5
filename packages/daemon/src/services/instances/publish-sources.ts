import { errors } from '../../core/errors.ts';
import type { IdRange } from '../../drivers/instance/contract.ts';
import { type InstanceContext, idOf } from './context.ts';
import { templateEntries } from './plan/templates.ts';

/** Root file system of an instance or snapshot, mounted until disposed. */
export interface MountedRoot extends AsyncDisposable {
  readonly path: string;
  /** Set when the files carry host ids of this range. */
  readonly idRange: IdRange | undefined;
}

/** Instances as the source of images. */
export class PublishSources {
  readonly #context: InstanceContext;

  constructor(context: InstanceContext) {
    this.#context = context;
  }

  /** @throws not-found with LXD's text, bad-request while it runs. */
  describe(project: string, name: string, snapshot: string | undefined) {
    const record = this.#context.require(project, name);
    const from = snapshot === undefined ? record : this.#context.snapshot(project, name, snapshot).value;
    if (snapshot === undefined && this.#context.isRunning(record))
      throw errors.badRequest('The container is currently running');
    const properties = Object.entries(from.config)
      .filter(([key]) => key.startsWith('image.'))
      .map(([key, value]) => [key.slice('image.'.length), value] as const);
    return { type: record.type, architecture: from.architecture, properties: Object.fromEntries(properties) };
  }

  async open(project: string, name: string, snapshot: string | undefined): Promise<MountedRoot> {
    const { storage } = this.#context.deps;
    const record = this.#context.require(project, name);
    const root = this.#context.rootVolume(record);
    const used = snapshot === undefined ? await this.#context.roots.use(root) : undefined;
    const mount = used?.mount ?? (await storage.mountSnapshot(root, snapshot ?? ''));
    return {
      path: mount.path,
      idRange: mount.ids === 'shifted' ? root.idRange : undefined,
      [Symbol.asyncDispose]: async () => {
        if (snapshot === undefined) await used?.release();
        else await storage.unmountSnapshot(root, snapshot);
      },
    };
  }

  async templates(
    project: string,
    name: string,
    snapshot: string | undefined,
  ): Promise<{ readonly templates: unknown; readonly files: ReadonlyMap<string, string> }> {
    const id = snapshot === undefined ? idOf(project, name) : `${idOf(project, name)}/${snapshot}`;
    const known = this.#context.deps.collections.metadata.get(id)?.value;
    return {
      templates: templateEntries(known?.metadata ?? {}),
      files: new Map(Object.entries(known?.templates ?? {})),
    };
  }
}
