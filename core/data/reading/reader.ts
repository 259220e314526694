// Reader: one sample at a time from files, in whatever thread opened it. May import nothing of ours but errors.

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

/** Uniform numbers in [0, 1) of one sample in one epoch: `draw(k)` is the same whenever and wherever it is asked for. */
export type Draw = (k: number) => number;

/** A sample that can't be read or used. Whether that ends the run is the user's choice (data.bad_samples). */
export class BadSample extends Error {
  /** `reason` is what follows "sample 12 (cats/a.jpg) ": "is cut off after 1,024 of 20,480 bytes". */
  constructor(readonly path: string, readonly reason: string, options?: ErrorOptions) {
    super(`${path} ${reason}`, options);
  }
}
