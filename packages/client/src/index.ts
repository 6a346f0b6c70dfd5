export * from './exports.ts';
export { Client, type ClientOptions } from './client.ts';
export { type Exportable, exportToFile, TemporaryFile } from './temporary-file.ts';
export {
  type Certificate as ClientCertificate,
  type Endpoint,
  findSocket,
  parseEndpoint,
} from './transport/endpoint.ts';
