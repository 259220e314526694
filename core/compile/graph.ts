// A training step as a graph of values of fixed shapes: what a recorded step is written as, what backward is derived in,
// and what is fused into loops. Every value is laid out in row-major order; a view is a value of its own, and whoever
// reads it decides whether it is a copy.

import type { DType } from "../../ffi/dtype.ts";

/** A plan computes in f32. Whole numbers (labels, indices) and truth values are only read. Other types are libtorch's alone. */
export type Kind = "f32" | "i64" | "bool" | OtherKind;
export type OtherKind = Exclude<DType, "f32" | "i64" | "bool" | "f16" | "bf16">;

/** Kernels read no numbers of such a type, so only views of it and calls are left. */
export const isOther = (kind: Kind): kind is OtherKind => kind !== "f32" && kind !== "i64" && kind !== "bool";
/** Gradients are of these types. */
export const hasGradients = (kind: Kind): boolean => kind[0] === "f" || kind[0] === "c";

/** Each op takes so many values and works number by number. Shapes are broadcast as NumPy does. */
export const POINTWISE = {
  neg: 1,
  abs: 1,
  sign: 1,
  sqrt: 1,
  rsqrt: 1,
  reciprocal: 1,
  exp: 1,
  expm1: 1,
  log: 1,
  log1p: 1,
  tanh: 1,
  sigmoid: 1,
  erf: 1,
  sin: 1,
  cos: 1,
  floor: 1,
  /** Rounded to half precision, and f32 again. */
  bf16: 1,
  f16: 1,
  /** From i64 or bool to f32. */
  float: 1,
  add: 2,
  sub: 2,
  mul: 2,
  div: 2,
  pow: 2,
  /** A gradient, and the tanh that it is one of: g (1 - y y), rounded as libtorch does. */
  tanhBackward: 2,
  max: 2,
  min: 2,
  /** Truth values: those of NaN are false, but for ne. */
  lt: 2,
  le: 2,
  gt: 2,
  ge: 2,
  eq: 2,
  ne: 2,
  and: 2,
  or: 2,
  not: 1,
  /** where(truth, a, b). */
  where: 3,
} as const;

export type Pointwise = keyof typeof POINTWISE;

/** Types of half precision: each is the name of the op that rounds to it, too. */
const HALVES = ["bf16", "f16"] as const;
export type HalfType = typeof HALVES[number];
export const isHalf = (type: string): type is HalfType => (HALVES as readonly string[]).includes(type);

/** The same numbers, or some of them, elsewhere. */
export const VIEWS: ReadonlySet<string> = new Set(["reshape", "expand", "permute", "slice", "stop"]);

/** The number of a value in its graph: values stand after those that they are made of. */
export type Ref = number;

interface Made {
  readonly shape: readonly number[];
  readonly kind: Kind;
  /** Set where blocks are computed once more (passes.ts): it is computed when backward has come to this block, counted from the last one, and not before. */
  readonly recomputedAt?: number;
  /** Set there, too: it lies in memory for backward. */
  readonly saved?: boolean;
  /** Set by cuda/halves.ts: the numbers are ones of this type, and lie so in memory of the plan's own. */
  readonly half?: HalfType;
}

/** Tensors that come from outside. */
export type TensorOrigin =
  /** The micro-batch's. */
  | { readonly from: "input" | "target" | "weight" }
  /** All parameters, as one vector. */
  | { readonly from: "weights" }
  /** The arena's parameter of this number. */
  | { readonly from: "parameter"; readonly index: number }
  /** The arena's gradient of this number, as it is before the step. */
  | { readonly from: "gradient"; readonly index: number }
  /** On a GPU: random numbers in [0, 1), other ones in each step, which whoever reads them computes. */
  | { readonly from: "drawn"; readonly draw: number }
  /** A tensor that the step reads and that stays the same: a mask, a table; index into the recording's list. */
  | {
    readonly from: "held";
    readonly index: number;
    /** Its numbers are 0, 1, 2, ... */
    readonly counts?: boolean;
  };

/** "avg_pool2d(...) -> Tensor" is avg_pool2d; a recorded op's name keeps the word before it. */
export const nameOfCall = (schema: string): string => schema.slice(0, schema.search(/[.(]/));

export type Node =
  | Made & { readonly op: "tensor"; readonly origin: TensorOrigin }
  | Made & { readonly op: "number"; readonly value: number }
  | Made & {
    readonly op: Pointwise;
    readonly args: readonly Ref[];
    /** libtorch lays it out in row-major order, whatever images that lie channels last are among the operands. */
    readonly inRows?: boolean;
  }
  /** Over these dimensions, which stay with size 1. */
  | Made & {
    readonly op: "sum" | "amax";
    readonly args: readonly [Ref];
    readonly dims: readonly number[];
  }
  /** a b over the last two dimensions, with a or b transposed; the dimensions before them are alike. */
  | Made & {
    readonly op: "gemm";
    readonly args: readonly [Ref, Ref];
    readonly transposeA: boolean;
    readonly transposeB: boolean;
    /** libtorch has another op for this and bits count: so many terms are added up at a time. */
    readonly chain?: number;
  }
  | Made & { readonly op: "reshape"; readonly args: readonly [Ref] }
  | Made & { readonly op: "expand"; readonly args: readonly [Ref] }
  | Made & { readonly op: "permute"; readonly args: readonly [Ref]; readonly dims: readonly number[] }
  /** Elements `start` to `end` - 1 of `dim`; and its reverse, which puts zeros around. */
  | Made & {
    readonly op: "slice";
    readonly args: readonly [Ref];
    readonly dim: number;
    readonly start: number;
    readonly end: number;
  }
  | Made & {
    readonly op: "embed";
    readonly args: readonly [Ref];
    readonly dim: number;
    readonly start: number;
    /** As for an op that works number by number: the gradient of a part. */
    readonly inRows?: boolean;
  }
  | Made & { readonly op: "cat"; readonly args: readonly Ref[]; readonly dim: number }
  /** libtorch's own op, with its schema's arguments: a Ref stands as { ref }. */
  | Made & {
    readonly op: "call";
    readonly schema: string;
    readonly values: readonly unknown[];
    readonly args: readonly Ref[];
    /** libtorch's tensor is [n, c, h, w] and lies channels last: the value is over [n, h, w, c]. */
    readonly last?: boolean;
  }
  /** The call itself is its first result; this is another one, from 1 on. */
  | Made & {
    readonly op: "result";
    readonly args: readonly [Ref];
    readonly index: number;
    readonly last?: boolean;
  }
  /** The same value, in memory in its own order. */
  | Made & { readonly op: "copy"; readonly args: readonly [Ref] }
  /** The same value, which no gradient goes back through. None is left in a derived graph. */
  | Made & { readonly op: "stop"; readonly args: readonly [Ref] };

/** A micro-batch's forward pass and loss, or with backward the gradients too. */
export interface Graph {
  readonly nodes: readonly Node[];
  /** The model's output, and the mean loss, 0-dim. */
  readonly output: Ref;
  readonly loss: Ref;
  /** One per parameter of the arena, once derived; null for one that is not reached. */
  readonly gradients: readonly (Ref | null)[];
  /** Those of these parameters are sums in which what was there before is the first term. */
  readonly sums?: ReadonlySet<number>;
  /** Its bits count: each value is one that libtorch computes, and none is computed in another way. */
  readonly exact?: boolean;
  /** Calls that write to held tensors (a batch norm's count), after everything else has read them if nobody reads the call. */
  readonly effects: readonly Ref[];
  /** Values that go to held tensors at the end (running statistics). */
  readonly writes?: readonly { readonly ref: Ref; readonly held: number }[];
  /** The input's images lie channels last. */
  readonly imagesLast?: boolean;
  /** The model's block that a value of the forward pass is a part of. */
  readonly blocks?: readonly (number | undefined)[];
}

/** The same graph of other nodes; `to` finds what a value has become. Which blocks they are a part of is not known. */
export function withNodes(graph: Graph, nodes: readonly Node[], to: (ref: Ref) => Ref): Graph {
  const { output, loss, gradients, effects, writes } = graph;
  return {
    ...graph,
    nodes,
    output: to(output),
    loss: to(loss),
    gradients: gradients.map((ref) => ref === null ? null : to(ref)),
    effects: effects.map(to),
    writes: writes?.map(({ ref, held }) => ({ ref: to(ref), held })),
    blocks: undefined,
  };
}
