// A Reader brings one sample at a time from files, in the thread that opened it. Readers are loaded by name,
// and opened from plain data.
import type { Beside, Geometry } from "./geometry.ts";
import type { Stored } from "../augment/planes.ts";
import type { DType } from "../../../ffi/dtype.ts";

/** Samples have indices in the files. Each thread opens its own. */
export interface Reader {
  /** The target's bytes go to `target`. BadSample means that the sample cannot be read. */
  read(index: number, target: Uint8Array, epoch: number): Stored;
  /** Readers have it where stored samples are rows of a batch already. */
  readInto?(index: number, input: Uint8Array, target: Uint8Array, epoch: number): void;
  /** Readers of maps in several sizes have it: an input, and its target of the same sides, which the geometry brings to one. */
  readPair?(index: number, epoch: number): { readonly input: Stored; readonly target: Stored };
  close(): void;
  /** Samples in one chunk of the file share a number: once it is unpacked, they cost little. */
  groupOf?(index: number): number;
  readonly path?: string;
}

/** A thread gets this plain data; large lists are shared memory. */
export interface ReaderSpec {
  /** The module's default export is a ReaderModule. */
  readonly module: string;
  /** Samples share chunks (Reader.groupOf): more of them in sight save work. */
  readonly grouped?: boolean;
  /** One thread gets all samples of a part at once (WholeReader). */
  readonly whole?: boolean;
}

export interface ReaderModule<S extends ReaderSpec = ReaderSpec> {
  /** It loads what takes time (WebAssembly, a user's file) into this thread, before `open`. */
  load?(spec: S): Promise<void>;
  open?(spec: S): Reader;
  openWhole?(spec: S): WholeReader;
}

/** A thread that reads npz never loads a JPEG decoder. */
const modules = new Map<string, ReaderModule>();

/** Whoever knows the reader of a module need not load it. */
export function noteReader(module: string, reader: ReaderModule<any>): string {
  modules.set(module, reader);
  return module;
}

/** It must end, in this thread, before the reader is opened. */
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

/** A bad one ends what reads it, or the one after it stands in for it; `alone` has nothing stand in, whatever the setting says. */
export type OfBadSamples = "fail" | "skip" | "alone";

/** @internal */
export interface Threaded {
  readonly reader: ReaderSpec;
  /** Shared memory maps a source's samples to the files' indices; null means the same. */
  readonly indices: Int32Array | null;
  readonly length: number;
  readonly input: Field;
  readonly target: Field;
  /** Threads make these floats of bytes, by channel; shared memory. */
  readonly levels: Float32Array | null;
  /** Null means that the stored sample is the row. */
  readonly geometry: Geometry | null;
  /** A target that is a map goes through the geometry with its input. */
  readonly beside?: Beside | null;
  /** Null means no random choices: validation. */
  readonly seed: number | null;
  readonly bad: OfBadSamples;
  /** An input may have missing points (NaN). */
  readonly missing?: boolean;
  /** They are filled where the sample is read; `input` has room for the mask. */
  readonly nearest?: NearestFill;
}

/** The name, shape and type of an input or a target. */
export interface Field {
  /** Messages use the data's name. */
  readonly name: string;
  /** The shape of one sample. */
  readonly shape: readonly number[];
  /** The type of its numbers. */
  readonly dtype: DType;
}

/** Each thread opens its own. */
export interface WholeReader {
  readPart(indices: readonly number[], epoch: number, inputs: Uint8Array, targets: Uint8Array): void;
  /** The stored shape is before crops and turns. */
  readonly stored: readonly number[];
  readonly path: string;
  close(): void;
}

export interface NearestFill {
  /** A stored sample: [channels, ...map]; distances are in the last two dimensions. */
  readonly shape: readonly number[];
  /** A further channel is 1 where no channel was missing, and 0 elsewhere. */
  readonly mask: boolean;
}
