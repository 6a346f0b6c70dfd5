import { APIException, ClientConnectionFailed } from '@keelson/client';

/** An error as people should read it: what failed, on which object, what to do. */
export function explain(error: unknown): string {
  if (error instanceof ClientConnectionFailed) {
    return `${error.message}\nIs the server running? Start it with "npm run up" or "systemctl start keelsond"; another place is named with --endpoint or $KEELSON_DIR.`;
  }
  if (error instanceof APIException) {
    const text = error.message.replace(/ \([A-Z]+ \S+: \d+\)$/, '');
    return error.status === 403
      ? `${text}\nThis client is not trusted, or not for this project: see "keelson remote add".`
      : text;
  }
  return error instanceof Error ? error.message : String(error);
}
