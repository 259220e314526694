// How a checkpoint is written, whatever its format. Imports value.
import type { Storage } from "./value.ts";

/** How a checkpoint is written. */
export interface WriteOptions {
  /** Read all of it back before it takes its place. */
  verify?: boolean;
  /** Those whose SHA-256 another thread makes, and how to wait for it. All others are summed where they are written. */
  known?: Sums;
  /** Is given the temporary file when it is whole, right before it takes its place. An exception keeps the old one there. */
  ready?: (temporary: string) => void;
}

/**
 * Waits for the SHA-256 of a storage, as hexadecimal digits.
 * @internal
 */
export type Sums = ReadonlyMap<Storage, () => string>;
