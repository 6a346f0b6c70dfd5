/** A time limit in milliseconds as long as this host needs: KEELSON_TEST_PATIENCE says how much slower than others it is. */
export function patient(milliseconds: number): number {
  const factor = Number(process.env['KEELSON_TEST_PATIENCE'] ?? 1);
  return factor > 1 ? milliseconds * factor : milliseconds;
}
