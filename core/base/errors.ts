// Users' mistakes, as sentences with an exit code.

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
  /** The kind of a mistake decides the exit code. */
  readonly kind: ExitKind;
  /** Among ranks that have met: whether another one prints it. */
  printedElsewhere?: boolean;
  /** `sentence` says what is wrong and what to do. */
  constructor(kind: ExitKind, sentence: string, options?: ErrorOptions) {
    super(sentence, options);
    this.name = "UserError";
    this.kind = kind;
  }
  /** The exit code of the program for this mistake. */
  get exitCode(): number {
    return EXIT[this.kind];
  }
}

export interface SystemRefusal {
  /** It is the name ("ENOSPC"), or the number where neither Deno nor we have a name. */
  readonly code: string;
  readonly message: string;
  /** It is the call and its path, "open '/data/x'", or empty. */
  readonly call: string;
}

/** Undefined means that the system did not raise the error. Deno puts the path behind the number. */
export function systemRefusal(error: unknown): SystemRefusal | undefined {
  const { code, message = "" } = (error ?? {}) as { code?: unknown; message?: string };
  const [, text = message, number, call = ""] = /^(.*?) \(os error (\d+)\)(?:: (.*))?/s.exec(message) ?? [];
  const name = typeof code === "string" && /^E[A-Z0-9]+$/.test(code) ? code : undefined; // "ERR_..." is Node's own
  const found = name ?? (number && (NAMELESS[number] ?? number));
  return found ? { code: found, message: text, call } : undefined;
}

const NAMELESS: Readonly<Record<string, string>> = {
  ...{ 23: "ENFILE", 26: "ETXTBSY", 27: "EFBIG", 31: "EMLINK", 37: "ENOLCK", 38: "ENOSYS", 108: "ESHUTDOWN" },
  ...{ 112: "EHOSTDOWN", 116: "ESTALE", 117: "EUCLEAN", 121: "EREMOTEIO", 122: "EDQUOT" },
  ...{ 126: "ENOKEY", 127: "EKEYEXPIRED", 128: "EKEYREVOKED", 129: "EKEYREJECTED" },
};

/** The result is part of a sentence; the system's own text does not say what to do. */
export function whyRefused({ code, message: text }: SystemRefusal): string {
  const why = WHY[code];
  return why === undefined ? text : why.includes(text) ? why : `${why} (${text})`;
}

const NO_ANSWER = "the file server does not answer";
const NO_KEY = "your ticket for this file system has ended; renew it (kinit, aklog)";
const FAILED = "the disk or the file server failed";
const WHY: Readonly<Record<string, string>> = {
  ...{ EIO: FAILED, EREMOTEIO: FAILED, EUCLEAN: "the file system is damaged" },
  ...{ EHOSTDOWN: NO_ANSWER, EHOSTUNREACH: NO_ANSWER, ENETUNREACH: NO_ANSWER, ETIMEDOUT: NO_ANSWER },
  ...{ ESHUTDOWN: NO_ANSWER, ENOTCONN: NO_ANSWER, ECONNREFUSED: NO_ANSWER, ECONNRESET: NO_ANSWER },
  ...{ ENOKEY: NO_KEY, EKEYEXPIRED: NO_KEY, EKEYREVOKED: NO_KEY, EKEYREJECTED: NO_KEY },
  ESTALE: "the file server no longer knows this file or its folder",
  ENOLCK: "the file server has no locks left",
  ENAMETOOLONG: "the name is longer than file names may be (255 bytes)",
  EMFILE: "this process has too many files open; raise the limit (see: ulimit -n)",
  ENFILE: "this machine has too many files open",
};

/** Only refusals by the system, also of memory, become sentences. */
export function refused(error: unknown, kind: ExitKind): unknown {
  if (error instanceof UserError) return error;
  if (error instanceof RangeError && error.message === NO_MEMORY) {
    return new UserError("memory", "There is not enough memory for a buffer of this process.", {
      cause: error,
    });
  }
  const refusal = systemRefusal(error);
  if (refusal === undefined) return error;
  const what = refusal.call === "" ? "A file call was refused" : `The system refused to ${refusal.call}`;
  return new UserError(kind, `${what}: ${whyRefused(refusal)}.`, { cause: error });
}

/** V8 uses this text. */
const NO_MEMORY = "Array buffer allocation failed";

export const messageOf = (error: unknown): string => error instanceof Error ? error.message : String(error);
