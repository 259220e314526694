// A printer turns kernels into code: loops over fixed shapes. A kernel names its memory by slots of a table, never by
// address, so that code is the same wherever its tensors lie.

import type { HalfType, Kind, OtherKind } from "./graph.ts";

/** Elements of 4 bytes (f32, and masks), 8 (i64) or, on a GPU, 2 (bf16, f16) from `offset` elements on, in the memory of a slot. */
export interface SlotPlace {
  readonly slot: number;
  readonly offset: number;
  /** Its number among those that differ between kernels that are written as one (core/compile/x86/print.ts). */
  readonly spot?: number;
}

/** How a loop accesses through memory: elements from one step of each dimension to the next, 0 where it stands still. */
export interface StridedAccess extends SlotPlace {
  readonly strides: readonly number[];
  /** "philox": random numbers by their index, of a draw whose key lies in the slot (GPUs). "place": the index itself. */
  readonly kind: Exclude<Kind, OtherKind> | HalfType | "philox" | "place";
}

/** Bytes of an element. */
export const ELEMENT_BYTES = { f32: 4, i64: 8, bool: 1, bf16: 2, f16: 2, philox: 8, place: 8 } as const;

/** A number of an expression: the index of an Instruction, in order. */
export type Operand = number;

export type Instruction =
  | { readonly op: "load"; readonly from: StridedAccess }
  | { readonly op: "number"; readonly value: number }
  /** A sum or the greatest of an earlier stage: one for each row. */
  | { readonly op: "reduced"; readonly reduction: number }
  /** The names of graph.ts's POINTWISE, and fma (a * b + c, rounded once). */
  | { readonly op: string; readonly args: readonly Operand[] };

export interface Store {
  readonly value: Operand;
  readonly to: StridedAccess;
}

/**
 * `row`: over the last dimension, one for each row, for later stages and, where `to` is set, for memory. `column`: over
 * all dimensions but the last, row by row up to 16 rows; more are summed 16 at a time, then 16 of those sums, as
 * libtorch does (in a group without row reductions, and of more than one column). `all`: over everything. An f32 each.
 */
export interface Reduction {
  readonly op: "sum" | "amax";
  readonly over: "row" | "column" | "all";
  readonly value: Operand;
  readonly to: StridedAccess | null;
}

/** One pass over a row: later stages may use the row reductions of earlier ones. */
export interface Stage {
  readonly instructions: readonly Instruction[];
  readonly stores: readonly Store[];
  readonly reductions: readonly Reduction[];
}

/**
 * Loops over `sizes`, the last one innermost and vectorised. `reduced` counts row reductions over the stages in order.
 * A store must be f32, and no two of its elements may lie in one place.
 */
export interface GroupKernel {
  readonly kernel: "group";
  readonly name: string;
  /**
   * exp, tanh and their like are Sleef's, as inside libtorch's gelu or sigmoid; polynomials otherwise. libtorch's own op
   * of that name is a VectorKernel.
   */
  readonly exact?: boolean;
  readonly sizes: readonly number[];
  readonly stages: readonly Stage[];
}

/**
 * C = A B, or C += A B. With an epilogue only what it stores is meant: its load of slot -1 is the product itself, its
 * sizes are [m, n], and C may hold parts of the product meanwhile. C's rows or its columns are contiguous.
 */
export interface GemmKernel {
  readonly kernel: "gemm";
  readonly name: string;
  readonly m: number;
  readonly n: number;
  readonly k: number;
  /** Strides of [m, k], [k, n] and [m, n]. */
  readonly a: StridedAccess;
  readonly b: StridedAccess;
  readonly c: StridedAccess;
  readonly add: boolean;
  readonly epilogue: Stage | null;
  /**
   * As libtorch's BLAS sums: so many products one after the other from 0 on, and these sums one after the other, to what
   * is there. By default as it suits us. The epilogue is exact, too, as a group can be.
   */
  readonly chain?: number;
}

/** libtorch's own sgemm_, in column-major order as it calls it: for its bits. */
export interface BlasKernel {
  readonly kernel: "blas";
  readonly name: string;
  readonly transA: boolean;
  readonly transB: boolean;
  readonly m: number;
  readonly n: number;
  readonly k: number;
  readonly a: SlotPlace;
  readonly lda: number;
  readonly b: SlotPlace;
  readonly ldb: number;
  readonly c: SlotPlace;
  readonly ldc: number;
  readonly beta: 0 | 1;
}

/** libtorch takes these from MKL, over contiguous numbers; its other functions have the same bits in an exact group. */
export const VECTOR_FUNCTIONS = ["exp", "log", "tanh", "erf", "sin", "cos", "sqrt"] as const;

/** One of them, for its bits. `to` may be `from`. */
export interface VectorKernel {
  readonly kernel: "vector";
  readonly name: string;
  readonly function: typeof VECTOR_FUNCTIONS[number];
  readonly elements: number;
  readonly from: SlotPlace;
  readonly to: SlotPlace;
}

export type Kernel = GroupKernel | GemmKernel | BlasKernel | VectorKernel;

/** Position-independent functions; their one argument is the address of the table of slots, which symbols follow. */
export interface Code {
  readonly bytes: Uint8Array;
  /** The functions begin there. */
  readonly entries: readonly number[];
  /** Constants that it reads: one more slot, `constantsSlot`, has their address. */
  readonly constants: Uint8Array;
  readonly constantsSlot: number;
  /** Memory that it writes as it likes: the slot behind the constants' one, 64 bytes aligned. */
  readonly scratchBytes: number;
  /** Functions that it calls, in the order of their slots behind the scratch memory's one. */
  readonly symbols: readonly string[];
}
