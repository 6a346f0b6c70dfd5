import { Type, type Static } from 'typebox';
import { Nullable, StringMap, Timestamp } from './common.ts';

/** An alias of an image, as listed inside the image. */
export const ImageAlias = Type.Object(
  {
    description: Type.String(),
    name: Type.String(),
  },
  { $id: 'ImageAlias' },
);
export type ImageAlias = Static<typeof ImageAlias>;

/** Where a downloaded image came from and is refreshed from. */
export const ImageSource = Type.Object(
  {
    alias: Type.String(),
    certificate: Type.String(),
    image_type: Type.String(),
    protocol: Type.String(),
    server: Type.String(),
  },
  { $id: 'ImageSource' },
);
export type ImageSource = Static<typeof ImageSource>;

/** Writable part of an image. */
export const ImagePut = Type.Object(
  {
    auto_update: Type.Optional(Type.Boolean()),
    expires_at: Type.Optional(Timestamp),
    profiles: Type.Optional(Type.Array(Type.String())),
    properties: Type.Optional(StringMap),
    public: Type.Optional(Type.Boolean()),
  },
  { $id: 'ImagePut' },
);
export type ImagePut = Static<typeof ImagePut>;

/** Where to take a new image from: another server, a URL, an instance or a snapshot. */
export const ImagesPostSource = Type.Object(
  {
    alias: Type.Optional(Type.String()),
    certificate: Type.Optional(Type.String()),
    fingerprint: Type.Optional(Type.String()),
    image_type: Type.Optional(Type.String()),
    mode: Type.Optional(Type.String()),
    name: Type.Optional(Type.String()),
    project: Type.Optional(Type.String()),
    protocol: Type.Optional(Type.String()),
    secret: Type.Optional(Type.String()),
    server: Type.Optional(Type.String()),
    type: Type.Optional(Type.String()),
    url: Type.Optional(Type.String()),
  },
  { $id: 'ImagesPostSource' },
);
export type ImagesPostSource = Static<typeof ImagesPostSource>;

/** Creates an image by means other than an upload. `POST /1.0/images`. */
export const ImagesPost = Type.Object(
  {
    ...ImagePut.properties,
    aliases: Type.Optional(Type.Array(ImageAlias)),
    compression_algorithm: Type.Optional(Type.String()),
    filename: Type.Optional(Type.String()),
    source: Type.Optional(ImagesPostSource),
  },
  { $id: 'ImagesPost' },
);
export type ImagesPost = Static<typeof ImagesPost>;

/** An image; `size` in bytes, `fingerprint` is the SHA-256 of its files, lower-case hex. `GET /1.0/images/:fingerprint`. */
export const Image = Type.Object(
  {
    aliases: Type.Array(ImageAlias),
    architecture: Type.String(),
    auto_update: Type.Boolean(),
    cached: Type.Boolean(),
    created_at: Timestamp,
    expires_at: Timestamp,
    filename: Type.String(),
    fingerprint: Type.String(),
    last_used_at: Timestamp,
    profiles: Type.Array(Type.String()),
    properties: StringMap,
    public: Type.Boolean(),
    size: Type.Integer(),
    type: Type.String(),
    update_source: Type.Optional(ImageSource),
    uploaded_at: Timestamp,
  },
  { $id: 'Image' },
);
export type Image = Static<typeof Image>;

/** Pushes an image to another server. `POST /1.0/images/:fingerprint/export`. */
export const ImageExportPost = Type.Object(
  {
    aliases: Type.Optional(Type.Array(ImageAlias)),
    certificate: Type.Optional(Type.String()),
    profiles: Type.Optional(Type.Array(Type.String())),
    project: Type.Optional(Type.String()),
    secret: Type.Optional(Type.String()),
    target: Type.Optional(Type.String()),
  },
  { $id: 'ImageExportPost' },
);
export type ImageExportPost = Static<typeof ImageExportPost>;

/** One template an image applies inside the instance; the record key is the target path. */
export const ImageMetadataTemplate = Type.Object(
  {
    create_only: Type.Boolean(),
    properties: StringMap,
    template: Type.String(),
    when: Type.Array(Type.String()),
  },
  { $id: 'ImageMetadataTemplate' },
);
export type ImageMetadataTemplate = Static<typeof ImageMetadataTemplate>;

/** Content of an image's metadata.yaml; dates in seconds since 1970. `GET /1.0/instances/:name/metadata`. */
export const ImageMetadata = Type.Object(
  {
    architecture: Type.String(),
    creation_date: Type.Integer(),
    expiry_date: Type.Integer(),
    properties: Nullable(StringMap),
    templates: Nullable(Type.Record(Type.String(), ImageMetadataTemplate)),
  },
  { $id: 'ImageMetadata' },
);
export type ImageMetadata = Static<typeof ImageMetadata>;
