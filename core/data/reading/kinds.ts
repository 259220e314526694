// The kinds of reader, by name: what a thread needs to open one is plain data. May import the readers.
import type { Reader } from "./reader.ts";
import type { WholeReader } from "./whole.ts";

/** Plain data that a thread is sent: which reader to open, and on what. Large lists are shared memory, not copied. */
export interface ReaderSpec {
  readonly kind: string;
  /** Whether several samples share a chunk of the file (Reader.groupOf), so that seeing more of them ahead saves work. */
  readonly grouped?: boolean;
  /** Whether it is asked for all samples of a part at once (WholeReader), in one thread. */
  readonly whole?: boolean;
}

/** One kind: `load` brings what takes time (WebAssembly, libraries) into this thread, before `open`. */
export interface Kind<S extends ReaderSpec = ReaderSpec> {
  readonly kind: S["kind"];
  load?(spec?: S): Promise<void>;
  open?(spec: S): Reader;
  /** In place of it, where the spec says `whole`. */
  openWhole?(spec: S): WholeReader;
}

/** Each is imported when the first of its specs is opened: a thread that reads npz never loads a JPEG decoder. */
const KINDS: Readonly<Record<string, () => Promise<Kind<any>>>> = {
  arrays: async () => (await import("../arrays/reader.ts")).arrays,
  hdf5: async () => (await import("../arrays/reader.ts")).hdf5,
  images: async () => (await import("../images/reader.ts")).images,
  tokens: async () => (await import("../token_reader.ts")).tokens,
  packed: async () => (await import("../packed/reader.ts")).packed,
  "packed-encoded": async () => (await import("../packed/encoded_reader.ts")).encoded,
};

const loaded = new Map<string, Kind>();

/** A kind that this thread has by other ways. */
export const noteKind = (kind: Kind<any>): void => void loaded.set(kind.kind, kind);

/** Must have come to its end, in this thread, before a reader of this kind is opened. */
export async function loadKind(name: string, spec?: ReaderSpec): Promise<void> {
  if (loaded.has(name)) return;
  const bring = KINDS[name] ?? (async () => (await import(name)).default); // the address of a module that is one
  const kind = (await bring()) as Kind;
  await kind.load?.(spec);
  loaded.set(name, kind);
}

export const openReader = (spec: ReaderSpec): Reader => found(spec.kind).open!(spec);

export const openWholeReader = (spec: ReaderSpec): WholeReader => found(spec.kind).openWhole!(spec);

function found(name: string): Kind {
  const kind = loaded.get(name);
  if (!kind) throw new Error(`internal: the reader of ${name} was not loaded.`);
  return kind;
}
