import { AsyncEnvelope, ErrorEnvelope, SyncEnvelope } from './envelope.ts';
import { allRoutes, type RouteDefinition } from './routes.ts';

export type JsonSchema = { [key: string]: unknown };

interface Parameter {
  readonly name: string;
  readonly in: 'path' | 'query';
  readonly required: boolean;
  readonly schema: JsonSchema;
}

interface OperationObject {
  readonly operationId: string;
  readonly tags: readonly string[];
  readonly summary: string;
  readonly parameters: readonly Parameter[];
  readonly requestBody?: {
    readonly required: boolean;
    readonly content: Readonly<Record<string, { schema: JsonSchema }>>;
  };
  readonly responses: Readonly<Record<string, JsonSchema>>;
  readonly security: readonly Readonly<Record<string, readonly string[]>>[];
}

/** OpenAPI 3.1 document of the whole API. */
export interface OpenApiDocument {
  readonly openapi: '3.1.0';
  readonly info: {
    readonly title: string;
    readonly version: string;
    readonly license: { readonly name: string; readonly identifier: string };
  };
  readonly paths: Readonly<Record<string, Readonly<Record<string, OperationObject>>>>;
  readonly components: {
    readonly schemas: Readonly<Record<string, JsonSchema>>;
    readonly securitySchemes: Readonly<Record<string, JsonSchema>>;
  };
}

/** Collects schemas with an `$id` as components, and puts references in their place. */
class Components {
  readonly schemas: Record<string, JsonSchema> = {};

  /** The schema as it stands in the document. */
  reference(schema: object): JsonSchema {
    const id = (schema as { $id?: unknown }).$id;
    if (typeof id !== 'string') {
      return this.#convert(schema);
    }
    if (!Object.hasOwn(this.schemas, id)) {
      this.schemas[id] = {};
      this.schemas[id] = this.#convert(schema);
    }
    return { $ref: `#/components/schemas/${id}` };
  }

  #convert(schema: object): JsonSchema {
    const result: JsonSchema = {};
    for (const [key, value] of Object.entries(schema)) {
      if (key === 'properties') {
        result[key] = this.#members(value as object);
      } else if (key === 'patternProperties') {
        result['additionalProperties'] = this.reference(Object.values(value as object)[0] as object);
      } else if (key === 'items') {
        result[key] = this.reference(value as object);
      } else if (key === 'anyOf') {
        result[key] = (value as object[]).map((member) => this.reference(member));
      } else if (key !== '$id') {
        result[key] = value;
      }
    }
    return result;
  }

  #members(properties: object): JsonSchema {
    return Object.fromEntries(
      Object.entries(properties).map(([name, member]) => [name, this.reference(member as object)]),
    );
  }
}

/**
 * The API as an OpenAPI 3.1 document, served at `/1.0/openapi.json`.
 *
 * @param version version of the server
 */
export function openApiDocument(version: string): OpenApiDocument {
  const components = new Components();
  const paths: Record<string, Record<string, OperationObject>> = {};
  for (const route of allRoutes) {
    const path = route.path.replaceAll(/:([a-z]+)/g, '{$1}');
    const item = (paths[path] ??= {});
    item[route.method.toLowerCase()] = operationOf(route, components);
  }
  return {
    openapi: '3.1.0',
    info: { title: 'Keelson', version, license: { name: 'Apache-2.0', identifier: 'Apache-2.0' } },
    paths,
    components: {
      schemas: components.schemas,
      securitySchemes: {
        tls: { type: 'mutualTLS', description: 'Trusted client certificate; callers on the unix socket need none.' },
      },
    },
  };
}

function operationOf(route: RouteDefinition, components: Components): OperationObject {
  const [noun = '', verb = ''] = route.id.split('.');
  const body = requestBodyOf(route, components);
  return {
    operationId: route.id,
    tags: [noun],
    summary: `${verb.replaceAll('-', ' ')} (${noun.replaceAll('-', ' ')})`,
    parameters: [...pathParameters(route), ...queryParameters(route)],
    ...(body === undefined ? {} : { requestBody: body }),
    responses: responsesOf(route, components),
    security: route.access === 'untrusted' ? [{}, { tls: [] }] : [{ tls: [] }],
  };
}

function pathParameters(route: RouteDefinition): Parameter[] {
  return [...route.path.matchAll(/:([a-z]+)/g)].map((match) => ({
    name: match[1] ?? '',
    in: 'path',
    required: true,
    schema: { type: 'string' },
  }));
}

function queryParameters(route: RouteDefinition): Parameter[] {
  const properties = (route.query as { properties?: object } | undefined)?.properties ?? {};
  return Object.keys(properties).map((name) => ({ name, in: 'query', required: false, schema: { type: 'string' } }));
}

function requestBodyOf(route: RouteDefinition, components: Components): OperationObject['requestBody'] {
  if (route.body === undefined && route.rawBody !== true) {
    return undefined;
  }
  return {
    required: route.rawBody !== true,
    content: {
      ...(route.body === undefined ? {} : { 'application/json': { schema: components.reference(route.body) } }),
      ...(route.rawBody === true ? { 'application/octet-stream': { schema: {} } } : {}),
    },
  };
}

function responsesOf(route: RouteDefinition, components: Components): Record<string, JsonSchema> {
  const responses: Record<string, JsonSchema> = {};
  for (const kind of route.also === undefined ? [route.kind] : [route.kind, route.also]) {
    if (kind === 'sync') {
      const status = route.creates === true ? '201' : '200';
      responses[status] = merged(responses[status], json('Done', syncSchema(route, components)));
    } else if (kind === 'operation') {
      responses['202'] = json('Background operation', components.reference(AsyncEnvelope));
    } else if (kind === 'raw') {
      responses['200'] = merged(responses['200'], {
        description: 'Bytes',
        content: { 'application/octet-stream': { schema: {} } },
      });
    } else {
      responses['101'] = { description: 'Switching to a websocket' };
    }
  }
  responses['default'] = json('Error', components.reference(ErrorEnvelope));
  return responses;
}

function syncSchema(route: RouteDefinition, components: Components): JsonSchema {
  const envelope = components.reference(SyncEnvelope);
  if (route.response === undefined) {
    return envelope;
  }
  return { allOf: [envelope, { type: 'object', properties: { metadata: components.reference(route.response) } }] };
}

function json(description: string, schema: JsonSchema): JsonSchema {
  return { description, content: { 'application/json': { schema } } };
}

/** Two ways of one status: both contents under one description. */
function merged(first: JsonSchema | undefined, second: JsonSchema): JsonSchema {
  if (first === undefined) {
    return second;
  }
  return {
    description: `${String(first['description'])}; ${String(second['description']).toLowerCase()}`,
    content: { ...(first['content'] as object), ...(second['content'] as object) },
  };
}
