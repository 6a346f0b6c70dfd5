import { run } from '../run.ts';

/** Applies a ruleset in one transaction: all of it or nothing. */
export async function applyRuleset(ruleset: string): Promise<void> {
  await run('nft', ['-f', '-'], { input: ruleset });
}

/** Version such as `1.0.6`; undefined when nft is not installed. */
export async function nftVersion(): Promise<string | undefined> {
  try {
    const { stdout } = await run('nft', ['--version'], { timeout: 5000 });
    return /v?(\d+(?:\.\d+)+)/.exec(stdout)?.[1];
  } catch {
    return undefined;
  }
}
