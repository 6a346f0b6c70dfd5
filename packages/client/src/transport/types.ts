export type HeaderValue = string | readonly string[];

/** Bytes to send: text, a buffer, or a stream. */
export type RequestBody = string | Uint8Array | AsyncIterable<Uint8Array>;

export interface TransportRequest {
  readonly method: string;
  /** Path with query, beginning with a slash. */
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: RequestBody;
  readonly signal?: AbortSignal;
  /** Milliseconds of silence before and within the answer; undefined = no limit. */
  readonly timeout?: number;
}

export interface TransportResponse {
  readonly status: number;
  /** Lower-case names; the last value wins where a header is repeated. */
  readonly headers: Readonly<Record<string, string>>;
  /** Body bytes as they come. Read it to the end or call `discard`. */
  readonly body: AsyncIterable<Uint8Array>;
  text(): Promise<string>;
  bytes(): Promise<Uint8Array>;
  /** Throws the rest of the body away. */
  discard(): Promise<void>;
}

/** The part of the standard WebSocket that the client uses; browsers' own and the package `ws` both fit. */
export interface WebSocketLike {
  binaryType: string;
  readonly readyState: number;
  readonly bufferedAmount: number;
  send(data: string | Uint8Array): void;
  close(code?: number, reason?: string): void;
  /** Stops to read, so that the sender has to wait; browsers' sockets cannot. */
  pause?(): void;
  /** Reads on. */
  resume?(): void;
  addEventListener(type: 'open' | 'close' | 'error' | 'message', listener: (event: SocketEvent) => void): void;
  removeEventListener(type: 'open' | 'close' | 'error' | 'message', listener: (event: SocketEvent) => void): void;
}

/** What the listeners get; only the fields that belong to the event are set. */
export interface SocketEvent {
  readonly type?: string;
  readonly data?: unknown;
  readonly code?: number;
  readonly reason?: unknown;
  readonly message?: string;
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
  close(): Promise<void>;
}
