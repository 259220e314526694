// An error as plain data, and back: of another thread, or of another rank.
import { type ExitKind, refused, UserError } from "./errors.ts";

export interface Failure {
  readonly kind: ExitKind | null;
  readonly text: string;
}

/** A refusal of the system to a writer of checkpoints is a failed save, wherever it was. */
export function failureOf(cause: unknown): Failure {
  const error = refused(cause, "checkpoint");
  return error instanceof UserError
    ? { kind: error.kind, text: error.message }
    : { kind: null, text: error instanceof Error ? error.stack ?? error.message : String(error) };
}

export const errorOf = ({ kind, text }: Failure): Error =>
  kind === null
    ? new Error(`internal: the thread that writes checkpoints: ${text}`)
    : new UserError(kind, text);
