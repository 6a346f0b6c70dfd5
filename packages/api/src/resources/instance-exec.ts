import { Type, type Static } from 'typebox';
import { StringMap } from './common.ts';

/** Runs a command in an instance. `POST /1.0/instances/:name/exec`. */
export const InstanceExecPost = Type.Object(
  {
    command: Type.Array(Type.String()),
    cwd: Type.Optional(Type.String()),
    environment: Type.Optional(StringMap),
    group: Type.Optional(Type.Integer({ minimum: 0 })),
    height: Type.Optional(Type.Integer()),
    interactive: Type.Optional(Type.Boolean()),
    'record-output': Type.Optional(Type.Boolean()),
    user: Type.Optional(Type.Integer({ minimum: 0 })),
    'wait-for-websocket': Type.Optional(Type.Boolean()),
    width: Type.Optional(Type.Integer()),
  },
  { $id: 'InstanceExecPost' },
);
export type InstanceExecPost = Static<typeof InstanceExecPost>;

/** Attaches to an instance's console; `type` is `console` or `vga`. `POST /1.0/instances/:name/console`. */
export const InstanceConsolePost = Type.Object(
  {
    height: Type.Optional(Type.Integer()),
    type: Type.Optional(Type.String()),
    width: Type.Optional(Type.Integer()),
  },
  { $id: 'InstanceConsolePost' },
);
export type InstanceConsolePost = Static<typeof InstanceConsolePost>;
