// Reader: brings one sample at a time from files, in the thread that opened it. The kinds of reader are loaded by
// name, and what a thread needs to open one is plain data.
import type { WholeReader } from "./pipeline.ts";
import type { Geometry } from "../transforms/geometry.ts";
import type { Field } from "../source.ts";

// Reader: one sample at a time from files, in whatever thread opened it.

export type Numbers =
  | Uint8Array
  | Int8Array
  | Uint16Array
  | Int16Array
  | Uint32Array
  | Int32Array
  | BigInt64Array
  | BigUint64Array
  | Float32Array
  | Float64Array;

/** A sample's input as it is stored; `data` is the reader's own memory and holds it until the next read. */
export interface Stored {
  readonly data: Numbers;
  /** [channels, height, width] of an image or a map. */
  readonly shape: readonly number[];
  /** Elements from one index to the next, in each dimension; row-major where left out. */
  readonly strides?: readonly number[];
}

/** Reads samples by their index in the files. Never used by two threads: each opens its own. */
export interface Reader {
  /** The sample's input; its target is written to `target`, as bytes. Throws BadSample for what can't be read. */
  read(index: number, target: Uint8Array): Stored;
  /** Where stored samples are rows of a batch already: the same, straight to their place. */
  readInto?(index: number, input: Uint8Array, target: Uint8Array): void;
  close(): void;
  /** Samples that lie in one chunk of the file have the same number: once it is unpacked, they are read for little. */
  groupOf?(index: number): number;
  /** The file of all samples, where they have one in common. */
  readonly path?: string;
}

/** Uniform numbers in [0, 1) of one sample in one epoch: `draw(k)` is the same in every thread and at every time. */
export type Draw = (k: number) => number;

/** A sample that can't be read or used. Whether that ends the run is the user's choice (data.bad_samples). */
export class BadSample extends Error {
  /** `reason` is what follows "sample 12 (cats/a.jpg) ": "is cut off after 1,024 of 20,480 bytes". */
  constructor(readonly path: string, readonly reason: string, options?: ErrorOptions) {
    super(`${path} ${reason}`, options);
  }
}

/** Plain data that a thread is sent: which reader to open, and on what. Large lists are shared memory, not copied. */
export interface ReaderSpec {
  /** The address of the module that reads: its default export is a ReaderModule. */
  readonly module: string;
  /** True where several samples share a chunk of the file (Reader.groupOf): seeing more of them ahead saves work. */
  readonly grouped?: boolean;
  /** True where it is given all samples of a part at once (WholeReader), in one thread. */
  readonly whole?: boolean;
}

export interface ReaderModule<S extends ReaderSpec = ReaderSpec> {
  /** Brings what takes time (WebAssembly, a user's file) into this thread, before `open`. */
  load?(spec: S): Promise<void>;
  open?(spec: S): Reader;
  /** In place of `open`, where the spec says `whole`. */
  openWhole?(spec: S): WholeReader;
}

/** The modules that this thread has. A thread that reads npz never loads a JPEG decoder. */
const modules = new Map<string, ReaderModule>();

/** Puts a reader that this thread has by other ways in place of its module. */
export const noteReader = (module: string, reader: ReaderModule<any>): void =>
  void modules.set(module, reader);

/** Must have come to its end, in this thread, before the reader is opened. */
export async function loadReader(spec: ReaderSpec): Promise<void> {
  const { module } = spec;
  const reader: ReaderModule = modules.get(module) ?? (await import(module)).default;
  await reader.load?.(spec);
  modules.set(module, reader);
}

export const openReader = (spec: ReaderSpec): Reader => moduleOf(spec).open!(spec);

export const openWholeReader = (spec: ReaderSpec): WholeReader => moduleOf(spec).openWhole!(spec);

function moduleOf({ module }: ReaderSpec): ReaderModule {
  const reader = modules.get(module);
  if (!reader) throw new Error(`internal: the reader ${module} was not loaded.`);
  return reader;
}

// Threads read a source's rows with this plain data, which each of them is sent.

/** @internal */
export interface Threaded {
  readonly reader: ReaderSpec;
  /** From a sample's number in the source to its index in the files; the same where it is null. In shared memory. */
  readonly indices: Int32Array | null;
  readonly length: number;
  readonly input: Field;
  readonly target: Field;
  /** The floats that each byte of each channel becomes, where threads make floats of bytes; in shared memory. */
  readonly levels: Float32Array | null;
  /** Applied to each sample as it is read; null where the stored sample is the row. */
  readonly geometry: Geometry | null;
  /** The seed of its random choices; null in validation, which makes none. */
  readonly seed: number | null;
  readonly bad: "fail" | "skip";
}
