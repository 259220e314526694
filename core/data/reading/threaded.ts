// What threads need to know to read a source's rows: plain data, sent to each. May import types only.
import type { Geometry } from "../transforms/geometry_plan.ts";
import type { Field } from "../source.ts";
import type { ReaderSpec } from "./kinds.ts";

/** @internal */
export interface Threaded {
  readonly reader: ReaderSpec;
  /** From a sample's number in the source to its index in the files; the same where it is null. In shared memory. */
  readonly indices: Int32Array | null;
  /** Samples in the source. */
  readonly length: number;
  /** One row of a raw batch. */
  readonly input: Field;
  readonly target: Field;
  /** What each byte of each channel becomes (levels.ts), where threads make floats of bytes; in shared memory. */
  readonly levels: Float32Array | null;
  /** Applied to each sample as it is read; null where the stored sample is the row. */
  readonly geometry: Geometry | null;
  /** The seed of its random choices; null in validation, which makes none. */
  readonly seed: number | null;
  /** What becomes of a sample that can't be read. */
  readonly bad: "fail" | "skip";
}
