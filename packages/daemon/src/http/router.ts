import { apiVersion, instancePathAliases } from '@keelson/api';
import FindMyWay from 'find-my-way';
import { errors } from '../core/errors.ts';
import type { RouteBinding } from './route.ts';

export interface Match {
  readonly binding: RouteBinding;
  readonly params: Readonly<Record<string, string>>;
  readonly instanceType: 'container' | 'virtual-machine' | undefined;
}

const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'] as const;
type Method = (typeof METHODS)[number];
const PREFIX = `/${apiVersion}`;

/** Finds the endpoint of a path. A trailing slash is ignored, a path without the version means the current one. */
export class Router {
  readonly #tree = FindMyWay({ maxParamLength: 4096, querystringParser: () => ({}) });

  /** @throws Error when two bindings claim one endpoint. */
  constructor(bindings: readonly RouteBinding[]) {
    for (const binding of bindings) {
      const { method, path, rest } = binding.route;
      const pattern = rest === true ? path.replace(/:[a-z]+$/, '*') : path;
      this.#tree.on(method, pattern, () => undefined, binding);
    }
  }

  /** `path` without query. @throws not-found, or not-implemented for a known path with another method. */
  find(method: string, path: string): Match {
    const { path: wanted, instanceType } = normalize(path);
    const match = METHODS.some((known) => known === method) ? this.#lookup(method as Method, wanted) : undefined;
    if (match !== undefined) return { ...match, instanceType };
    if (METHODS.some((other) => this.#lookup(other, wanted) !== undefined))
      throw errors.notImplemented('not implemented');
    throw errors.notFound('not found');
  }

  #lookup(method: Method, path: string): Omit<Match, 'instanceType'> | undefined {
    const found = this.#tree.find(method, path);
    const binding: RouteBinding | null | undefined = found?.store;
    if (found === null || found === undefined || binding === null || binding === undefined) return undefined;
    const params: Record<string, string> = {};
    for (const [key, value] of Object.entries(found.params)) {
      if (value === undefined || value === '') return undefined;
      params[key === '*' ? lastParam(binding.route.path) : key] = value;
    }
    return { binding, params };
  }
}

/** Version added, trailing slash dropped, older names of the instance collection replaced. */
export function normalize(path: string): Pick<Match, 'instanceType'> & { path: string } {
  let wanted = path.length > 1 && path.endsWith('/') ? path.replace(/\/+$/, '') : path;
  if (wanted === '') wanted = '/';
  if (wanted !== '/' && wanted !== PREFIX && !wanted.startsWith(`${PREFIX}/`)) wanted = PREFIX + wanted;
  for (const [segment, type] of Object.entries(instancePathAliases)) {
    const old = `${PREFIX}/${segment}`;
    if (wanted === old || wanted.startsWith(`${old}/`)) {
      return { path: `${PREFIX}/instances${wanted.slice(old.length)}`, instanceType: type };
    }
  }
  return { path: wanted, instanceType: undefined };
}

function lastParam(path: string): string {
  return path.slice(path.lastIndexOf(':') + 1);
}
