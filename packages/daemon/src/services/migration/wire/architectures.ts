/** Numbers of architectures in migration messages, as LXD counts them. */
const NUMBERS: Readonly<Record<string, number>> = {
  i686: 1,
  x86_64: 2,
  armv7l: 3,
  aarch64: 4,
  ppc: 5,
  ppc64: 6,
  ppc64le: 7,
  s390x: 8,
  mips: 9,
  mips64: 10,
  riscv32: 11,
  riscv64: 12,
  armv6l: 13,
  armv8l: 14,
};

/** 0 for one that has none. */
export function architectureNumber(name: string): number {
  return NUMBERS[name] ?? 0;
}

export function architectureName(number: number): string | undefined {
  return Object.entries(NUMBERS).find(([, known]) => known === number)?.[0];
}
