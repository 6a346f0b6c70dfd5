/** What every error of this package knows: which request failed. Neither headers nor bodies are kept, so no secret is. */
export interface RequestInfo {
  /** HTTP method. */
  readonly method: string;
  /** Path with query; passwords and secrets in the query are blanked. */
  readonly url: string;
}

/** Root of the hierarchy: catch this to catch everything the client throws on purpose. */
export class ClientError extends Error {
  /** Name of the class. */
  override readonly name: string = 'ClientError';
}

/**
 * The server answered with an error, or with a status that does not belong to the request; also a background
 * operation that failed.
 */
export class APIException extends ClientError {
  /** Name of the class. */
  override readonly name: string = 'APIException';
  /** HTTP status; that of the operation (400, 401) when one failed. */
  readonly status: number;
  /** HTTP method of the request. */
  readonly method: string;
  /** Path with query; secrets are blanked. */
  readonly url: string;
  /** Id of the operation that failed, when one did. */
  readonly operation: string | undefined;

  /** @internal */
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
  /** Name of the class. */
  override readonly name = 'NotFound';
}

/** `If-Match` named another state (HTTP 412): somebody changed the object meanwhile. */
export class PreconditionFailed extends APIException {
  /** Name of the class. */
  override readonly name = 'PreconditionFailed';
}

/** No answer: refused, reset, closed half-way, timed out, or not HTTP. `cause` holds the system's error. */
export class ClientConnectionFailed extends ClientError {
  /** Name of the class. */
  override readonly name = 'ClientConnectionFailed';
  /** `unix:/path` or `https://host:port`. */
  readonly endpoint: string;
  /** HTTP method of the request. */
  readonly method: string;
  /** Path with query; secrets are blanked. */
  readonly url: string;

  /** @internal */
  constructor(message: string, details: RequestInfo & { endpoint: string; cause?: unknown }) {
    super(`${message} (${details.method} ${hideSecrets(details.url)} at ${details.endpoint})`, cause(details));
    this.endpoint = details.endpoint;
    this.method = details.method;
    this.url = hideSecrets(details.url);
  }
}

/** The server does not offer an extension that the call needs. */
export class APIExtensionNotAvailable extends ClientError {
  /** Name of the class. */
  override readonly name = 'APIExtensionNotAvailable';
  /** Name of the extension that the server lacks. */
  readonly extension: string;

  /** @internal */
  constructor(extension: string) {
    super(`The server does not have the API extension "${extension}"`);
    this.extension = extension;
  }
}

/** The object was deleted by this client; nothing can be done with it any more. */
export class StaleObject extends ClientError {
  /** Name of the class. */
  override readonly name = 'StaleObject';

  /** @internal */
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
