// An error crosses threads and ranks as plain data.
import { type ExitKind, refused, UserError } from "./errors.ts";

export interface Failure {
  readonly kind: ExitKind | null;
  readonly text: string;
}

/** A system error in a checkpoint write is a failed save, wherever it happened. */
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
