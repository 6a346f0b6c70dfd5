import { createReadStream, statSync } from 'node:fs';
import { request } from 'node:http';
import { randomUUID } from 'node:crypto';
import { basename } from 'node:path';

/** An answer of the daemon that says no. */
export class ApiError extends Error {
  /** @param {number} status @param {string} message */
  constructor(status, message) {
    super(message);
    this.name = 'ApiError';
    this.status = status;
  }
}

/** The daemon's API over its unix socket, as far as set-up needs it. */
export class Api {
  #socket;

  /** @param {string} socket */
  constructor(socket) {
    this.#socket = socket;
  }

  /**
   * Sends one request and returns `metadata`; a background operation is awaited first.
   * @param {string} method
   * @param {string} path
   * @param {unknown} [body]
   */
  async call(method, path, body) {
    const text = body === undefined ? undefined : JSON.stringify(body);
    const headers = text === undefined ? {} : { 'content-type': 'application/json' };
    const answer = JSON.parse(await this.#send({ method, path, headers }, text === undefined ? [] : [text]));
    return this.#settle(answer);
  }

  /** As GET, but the body as it is. @param {string} path */
  text(path) {
    return this.#send({ method: 'GET', path, headers: {} }, []);
  }

  /**
   * GET, `undefined` when the thing is not there.
   * @param {string} path
   */
  async find(path) {
    try {
      return await this.call('GET', path);
    } catch (error) {
      if (error instanceof ApiError && error.status === 404) return undefined;
      throw error;
    }
  }

  /**
   * Posts files as multipart/form-data.
   * @param {string} path
   * @param {Record<string, string>} files part name to file
   */
  async upload(path, files) {
    const boundary = randomUUID();
    const parts = multipart(boundary, files);
    const length = parts.reduce((sum, part) => sum + part.length, 0);
    const headers = { 'content-type': `multipart/form-data; boundary=${boundary}`, 'content-length': String(length) };
    return this.#settle(JSON.parse(await this.#send({ method: 'POST', path, headers }, parts)));
  }

  async #settle(answer) {
    if (answer.type === 'error') throw new ApiError(answer.error_code, answer.error);
    if (answer.type !== 'async') return answer.metadata;
    const operation = await this.call('GET', `${answer.operation}/wait`);
    if (operation.status_code !== 200) throw new ApiError(operation.status_code, operation.err || operation.status);
    return operation;
  }

  /** @param {import('node:http').RequestOptions} options @param {(string | {file?: string, text?: string})[]} parts */
  #send(options, parts) {
    return new Promise((resolve, reject) => {
      const outgoing = request({ ...options, socketPath: this.#socket }, (response) => {
        let text = '';
        response.setEncoding('utf8').on('data', (chunk) => (text += chunk));
        response.once('end', () => resolve(text)).once('error', reject);
      });
      outgoing.once('error', reject);
      writeParts(outgoing, parts).then(() => outgoing.end(), reject);
    });
  }
}

function multipart(boundary, files) {
  const parts = [];
  for (const [name, file] of Object.entries(files)) {
    const head = `Content-Disposition: form-data; name="${name}"; filename="${basename(file)}"`;
    const text = `--${boundary}\r\n${head}\r\nContent-Type: application/octet-stream\r\n\r\n`;
    parts.push({ text, length: text.length }, { file, length: statSync(file).size }, { text: '\r\n', length: 2 });
  }
  const end = `--${boundary}--\r\n`;
  return [...parts, { text: end, length: end.length }];
}

async function writeParts(outgoing, parts) {
  for (const part of parts) {
    const chunks = part.file ? createReadStream(part.file) : [part.text ?? part];
    for await (const chunk of chunks) {
      if (!outgoing.write(chunk)) await new Promise((resolve) => outgoing.once('drain', resolve));
    }
  }
}
