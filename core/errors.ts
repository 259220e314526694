// What a user can get wrong, as sentences with an exit code. Imports nothing.

/** The documented exit codes. A supervisor exits with the code of the first rank that failed. */
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

export type ExitKind = keyof typeof EXIT;

/** A user's mistake or a fact of the machine: printed as one sentence, never with a stack trace. */
export class UserError extends Error {
  readonly kind: ExitKind;
  constructor(kind: ExitKind, sentence: string, options?: ErrorOptions) {
    super(sentence, options);
    this.name = "UserError";
    this.kind = kind;
  }
  get exitCode(): number {
    return EXIT[this.kind];
  }
}
