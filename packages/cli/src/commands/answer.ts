import type { ApiResponse } from '@keelson/client';

/** Metadata of an answer to a low-level request. @throws Error with the server's text */
export async function answerOf<T>(request: Promise<ApiResponse>): Promise<T> {
  const answer = await request;
  const text = await answer.text();
  let envelope: { metadata?: unknown; error?: string };
  try {
    envelope = JSON.parse(text) as typeof envelope;
  } catch {
    throw new Error(`The server answered ${answer.status} without JSON`);
  }
  if (answer.status >= 400) throw new Error(envelope.error ?? text);
  return envelope.metadata as T;
}
