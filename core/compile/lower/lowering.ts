// The rules of lowering write with this: simple ops by name, on values and plain numbers alike. A value that `where` does not
// choose must stay finite, since its gradient is multiplied by 0.
import { uninitialised, writeBytes } from "../../../ffi/make.ts";
import { bernoulli_, copy_, permute, toDtype } from "../../../ffi/ops.ts";
import type { Drops, RecordedValue } from "../../../ffi/trace.ts";
import type { Reason } from "../../../ffi/tape.ts";
import { type Device, keep, scope, type Tensor } from "../../../ffi/tensor.ts";
import { Builder, type Shape } from "../builder.ts";
import type { DType } from "../../../ffi/dtype.ts";
import { isHalf, isOther, type Kind, type Pointwise, type Ref } from "../graph.ts";
import { callable } from "../recorded_calls.ts";
import { rounded } from "./half.ts";
import { Refused } from "../refused.ts";

/** Numbers that are drawn before each run of the plan, most of them zeros and ones. */
export interface MaskDraw {
  /** Draws them. */
  readonly fill: () => void;
  /** The generator is seeded for this block before the first of each seeding. */
  readonly block: number;
  readonly seeding: number;
  /** The graph's number for the tensor. */
  readonly held: number;
}

/** A value that an op takes, or a number of its own. */
export type Term = Ref | { readonly n: number };

/** A number among values. */
export const num = (n: number): Term => ({ n });

/**
 * An op's arguments come in the order of its schema: tensors as Ref, null where there is none.
 */
// deno-lint-ignore no-explicit-any
export type LoweringRule = (g: Lowering, ...args: any[]) => Ref | readonly Ref[];

export type Rules = Readonly<Record<string, LoweringRule>>;

const WIDENED =
  "recorded _to_copy(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, " +
  "bool? pin_memory=None, bool non_blocking=False, MemoryFormat? memory_format=None) -> Tensor";

export class Lowering {
  readonly b: Builder;
  /** Tensors from outside, and some that rules made, by their index in the graph. */
  readonly held: Tensor[] = [];
  readonly #made: Tensor[] = [];
  readonly #ranges = new Map<number, Ref>();
  /** The op at hand, and what was recorded of its results. */
  op = "";
  results: readonly RecordedValue[] = [];
  /** The op's first tensor, as it was recorded. */
  source: RecordedValue | null = null;
  /** Each of the op's tensors, as it was recorded; null for what is none. */
  given: readonly (RecordedValue | null)[] = [];
  drops: Drops | null = null;
  /** The op makes the step's loss, and no part of it. */
  makesLoss = false;
  /** The step takes gradients of gradients. */
  derivesTwice = false;
  /** In the order in which they are drawn. */
  readonly draws: MaskDraw[] = [];
  /** On a GPU: so many, each with a number of its own. */
  drawings = 0;

  /** `exact`: libtorch's own kernels where they have bits of their own. */
  constructor(readonly exact: boolean, readonly device: Device = "cpu") {
    this.b = new Builder(exact ? "faithful" : "free");
  }

  refuse(reason: Reason): never {
    throw new Refused(this.op, reason);
  }
  shape(x: Ref): Shape {
    return this.b.shape(x);
  }
  kind(x: Ref): Kind {
    return this.b.kind(x);
  }
  /** "-1" is the last of `rank` dimensions. */
  dim(d: number, rank: number): number {
    return d < 0 ? d + Math.max(rank, 1) : d;
  }
  dims(dims: readonly number[] | null, rank: number): number[] {
    if (dims === null || dims.length === 0) return Array.from({ length: rank }, (_, d) => d);
    return dims.map((d) => this.dim(d, rank));
  }

  hold(t: Tensor, counts = false): Ref {
    const kind = elementKind(t.dtype) ?? this.refuse("type");
    if (!t.contiguous) this.refuse("arguments"); // plans read row by row
    const known = this.held.indexOf(t);
    const index = known >= 0 ? known : this.held.push(t) - 1;
    return this.b.tensor({ from: "held", index, ...(counts ? { counts } : {}) }, t.shape, kind);
  }

  /** Zeros with this probability, else 1 / (1 - share): new ones in every step. */
  mask(shape: Shape, share: number): Ref {
    if (share >= 1) this.refuse("random");
    if (this.device !== "cpu") {
      const scale = this.b.number(1 / (1 - share)); // libtorch's kernels scale in f32, too
      return this.b.pointwise("where", this.#mask(shape, 1 - share), scale, this.b.number(0));
    }
    const scaled = this.div(this.drawn(shape, 1 - share), num(1 - share));
    const dtype = this.drops?.like?.dtype ?? "f32";
    return isHalf(dtype) ? rounded(this.b, scaled, dtype) : scaled;
  }

  /** Ones with this probability, else zeros: new ones in every step. */
  drawn(shape: Shape, probability: number): Ref {
    if (this.drops === null) this.refuse("random");
    if (this.device !== "cpu") return this.b.pointwise("float", this.#mask(shape, probability));
    const { block, seeding, like } = this.drops;
    const tensor = this.#workspace(shape, like), { strides } = tensor;
    const order = shape.map((_, d) => d).sort((a, b) => strides[b] - strides[a] || a - b);
    const dense = like === null ? tensor : this.#own(permute(tensor, order));
    const drawn = this.hold(dense);
    const fill = () => void bernoulli_(tensor, probability);
    this.draws.push({ fill, block, seeding, held: this.held.indexOf(dense) });
    return this.b.permute(drawn, order.map((_, d) => order.indexOf(d)));
  }

  /** A recorded op draws its numbers itself. */
  drawnBy(schema: string): Ref {
    const { block, seeding, given } = this.drops!, [{ shape, dtype }] = this.results;
    if (this.device !== "cpu" || given === undefined || isHalf(dtype)) this.refuse("random");
    const tensor = this.#own(uninitialised(shape, { dtype })), op = callable(schema);
    const fill = () => scope(() => void copy_(tensor, op(...given) as Tensor));
    const drawn = this.hold(tensor);
    this.draws.push({ fill, block, seeding, held: this.held.indexOf(tensor) });
    return drawn;
  }

  /** On a GPU: true with this probability. */
  #mask(shape: Shape, probability: number): Ref {
    if (this.drops === null) this.refuse("random");
    const numbers = this.b.tensor({ from: "drawn", draw: this.drawings++ }, shape, "f32");
    return this.b.pointwise("lt", numbers, this.b.number(probability));
  }

  /** Memory for drawn numbers: of half precision as many are drawn as of f32. */
  #workspace(shape: Shape, like: Tensor | null): Tensor {
    if (like === null) return this.#own(uninitialised(shape));
    return isHalf(like.dtype) ? this.#own(toDtype(like, "f32")) : like;
  }

  #own(t: Tensor): Tensor {
    this.#made.push(keep(t));
    return t;
  }

  /** The whole numbers 0 to count - 1. */
  range(count: number): Ref {
    let made = this.#ranges.get(count);
    if (made === undefined) {
      const t = this.#own(uninitialised([count], { dtype: "i64" }));
      writeBytes(t, new Uint8Array(BigInt64Array.from({ length: count }, (_, i) => BigInt(i)).buffer));
      this.#ranges.set(count, made = this.hold(t, true));
    }
    return made;
  }

  /** Gives back what rules made. */
  free(): void {
    for (const t of this.#made.splice(0)) t.free();
  }

  /** As f32: truth values are 0 and 1. */
  float(x: Term): Ref {
    if (typeof x !== "number") return this.b.number(x.n);
    const node = this.b.node(x);
    if (isOther(node.kind)) {
      if (node.kind[0] === "c") this.refuse("type");
      return this.b.call(WIDENED, [{ ref: x }, "f32", null, null, null, false, null], node.shape);
    }
    return node.op === "number" ? this.b.number(node.value) : this.b.pointwise("float", x);
  }
  truth(x: Ref): Ref {
    return this.kind(x) === "bool" ? x : this.compare("ne", x, num(0));
  }
  p(op: Pointwise, ...args: readonly Term[]): Ref {
    return this.b.pointwise(op, ...args.map((x) => this.float(x)));
  }
  /** Whole numbers are compared as they are. */
  compare(op: "lt" | "le" | "gt" | "ge" | "eq" | "ne", x: Term, y: Term): Ref {
    const kinds = [x, y].flatMap((t) => typeof t === "number" && !this.#isNumber(t) ? [this.kind(t)] : []);
    const whole = kinds.length > 0 && kinds.every((kind) => kind === "i64");
    const as = (t: Term) => {
      if (!whole) return this.float(t);
      return typeof t === "number" && !this.#isNumber(t) ? t : this.b.number(this.#valueOf(t), "i64");
    };
    return this.b.pointwise(op, as(x), as(y));
  }
  #isNumber(x: Ref): boolean {
    return this.b.node(x).op === "number";
  }
  #valueOf(x: Term): number {
    return typeof x === "number" ? this.b.numberOf(x)! : x.n;
  }

  add(x: Term, y: Term): Ref {
    return this.p("add", x, y);
  }
  sub(x: Term, y: Term): Ref {
    return this.p("sub", x, y);
  }
  mul(x: Term, y: Term): Ref {
    return this.p("mul", x, y);
  }
  div(x: Term, y: Term): Ref {
    return this.p("div", x, y);
  }
  neg(x: Term): Ref {
    return this.p("neg", x);
  }
  where(truth: Ref, x: Term, y: Term): Ref {
    return this.b.pointwise("where", this.truth(truth), this.float(x), this.float(y));
  }

  /** Over these dimensions, which stay with size 1. */
  sum(x: Ref, dims: readonly number[]): Ref {
    return this.b.sum(this.float(x), dims);
  }
  mean(x: Ref, dims: readonly number[]): Ref {
    return this.div(this.sum(x, dims), num(this.count(x, dims)));
  }
  count(x: Ref, dims: readonly number[]): number {
    return dims.reduce((product, d) => product * this.shape(x)[d], 1);
  }
  /** To the shape that the op's result was seen to have. */
  shaped(x: Ref, result = 0): Ref {
    return this.b.reshape(x, this.results[result].shape);
  }
  all(x: Ref): number[] {
    return this.shape(x).map((_, d) => d);
  }
}

/** Null for half precision, which is f32 that was rounded. */
export const elementKind = (dtype: DType): Kind | null => isHalf(dtype) ? null : dtype as Kind;
