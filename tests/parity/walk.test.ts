import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { allOf, named, probePrograms, probeRoot, startDaemon, startLxd } from '@keelson/testkit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { stepDifferences } from './walk/differences.ts';
import { applyRules, type Rule, rules } from './walk/rules.ts';
import { type Seen, scratch, Visit } from './walk/runner.ts';
import { steps } from './walk/steps.ts';

const probe = allOf(probeRoot(), probePrograms('lxc', 'lxd', 'mkfs.btrfs'));

/** Under load LXD takes ten seconds now and then to find its database unlocked. */
const PATIENCE = 600_000;

async function visit(dir: string, folder: string): Promise<readonly Seen[]> {
  const one = await Visit.open({ dir, folder });
  const seen: Seen[] = [];
  for (const step of steps) seen.push(await one.run(step));
  await one.close();
  return seen;
}

const said = ({ stdout, stderr }: Seen): string => stderr.trim() || stdout.trim();

describe.skipIf(!probe.ok)(named('lxc and storage, here and with LXD 5.0.2', probe), () => {
  const stack = new AsyncDisposableStack();
  const used = new Set<Rule>();
  const sides = new Map<string, { lxd: Seen; ours: Seen }>();

  beforeAll(async () => {
    const base = await mkdtemp(join(tmpdir(), 'keelson-walk-'));
    await chmod(base, 0o755);
    stack.defer(() => rm(base, { recursive: true, force: true }));
    const [daemon, peer] = await Promise.all([startDaemon(), startLxd()]);
    stack.use(daemon);
    stack.use(peer);
    const [lxd, ours] = await Promise.all([
      visit(peer.dir, scratch(base, 'lxd')),
      visit(daemon.stateDir, scratch(base, 'keelson')),
    ]);
    steps.forEach((step, at) => {
      const [theirs, mine] = [lxd[at], ours[at]];
      if (theirs !== undefined && mine !== undefined) sides.set(step, applyRules({ lxd: theirs, ours: mine }, used));
    });
  }, PATIENCE);

  afterAll(() => stack.disposeAsync(), 120_000);

  it('has a step for every difference, and each once', () => {
    const known = new Set(steps);
    expect(Object.keys(stepDifferences).filter((step) => !known.has(step))).toEqual([]);
    expect(known.size).toBe(steps.length);
  });

  it('needs every rule', () => {
    expect(rules.filter((rule) => !used.has(rule)).map(({ what }) => what)).toEqual([]);
  });

  it.each(steps)('%s', (step) => {
    const { lxd, ours } = sides.get(step) ?? {};
    const difference = stepDifferences[step];
    if (difference === undefined) expect(ours).toEqual(lxd);
    else {
      expect(ours, 'agrees now: take it out of the table').not.toEqual(lxd);
      if (difference.says !== undefined) expect([lxd && said(lxd), ours && said(ours)]).toEqual(difference.says);
    }
  });
});
