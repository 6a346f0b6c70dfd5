import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from '@keelson/client';

/** A server of old that has no extension at all, and a client of it. */
export async function withoutExtensions(): Promise<{ readonly client: Client } & AsyncDisposable> {
  const folder = mkdtempSync(join(tmpdir(), 'keelson-old-'));
  const socket = join(folder, 'unix.socket');
  const server = createServer((_request, response) => {
    response.setHeader('Content-Type', 'application/json');
    response.end(JSON.stringify({ type: 'sync', status_code: 200, metadata: { api_extensions: [] } }));
  }).listen(socket);
  await once(server, 'listening');
  const client = new Client({ endpoint: `unix:${socket}` });
  return {
    client,
    async [Symbol.asyncDispose]() {
      await client.close();
      server.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
