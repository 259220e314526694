// An error as plain data, and back: of another thread, or of another rank. May import errors.
import { type ExitKind, UserError } from "../../errors.ts";

export interface Failure {
  readonly kind: ExitKind | null;
  readonly text: string;
}

export const failureOf = (error: unknown): Failure =>
  error instanceof UserError
    ? { kind: error.kind, text: error.message }
    : { kind: null, text: error instanceof Error ? error.stack ?? error.message : String(error) };

export const errorOf = ({ kind, text }: Failure): Error =>
  kind === null
    ? new Error(`internal: the thread that writes checkpoints: ${text}`)
    : new UserError(kind, text);
