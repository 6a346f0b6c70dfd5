import { Type } from 'typebox';
import { Compile } from 'typebox/compile';
import { describe, expect, test } from 'vitest';
import { openApiDocument } from './openapi.ts';
import { allRoutes } from './routes.ts';

const document = openApiDocument('1.2.3');
const plain: unknown = JSON.parse(JSON.stringify(document));

const strict = { additionalProperties: false } as const;
const Schema = Type.Object({});
const Content = Type.Record(
  Type.String({ pattern: '^application/[a-z-]+$' }),
  Type.Object({ schema: Schema }, strict),
  strict,
);
const Operation = Type.Object(
  {
    operationId: Type.String({ minLength: 1 }),
    tags: Type.Array(Type.String({ minLength: 1 })),
    summary: Type.String({ minLength: 1 }),
    parameters: Type.Array(
      Type.Object(
        {
          name: Type.String({ minLength: 1 }),
          in: Type.Union([Type.Literal('path'), Type.Literal('query')]),
          required: Type.Boolean(),
          schema: Schema,
        },
        strict,
      ),
    ),
    requestBody: Type.Optional(Type.Object({ required: Type.Boolean(), content: Content }, strict)),
    responses: Type.Record(
      Type.String({ pattern: '^([1-5][0-9]{2}|default)$' }),
      Type.Object({ description: Type.String({ minLength: 1 }), content: Type.Optional(Content) }, strict),
      strict,
    ),
    security: Type.Array(Type.Object({ tls: Type.Optional(Type.Array(Type.String())) }, strict)),
  },
  strict,
);
const methods = ['get', 'head', 'post', 'put', 'patch', 'delete'];
const OpenApi = Type.Object(
  {
    openapi: Type.Literal('3.1.0'),
    info: Type.Object({ title: Type.String(), version: Type.String(), license: Schema }, strict),
    paths: Type.Record(
      Type.String({ pattern: '^/' }),
      Type.Object(Object.fromEntries(methods.map((method) => [method, Type.Optional(Operation)])), strict),
      strict,
    ),
    components: Type.Object(
      { schemas: Type.Record(Type.String({ pattern: '^[A-Za-z0-9._-]+$' }), Schema, strict), securitySchemes: Schema },
      strict,
    ),
  },
  strict,
);

function references(value: unknown): string[] {
  if (typeof value !== 'object' || value === null) {
    return [];
  }
  return Object.entries(value).flatMap(([key, member]) =>
    key === '$ref' ? [String(member)] : references(member as unknown),
  );
}

describe('openApiDocument', () => {
  test('is a well-formed OpenAPI 3.1 document', () => {
    expect(Compile(OpenApi).Errors(plain)).toEqual([]);
  });

  test('resolves every reference', () => {
    const known = Object.keys(document.components.schemas).map((name) => `#/components/schemas/${name}`);
    const used = references(plain);
    expect(used.length).toBeGreaterThan(200);
    expect(used.filter((reference) => !known.includes(reference))).toEqual([]);
    expect(known.filter((reference) => !used.includes(reference))).toEqual([]);
  });

  test('keeps no $id and no regular-expression keys, which generators stumble over', () => {
    expect(JSON.stringify(plain)).not.toMatch(/"\$id"|patternProperties/);
  });

  test('holds every route with its path parameters', () => {
    const operations = Object.entries(document.paths).flatMap(([path, item]) =>
      Object.values(item).map((operation) => ({ path, operation })),
    );
    expect(operations.map(({ operation }) => operation.operationId).sort()).toEqual(
      allRoutes.map((route) => route.id).sort(),
    );
    for (const { path, operation } of operations) {
      const declared = operation.parameters
        .filter((parameter) => parameter.in === 'path')
        .map(({ name }) => `{${name}}`);
      expect(declared).toEqual(path.match(/\{[a-z]+\}/g) ?? []);
    }
  });

  test('distinguishes a creation from a background operation', () => {
    const volumes = document.paths['/1.0/storage-pools/{pool}/volumes/{type}']?.['post'];
    expect(Object.keys(volumes?.responses ?? {})).toEqual(['201', '202', 'default']);
  });

  test('can carry a caller without a certificate only where the route says so', () => {
    expect(document.paths['/1.0']?.['get']?.security).toContainEqual({});
    expect(document.paths['/1.0']?.['put']?.security).toEqual([{ tls: [] }]);
  });
});
