// What --full measures, as plain data. Imports types.
import type { Probe } from "../write_probe.ts";

export interface RankResult {
  readonly rank: number;
  readonly host: string;
  readonly device: string;
  /** Billions of multiplications and additions a second, of matrices in f32. */
  readonly gflops: number;
  /** The same product came out twice as the same bits. */
  readonly same: boolean;
  /** A file of its own in the run's folder, with all ranks at it; null where it was not tried. */
  readonly write: Probe | null;
  /** Seconds by which its clock is ahead of rank 0's, and how far that can be wrong. */
  readonly ahead: number;
  readonly unsure: number;
}

/** An all-reduce of all ranks of two nodes. */
export interface PairResult {
  readonly nodes: readonly [string, string];
  readonly bytes: number;
  readonly seconds: number;
  /** The sum was right. */
  readonly right: boolean;
}

export interface AllResult {
  readonly bytes: number;
  readonly seconds: number;
}

export interface Results {
  readonly ranks: readonly RankResult[];
  readonly pairs: readonly PairResult[];
  /** Pairs that there was no time for. */
  readonly left: number;
  readonly all: readonly AllResult[];
  /** Since the program began. */
  readonly seconds: number;
}
