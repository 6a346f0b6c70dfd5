import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { checkerOf } from './check.ts';
import { InstancesPost } from './resources/instance.ts';
import { ServerPut } from './resources/server.ts';
import { ProfilesPost } from './resources/profile.ts';
import { allRoutes } from './routes.ts';

const profile = checkerOf(ProfilesPost);
const instance = checkerOf(InstancesPost);

function messageOf(result: ReturnType<typeof profile> | ReturnType<typeof instance>): string {
  return result.ok ? '' : result.message;
}

describe('checkerOf', () => {
  test('takes a good body and keeps unknown fields', () => {
    const body = { name: 'p', config: { 'limits.cpu': '2' }, zork: 1 };
    expect(profile(body)).toEqual({ ok: true, value: body });
  });

  test('names what is missing, as LXD does', () => {
    expect(messageOf(profile({}))).toBe('No name provided');
  });

  test.each([
    [{ name: 5 }, 'Field "name" must be string'],
    [{ name: 'p', config: { 'limits.cpu': 2 } }, 'Field "config.limits.cpu" must be string'],
    [{ name: 'p', config: { 'a/b': {} } }, 'Field "config.a/b" must be string'],
    [{ name: 'p', devices: { eth0: { mtu: 1500 } } }, 'Field "devices.eth0.mtu" must be string'],
    [{ name: 'p', config: [] }, 'Field "config" must be object'],
    [[], 'Request body must be object'],
    [null, 'Request body must be object'],
    ['x', 'Request body must be object'],
  ])('refuses wrong types: %j', (body, message) => {
    expect(messageOf(profile(body))).toBe(message);
  });

  test('lists the values of a choice', () => {
    expect(messageOf(instance({ type: 'vm' }))).toBe('Field "type" must be one of "", "container", "virtual-machine"');
  });

  test('refuses a time that is none', () => {
    const backup = allRoutes.find((route) => route.id === 'instance-backups.create')?.body;
    const result = checkerOf(backup ?? ProfilesPost)({ expires_at: 'tomorrow' });
    expect(result).toMatchObject({ ok: false, message: 'Field "expires_at" must match format "date-time"' });
  });

  test('takes null for not given, and for empty in a map of strings', () => {
    expect(profile({ name: 'p', description: null, config: { a: null }, devices: { eth0: null } })).toEqual({
      ok: true,
      value: { name: 'p', config: { a: '' }, devices: { eth0: {} } },
    });
    expect(checkerOf(ServerPut)({ config: { 'core.https_address': null } })).toEqual({
      ok: true,
      value: { config: { 'core.https_address': '' } },
    });
    expect(messageOf(profile({ name: null }))).toBe('No name provided');
    expect(instance({ name: 'c', source: { type: 'none', secrets: null } })).toMatchObject({
      value: { source: { type: 'none' } },
    });
  });

  test('refuses names that could reach a prototype or a configuration file line', () => {
    expect(messageOf(profile(JSON.parse('{"name":"p","__proto__":{"x":1}}')))).toContain('__proto__');
    expect(messageOf(profile({ name: 'p', config: { 'a\nb': 5 } }))).toContain('not allowed');
  });

  test('leaves the body alone', () => {
    const body = { name: 'p', config: null };
    profile(body);
    expect(body).toEqual({ name: 'p', config: null });
  });

  test('compiles the schema of every route', () => {
    const bodies = allRoutes.flatMap((route) => route.body ?? []);
    expect(bodies.length).toBeGreaterThan(40);
    expect(bodies.map((body) => checkerOf(body)('text').ok)).not.toContain(true);
  });

  test('answers any JSON, and a checked value passes again', () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.constantFrom(profile, instance), (body, check) => {
        const first = check(body);
        expect(first.ok || first.message !== '').toBe(true);
        expect(first.ok ? check(first.value) : first).toEqual(first);
      }),
    );
  });
});
