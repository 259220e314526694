// What moves tensors between ranks on CPUs: MPI, memory that ranks share, or TCP. Blocking collectives of all ranks, on native
// memory by address, called from one thread.

export type ElementType = "f32" | "f64" | "bf16" | "f16" | "i32" | "i64" | "u8";
export type ReduceOp = "sum" | "max" | "min";

/** Of an element. */
export const BYTES: Readonly<Record<ElementType, number>> = {
  f32: 4,
  f64: 8,
  bf16: 2,
  f16: 2,
  i32: 4,
  i64: 8,
  u8: 1,
};

/** `bytes` and `count` may be any size. */
export interface Transport {
  /** As a line of the log names it: "Open MPI 5.0.11", "shared memory". */
  readonly version: string;
  readonly rank: number;
  readonly size: number;
  /** In place. */
  allReduce(at: bigint, count: number, type: ElementType, op: ReduceOp): void;
  broadcast(at: bigint, bytes: number, root: number): void;
  /** Each rank's `bytes` into the memory of all, in order of ranks. */
  allGather(into: bigint, own: bigint, bytes: number): void;
  /** This rank's `count` of the sums of all. */
  reduceScatter(own: bigint, from: bigint, count: number, type: ElementType): void;
  barrier(): void;
  /** Until the next call of it, all-reduces and barriers are among the ranks of this colour; -1: among all. */
  split(colour: number): void;
  /**
   * Where this rank has `bytes` that all ranks see, or 0: they are not all on one host, or it has no room. What is added up
   * there takes one pass over memory; and from here on what is small takes no messages. Every rank calls it, once.
   */
  share(bytes: number): bigint;
  finalize(): void;
}

/** Writes what becomes of the sources, element by element and in their order, to each of `into`. */
export type Combine = (
  sources: readonly bigint[],
  into: readonly bigint[],
  count: number,
  type: ElementType,
  op: ReduceOp,
) => void;
