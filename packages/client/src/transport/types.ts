export type HeaderValue = string | readonly string[];

/** Bytes to send: text, a buffer, or a stream. */
export type RequestBody = string | Uint8Array | AsyncIterable<Uint8Array>;

/** One request. */
export interface TransportRequest {
  /** HTTP method. */
  readonly method: string;
  /** Path with query, beginning with a slash. */
  readonly path: string;
  /** As they are sent. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Bytes to send. */
  readonly body?: RequestBody;
  /** Ends the request, which then rejects with its reason. */
  readonly signal?: AbortSignal;
  /** Milliseconds of silence before and within the answer; undefined = no limit. */
  readonly timeout?: number;
}

/** The answer to a request. */
export interface TransportResponse {
  /** HTTP status. */
  readonly status: number;
  /** Lower-case names; the last value wins where a header is repeated. */
  readonly headers: Readonly<Record<string, string>>;
  /** Body bytes as they come. Read it to the end or call `discard`. */
  readonly body: AsyncIterable<Uint8Array>;
  /** The whole body as UTF-8. */
  text(): Promise<string>;
  /** The whole body. */
  bytes(): Promise<Uint8Array>;
  /** Throws the rest of the body away. */
  discard(): Promise<void>;
}

/** The part of the standard WebSocket that the client uses; browsers' own and the package `ws` both fit. */
export interface WebSocketLike {
  /** The client sets `arraybuffer`. */
  binaryType: string;
  /** 0 connecting, 1 open, 2 closing, 3 closed. */
  readonly readyState: number;
  /** Bytes that `send` took and that are not sent yet. */
  readonly bufferedAmount: number;
  /** Text or a binary message. */
  send(data: string | Uint8Array): void;
  /** Begins to close. */
  close(code?: number, reason?: string): void;
  /** Stops to read, so that the sender has to wait; browsers' sockets cannot. */
  pause?(): void;
  /** Reads on. */
  resume?(): void;
  /** Calls `listener` at each event of the type. */
  addEventListener(type: 'open' | 'close' | 'error' | 'message', listener: (event: SocketEvent) => void): void;
  /** Undoes `addEventListener`. */
  removeEventListener(type: 'open' | 'close' | 'error' | 'message', listener: (event: SocketEvent) => void): void;
}

/** What the listeners get; only the fields that belong to the event are set. */
export interface SocketEvent {
  /** `open`, `close`, `error` or `message`. */
  readonly type?: string;
  /** Of a message: text, or an ArrayBuffer. */
  readonly data?: unknown;
  /** Of a close. */
  readonly code?: number;
  /** Of a close. */
  readonly reason?: unknown;
  /** Of an error. */
  readonly message?: string;
  /** Of an error: its cause. */
  readonly error?: unknown;
}

/** How bytes reach the server. One per client; closing it frees every connection. */
export interface Transport {
  /** For messages: `unix:/path` or `https://host:port`. */
  readonly endpoint: string;
  /** @throws ClientConnectionFailed when no answer comes; the abort reason when `signal` aborts. */
  request(request: TransportRequest): Promise<TransportResponse>;
  /** Resolves when the socket is open. @throws ClientConnectionFailed, APIException for a refused upgrade. */
  openWebSocket(path: string, options?: { readonly signal?: AbortSignal }): Promise<WebSocketLike>;
  /** Frees every connection; what is under way ends with an error. */
  close(): Promise<void>;
}
