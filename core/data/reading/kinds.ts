// The kinds of reader, by name: what a thread needs to open one is plain data. May import the readers.
import type { Reader } from "./reader.ts";

/** Plain data that a thread is sent: which reader to open, and on what. Large lists are shared memory, not copied. */
export interface ReaderSpec {
  readonly kind: string;
  /** Whether several samples share a chunk of the file (Reader.groupOf), so that seeing more of them ahead saves work. */
  readonly grouped?: boolean;
}

/** One kind: `load` brings what takes time (WebAssembly, libraries) into this thread, before `open`. */
export interface Kind<S extends ReaderSpec = ReaderSpec> {
  readonly kind: S["kind"];
  load?(): Promise<void>;
  open(spec: S): Reader;
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

/** Must have come to its end, in this thread, before a reader of this kind is opened. */
export async function loadKind(name: string): Promise<void> {
  if (loaded.has(name)) return;
  const bring = KINDS[name] ?? (async () => (await import(name)).default); // the address of a module that is one
  const kind = (await bring()) as Kind;
  await kind.load?.();
  loaded.set(name, kind);
}

export function openReader(spec: ReaderSpec): Reader {
  const kind = loaded.get(spec.kind);
  if (!kind) throw new Error(`internal: the reader of ${spec.kind} was not loaded.`);
  return kind.open(spec);
}
