// A reader of a server's store and the thread that asks the server tell each other this.

/** Words of the shared memory: whether the answer is there, and the bytes of its text, which follows them. */
export const DONE = 0, LENGTH = 1, ANSWER = 8, SPACE = 4096;

export interface Orders {
  readonly shared: SharedArrayBuffer;
  readonly url: string;
  readonly most: number;
  /** A place below 0 is counted from the end. */
  readonly range?: { readonly at: number; readonly bytes: number };
  /** A try ends when nothing came for so long. */
  readonly silenceMs?: number;
  readonly waitMs?: number;
}

/** They will be asked for next. */
export interface Expected {
  readonly ahead: readonly string[];
  readonly most: number;
}

export interface FetchBuffers {
  readonly shared: SharedArrayBuffer;
  readonly into: SharedArrayBuffer;
}

export type FetchFault =
  | { readonly kind: "absent" }
  | { readonly kind: "large" }
  | { readonly kind: "status"; readonly status: number }
  | { readonly kind: "redirect"; readonly to: string }
  | { readonly kind: "overdue"; readonly seconds: number }
  | { readonly kind: "untrusted"; readonly why: string }
  | { readonly kind: "unreachable"; readonly why: string }
  | { readonly kind: "no parts"; readonly most: number };

export type FetchFailure = FetchFault & { readonly tries: number };

export interface FetchAnswer {
  /** So many wait to be taken. */
  readonly bytes?: number;
  readonly failed?: FetchFailure;
}
