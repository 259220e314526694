// What a user can get wrong, as sentences with an exit code. Imports nothing.

/**
 * The documented exit codes. A supervisor exits with the code of the first rank that failed.
 * @internal
 */
export const EXIT = {
  done: 0,
  usage: 2,
  data: 3,
  memory: 4,
  communication: 5,
  numerics: 6,
  environment: 7,
  checkpoint: 8,
  internal: 70,
  stopped: 75,
} as const;

/** The names of the exit codes. */
export type ExitKind = keyof typeof EXIT;

/** A user's mistake or a fact of the machine: printed as one sentence, never with a stack trace. */
export class UserError extends Error {
  /** What kind of mistake it is; it decides the exit code. */
  readonly kind: ExitKind;
  /** `sentence` says what is wrong and what to do. */
  constructor(kind: ExitKind, sentence: string, options?: ErrorOptions) {
    super(sentence, options);
    this.name = "UserError";
    this.kind = kind;
  }
  /** What the program ends with for it. */
  get exitCode(): number {
    return EXIT[this.kind];
  }
}

/** The system's name of what it refused, or its number; undefined if it was not the system. Deno names most of them. */
export function systemCode(error: unknown): string | undefined {
  const { code, message } = error as { code?: string; message?: string };
  const number = /\(os error (\d+)\)$/.exec(message ?? "")?.[1];
  return code ?? (number && (NAMELESS[number] ?? number));
}

const NAMELESS: Readonly<Record<string, string>> = { 27: "EFBIG", 122: "EDQUOT" };
