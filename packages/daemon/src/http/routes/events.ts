import { routes } from '@keelson/api';
import { errors } from '../../core/errors.ts';
import { isAdmin, mayUseProject } from '../../services/certificates/caller.ts';
import type { Events, EventType } from '../../services/events/contract.ts';
import { websocket } from '../reply.ts';
import { bind, type RouteBinding } from '../route.ts';
import { EventStreams } from '../sockets/event-stream.ts';

const TYPES: readonly EventType[] = ['lifecycle', 'operation', 'logging'];

export function eventRoutes(events: Events): RouteBinding[] {
  const streams = new EventStreams(events);
  return [
    bind(routes['events.stream'], ({ caller, project, allProjects, query }) => {
      const options = {
        types: typesOf(query['type']),
        project: allProjects ? undefined : project,
        since: sinceOf(query['since']),
        // The log tells about everybody's work.
        sees: isAdmin(caller)
          ? () => true
          : (event: { type: string; project: string }) =>
              event.type !== 'logging' && mayUseProject(caller, event.project),
      };
      return websocket((socket) => streams.attach(socket, options));
    }),
  ];
}

/** @throws bad-request naming an unknown type. */
function typesOf(text: string | undefined): readonly EventType[] {
  if (text === undefined || text === '') return TYPES;
  return text.split(',').map((name) => {
    const type = TYPES.find((known) => known === name);
    if (type === undefined) throw errors.badRequest(`"${name}" isn't a supported event type`);
    return type;
  });
}

function sinceOf(text: string | undefined): number | undefined {
  if (text === undefined || text === '') return undefined;
  const sequence = Number(text);
  if (!Number.isSafeInteger(sequence) || sequence < 0) throw errors.badRequest(`Invalid sequence "${text}" in since`);
  return sequence;
}
