import { expect, it } from 'vitest';
import { projectId } from './projects.ts';

it('project ids are above those of hosts and below 2^31', () => {
  for (const random of ['0000000000000000', 'ffffffffffffffff', '80000000aaaaaaaa', '12345678']) {
    expect(projectId(random)).toBeGreaterThanOrEqual(10_000);
    expect(projectId(random)).toBeLessThan(2 ** 31);
  }
  expect(projectId('00000001')).toBe(10_001);
});
