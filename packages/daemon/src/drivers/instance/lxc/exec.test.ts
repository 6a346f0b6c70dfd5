import { describe, expect, it } from 'vitest';
import { attachArguments, parseLxcCommandLine } from '../../../host/tools/lxc.ts';
import type { ExecSpec } from '../contract.ts';
import { execEnvironment, inFolder } from './exec.ts';

const spec = (changes: Partial<ExecSpec> = {}): ExecSpec => ({
  ...{ command: ['ls', '-l'], environment: {}, user: 0, group: 0, cwd: '', terminal: undefined },
  ...changes,
});

describe('execEnvironment', () => {
  it('has a home only for root, and lets the caller decide', () => {
    expect(execEnvironment(spec())).toMatchObject({ HOME: '/root', USER: 'root', LANG: 'C.UTF-8' });
    expect(execEnvironment(spec({ user: 7 }))).not.toHaveProperty('HOME');
    expect(execEnvironment(spec({ environment: { HOME: '/x', LANG: 'de' } }))).toMatchObject({
      HOME: '/x',
      LANG: 'de',
    });
  });
});

describe('inFolder', () => {
  it('uses a folder both sides have, else the shell of the guest', () => {
    const both = (path: string) => path === '/etc';
    expect(inFolder(spec({ cwd: '/etc' }), both)).toEqual({ cwd: '/etc', command: ['ls', '-l'] });
    expect(inFolder(spec({ user: 7 }), both)).toEqual({ cwd: '/', command: ['ls', '-l'] });
    const { cwd, command } = inFolder(spec({ cwd: '/a $(b)' }), both);
    expect(cwd).toBe('/');
    expect(command.slice(3)).toEqual(['/a $(b)', 'ls', '-l']);
    expect(command[2]).not.toContain('$(b)');
  });
});

describe('liblxc command lines', () => {
  it('keeps the command behind the separator', () => {
    const args = attachArguments({
      ...{ lxcPath: '/s/lxc', name: 'c1', environment: { A: '-n x' }, user: 1, group: 2, command: ['--help'] },
    });
    expect(args.slice(args.indexOf('--'))).toEqual(['--', '--help']);
    expect(args).toContain('A=-n x');
    expect(parseLxcCommandLine(['/usr/bin/lxc-attach', ...args], '/s/lxc')).toEqual({ kind: 'attached', name: 'c1' });
  });

  it('knows monitors and starts of one state folder', () => {
    expect(parseLxcCommandLine(['[lxc monitor] /s/lxc c1'], '/s/lxc')).toEqual({ kind: 'monitor', name: 'c1' });
    expect(parseLxcCommandLine(['[lxc monitor] /s/lxc2 c1'], '/s/lxc')).toBeUndefined();
    expect(parseLxcCommandLine(['lxc-start', '-P', '/s/lxc', '-n', 'c1', '-d'], '/s/lxc')).toEqual({
      kind: 'starting',
      name: 'c1',
    });
    expect(parseLxcCommandLine(['lxc-start', '-P', '/other', '-n', 'c1'], '/s/lxc')).toBeUndefined();
    expect(parseLxcCommandLine(['sleep', '-P', '/s/lxc', '-n', 'c1'], '/s/lxc')).toBeUndefined();
  });
});
