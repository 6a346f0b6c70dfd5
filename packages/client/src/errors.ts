/** What every error of this package knows: which request failed. Neither headers nor bodies are kept, so no secret is. */
export interface RequestInfo {
  readonly method: string;
  /** Path with query; passwords and secrets in the query are blanked. */
  readonly url: string;
}

/** Root of the hierarchy: catch this to catch everything the client throws on purpose. */
export class ClientError extends Error {
  override readonly name: string = 'ClientError';
}

/**
 * The server answered with an error, or with a status that does not belong to the request; also a background
 * operation that failed.
 */
export class APIException extends ClientError {
  override readonly name: string = 'APIException';
  /** HTTP status; that of the operation (400, 401) when one failed. */
  readonly status: number;
  readonly method: string;
  readonly url: string;
  /** Id of the operation that failed, when one did. */
  readonly operation: string | undefined;

  constructor(
    message: string,
    details: RequestInfo & { status: number; operation?: string | undefined; cause?: unknown },
  ) {
    super(`${message} (${details.method} ${hideSecrets(details.url)}: ${details.status})`, cause(details));
    this.status = details.status;
    this.method = details.method;
    this.url = hideSecrets(details.url);
    this.operation = details.operation;
  }
}

/** The object is not there (HTTP 404). */
export class NotFound extends APIException {
  override readonly name = 'NotFound';
}

/** `If-Match` named another state (HTTP 412): somebody changed the object meanwhile. */
export class PreconditionFailed extends APIException {
  override readonly name = 'PreconditionFailed';
}

/** No answer: refused, reset, closed half-way, timed out, or not HTTP. `cause` holds the system's error. */
export class ClientConnectionFailed extends ClientError {
  override readonly name = 'ClientConnectionFailed';
  readonly endpoint: string;
  readonly method: string;
  readonly url: string;

  constructor(message: string, details: RequestInfo & { endpoint: string; cause?: unknown }) {
    super(`${message} (${details.method} ${hideSecrets(details.url)} at ${details.endpoint})`, cause(details));
    this.endpoint = details.endpoint;
    this.method = details.method;
    this.url = hideSecrets(details.url);
  }
}

/** The server does not offer an extension that the call needs. */
export class APIExtensionNotAvailable extends ClientError {
  override readonly name = 'APIExtensionNotAvailable';
  readonly extension: string;

  constructor(extension: string) {
    super(`The server does not have the API extension "${extension}"`);
    this.extension = extension;
  }
}

/** The object was deleted by this client; nothing can be done with it any more. */
export class StaleObject extends ClientError {
  override readonly name = 'StaleObject';

  constructor(what: string) {
    super(`${what} was deleted; get it again`);
  }
}

function cause(details: { cause?: unknown }): ErrorOptions | undefined {
  return details.cause === undefined ? undefined : { cause: details.cause };
}

function hideSecrets(url: string): string {
  return url.replace(/([?&](?:secret|password|token)=)[^&]*/gi, '$1…');
}
