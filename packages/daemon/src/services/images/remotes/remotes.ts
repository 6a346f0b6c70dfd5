import type { ImageRemotes, RemoteImage, RemoteRequest } from '../ports.ts';
import { findDirect } from './direct.ts';
import { findOnServer } from './lxd.ts';
import { SimpleStreams, type SimpleStreamsOptions } from './simplestreams.ts';

/** Every kind of place images come from. */
export class RemoteImages implements ImageRemotes {
  readonly #architecture: string;
  readonly #streams: SimpleStreams;

  constructor(options: SimpleStreamsOptions) {
    this.#architecture = options.architecture;
    this.#streams = new SimpleStreams(options);
  }

  find(request: RemoteRequest, signal: AbortSignal | undefined): Promise<RemoteImage> {
    switch (request.protocol) {
      case 'direct':
        return findDirect(request, this.#architecture, signal);
      case 'lxd':
        return findOnServer(request, signal);
      case 'simplestreams':
        return this.#streams.find(request, signal);
    }
  }
}
