import { Type, type Static } from 'typebox';

/** Writable part of an image alias. */
export const ImageAliasesEntryPut = Type.Object(
  {
    description: Type.Optional(Type.String()),
    target: Type.Optional(Type.String()),
  },
  { $id: 'ImageAliasesEntryPut' },
);
export type ImageAliasesEntryPut = Static<typeof ImageAliasesEntryPut>;

/** Creates an image alias. `POST /1.0/images/aliases`. */
export const ImageAliasesPost = Type.Object(
  {
    description: Type.Optional(Type.String()),
    name: Type.String(),
    target: Type.String(),
    type: Type.Optional(Type.String()),
  },
  { $id: 'ImageAliasesPost' },
);
export type ImageAliasesPost = Static<typeof ImageAliasesPost>;

/** Renames an image alias. `POST /1.0/images/aliases/:name`. */
export const ImageAliasesEntryPost = Type.Object(
  {
    name: Type.String(),
  },
  { $id: 'ImageAliasesEntryPost' },
);
export type ImageAliasesEntryPost = Static<typeof ImageAliasesEntryPost>;

/** An image alias; `target` is a fingerprint. `GET /1.0/images/aliases/:name`. */
export const ImageAliasesEntry = Type.Object(
  {
    description: Type.String(),
    name: Type.String(),
    target: Type.String(),
    type: Type.String(),
  },
  { $id: 'ImageAliasesEntry' },
);
export type ImageAliasesEntry = Static<typeof ImageAliasesEntry>;
