// From recorded ops to a graph: each op by its rule, as far as the loss and what the step writes need it.
import { RANDOM, type RecordedOp, type RecordedValue, type Recording, Seen } from "../../../ffi/trace.ts";
import { readBytes } from "../../../ffi/make.ts";
import type { Refusal } from "../../../ffi/tape.ts";
import type { Device, Tensor } from "../../../ffi/tensor.ts";
import { nodeText, refsIn, sameShape } from "../builder.ts";
import { type Graph, type HalfType, isHalf, isOther, type Node, type Ref, VIEWS } from "../graph.ts";
import { Num, numberOf } from "../../../ffi/scalar.ts";
import { recordedCall } from "../recorded_calls.ts";
import { gradients } from "../derive.ts";
import { orRefusal, Refused } from "../refused.ts";
import { withoutRowParts } from "../row_parts.ts";
import { CALL_RULES } from "./calls.ts";
import { PRODUCT_RULES } from "./products.ts";
import { EXACT_RULES } from "./exact.ts";
import { elementKind, Lowering, type LoweringRule, type MaskDraw, type Rules } from "./lowering.ts";
import { rounded, ROUNDS_OPERANDS } from "./half.ts";
import { LOSS_RULES } from "./losses.ts";
import { NORM_RULES } from "./norms.ts";
import { OVERWRITING, POINTWISE_RULES } from "./pointwise.ts";
import { dropsBetween, RECURRENT_RULES } from "./recurrent.ts";
import { REDUCTION_RULES } from "./reductions.ts";
import { SHAPE_RULES } from "./shapes.ts";
import { PART_RULES } from "./parts.ts";

/** By an op's name, or its name and overload. An op in place has the rule of the op that it is the place of. */
export const RULES: Rules = {
  ...POINTWISE_RULES,
  ...SHAPE_RULES,
  ...PART_RULES,
  ...REDUCTION_RULES,
  ...PRODUCT_RULES,
  ...NORM_RULES,
  ...LOSS_RULES,
  ...CALL_RULES,
  ...RECURRENT_RULES,
  /** A derivative inside of the model: more of the same graph. */
  gradient: (g, of: Ref, wrt: Ref) => {
    const ones = g.b.expand(g.b.number(1), g.shape(of)), [found] = gradients(g.b, of, ones, [wrt]);
    return found ?? g.b.expand(g.b.number(0), g.shape(wrt));
  },
};

/** The tensors that a recorded micro-batch began with and ended in. */
interface RecordedPass {
  readonly input: Tensor;
  readonly target: Tensor;
  /** The arena's. */
  readonly parameters: readonly Tensor[];
  readonly output: Tensor;
  readonly loss: Tensor;
}

export interface Lowered {
  readonly graph: Graph;
  /** The tensors that the graph's origins "held" are, by their index. A call gets them as they are, not as copies. */
  readonly held: readonly Tensor[];
  /** Those that the step writes to: statistics, counts. */
  readonly written: readonly Tensor[];
  /** Dropout's: held tensors that get new numbers before each run. */
  readonly draws: readonly MaskDraw[];
  /** The generator's last seeding in the step; null where it is not seeded. */
  readonly seeded: Recording["seeded"];
  /** On a GPU groups draw them: so many. */
  readonly drawings: number;
  /** Gives back what was made for the graph: its plan must be gone by then. */
  free(): void;
}

interface LowerOptions {
  readonly exact?: boolean;
  readonly device?: Device;
  /** A loss over parts of the rows becomes one over all (row_parts.ts). */
  readonly joinsParts?: boolean;
  /** The program keeps nothing of its own from step to step. */
  readonly repeats?: boolean;
}

/** A graph without gradients yet, or the first op that keeps the step from having one. */
export function lower(
  recording: Recording,
  pass: RecordedPass,
  { exact = false, device = "cpu", joinsParts = !exact && device !== "cpu", repeats = false }: LowerOptions =
    {},
): Lowered | Refusal {
  if (recording.refusal) return recording.refusal;
  const g = new Lowering(exact, device);
  const made = orRefusal(() => new Pass(g, recording, pass, { joinsParts, repeats }).graph());
  if ("reason" in made) {
    g.free();
    return made;
  }
  return {
    graph: made,
    held: g.held,
    written: writtenIn(made, g.held),
    draws: g.draws,
    seeded: recording.seeded,
    drawings: g.drawings,
    free: () => (g.free(), recording.free()),
  };
}

/** One number in all places. */
const EVEN = new Set([
  "zeros",
  "ones",
  "full",
  "scalar_tensor",
  "expand",
  "zeros_like",
  "ones_like",
  "full_like",
  "new_zeros",
  "new_ones",
  "new_full",
]);

/** An op in place writes to its first argument. */
function writtenIn({ nodes, effects, writes = [] }: Graph, held: readonly Tensor[]): Tensor[] {
  const written = new Set(writes.map((one) => held[one.held]));
  for (const effect of effects) {
    const [to] = refsIn((nodes[effect] as Extract<Node, { op: "call" }>).values.slice(0, 1));
    const { origin } = nodes[to] as Extract<Node, { op: "tensor" }>;
    if (origin.from === "held") written.add(held[origin.index]);
  }
  return [...written];
}

/**
 * Two recordings of a step have the same graph. A number that the program changes from step to step (a schedule of its
 * own, a counter) shows here: such a step can't be compiled.
 */
export function sameStep(a: Lowered, b: Lowered): boolean {
  const drawn = (i: number) => a.draws.some(({ held }) => held === i);
  return nodeText(a.graph) === nodeText(b.graph) && a.held.length === b.held.length &&
    a.held.every((t, i) => t === b.held[i] || drawn(i) || sameNumbers(t, b.held[i]));
}

function sameNumbers(a: Tensor, b: Tensor): boolean {
  if (a.dtype !== b.dtype || !sameShape(a.shape, b.shape)) return false;
  const [x, y] = [readBytes(a), readBytes(b)];
  return x.every((byte, i) => byte === y[i]);
}

/** Its numbers are whatever was in memory. */
const UNWRITTEN = -1;

class Pass {
  readonly #refs: (Ref | undefined)[];
  #loss = -1;
  readonly #effects: Ref[] = [];
  /** The held tensor that a moved value goes to. */
  readonly #homes = new Map<number, Ref>();
  /** The last value of each of these. */
  readonly #ends = new Map<Ref, Ref>();

  /** Values that are the same in every step, as far as it is known. */
  readonly #fixed = new Map<number, boolean>();

  constructor(
    readonly g: Lowering,
    readonly recording: Recording,
    readonly pass: RecordedPass,
    readonly options: Readonly<Required<Pick<LowerOptions, "joinsParts" | "repeats">>>,
  ) {
    this.#refs = new Array(recording.values.length);
  }

  graph(): Graph {
    const { g, recording, pass } = this;
    const [output, loss] = [pass.output, pass.loss].map((t) => {
      g.op = "output";
      return recording.valueOf(t) ?? g.refuse("outside");
    });
    this.#loss = loss;
    g.b.imagesLast = liesLast(pass.input);
    const needed = this.#needed([output, loss]);
    g.derivesTwice = recording.ops.some(({ schema }) => schema.name === "gradient");
    const blocks: number[] = [];
    recording.ops.forEach((op, i) => {
      if (!needed.has(i)) {
        if (op.schema.name === "synced_norm") throw new Refused(op.schema.name, "gradient"); // other ranks wait for it
        return;
      }
      this.#lower(op);
      while (blocks.length < g.b.nodes.length) blocks.push(op.part);
    });
    const summed = this.#ref(loss);
    const refs = {
      output: this.#ref(output),
      loss: this.options.joinsParts ? withoutRowParts(g.b, summed) : summed,
    };
    // One that the loss doesn't need has a gradient of zeros.
    pass.parameters.forEach((t, index) =>
      g.b.tensor({ from: "parameter", index }, t.shape, elementKind(t.dtype)!)
    );
    const how = { imagesLast: g.b.imagesLast, exact: g.exact };
    const writes = [...this.#ends].map(([to, ref]) => ({ ref, held: this.#indexOf(to) }));
    return { nodes: g.b.nodes, ...refs, gradients: [], effects: this.#effects, writes, blocks, ...how };
  }

  #indexOf(to: Ref): number {
    const node = this.g.b.node(to);
    if (node.op === "tensor" && node.origin.from === "held") return node.origin.index;
    return this.g.refuse("writes");
  }

  /** The ops that made these values, and those that write to something. */
  #needed(values: readonly number[]): Set<number> {
    const wanted = new Set(values), needed = new Set<number>();
    const { ops } = this.recording;
    for (let i = ops.length - 1; i >= 0; i--) {
      const { writes, moves, drops, results } = ops[i], stays = writes !== null || moves.length > 0;
      if (!stays && drops === null && !results.some((r) => wanted.has(r))) continue;
      needed.add(i);
      for (const r of seenIn(ops[i].args)) wanted.add(r);
    }
    return needed;
  }

  #lower(op: RecordedOp): void {
    const { g, recording } = this, { schema } = op;
    g.op = schema.overload === "" ? schema.name : `${schema.name}.${schema.overload}`;
    g.results = op.results.map((r) => recording.values[r]);
    g.given = op.args.map((one) => one instanceof Seen ? recording.values[one.value] : null);
    g.source = g.given[0] ?? null;
    g.makesLoss = op.results.includes(this.#loss);
    g.drops = op.drops;
    if (op.writes !== null) return this.#write(op);
    if (schema.name.startsWith("empty") || schema.name === "new_empty") {
      for (const r of op.results) this.#refs[r] = UNWRITTEN;
      return;
    }
    if (this.#isHeld(op)) return;
    if (op.drops?.given !== undefined) {
      this.#refs[op.results[0]] = g.b.stop(g.drawnBy(schema.text));
      return;
    }
    if (op.found !== null && this.options.repeats && this.#isFixed(op.results[0])) {
      this.#refs[op.results[0]] = g.hold(op.found);
      return;
    }
    const refusal = this.#byRule(op);
    if (refusal !== null && !this.#asRecorded(op)) throw refusal;
  }

  /** A table of whole numbers that the step does not write to, and what is made of such ones alone. */
  #isFixed(value: number): boolean {
    let fixed = this.#fixed.get(value);
    if (fixed === undefined) this.#fixed.set(value, fixed = this.#findFixed(value));
    return fixed;
  }

  #findFixed(value: number): boolean {
    const { recording: { ops, values }, pass } = this, { from, tensor, dtype } = values[value];
    if (from === "number") return true;
    if (from === "outside") {
      const batch = tensor === pass.input || tensor === pass.target;
      return !batch && (dtype === "i64" || dtype === "bool") &&
        ops.every(({ writes, moves }) => writes !== value && !moves.includes(value));
    }
    if (tensor !== null) return true;
    const made = ops.find(({ results }) => results.includes(value));
    return made !== undefined && made.drops === null && made.writes === null &&
      !RANDOM.test(made.schema.name) && seenIn(made.args).every((r) => this.#isFixed(r));
  }

  /** Why there is no rule, or it does not serve. */
  #byRule(op: RecordedOp): Refused | null {
    const { g } = this, drawn = { draws: g.draws.length, drawings: g.drawings };
    try {
      this.#ruled(op);
      return null;
    } catch (thrown) {
      const undone = g.draws.length === drawn.draws && g.drawings === drawn.drawings && op.moves.length === 0;
      if (!(thrown instanceof Refused) || !undone) throw thrown;
      return thrown;
    }
  }

  /** False where the op can't be called as it was. */
  #asRecorded(op: RecordedOp): boolean {
    const { g, recording } = this, { schema, args, results } = op;
    const seen = results.map((r) => recording.values[r]);
    if (g.device !== "cpu" || op.moves.length > 0 || op.drops !== null) return false;
    if (dropsBetween(schema, args)) return false;
    if (seen.length === 0 || seen.some(({ dtype }) => isHalf(dtype))) return false;
    const call = recordedCall(schema);
    if (call === null || schema.name.startsWith("index") && args.some((arg) => this.#choosesByTruth(arg))) {
      return false;
    }
    const values = args.map((value, i) =>
      schema.args[i].base === "Scalar" && typeof value === "number" ? numberOf(value) : this.#given(value)
    );
    const kinds = seen.map(({ dtype }) => elementKind(dtype)!);
    const first = g.b.call(call, values, seen[0].shape, kinds[0]);
    results.forEach((r, i) => {
      const ref = i === 0 ? first : g.b.result(first, i, seen[i].shape, kinds[i]);
      this.#refs[r] = op.stopped ? g.b.stop(ref) : ref;
    });
    return true;
  }

  /** A truth value among indices chooses as many numbers as are true. */
  #choosesByTruth(value: unknown): boolean {
    return Array.isArray(value) &&
      value.some((one) => one instanceof Seen && this.recording.values[one.value].dtype !== "i64");
  }

  #given(value: unknown): unknown {
    if (Array.isArray(value)) return value.map((one) => this.#given(one));
    if (!(value instanceof Seen)) return value;
    const ref = this.#asTensor(value.value);
    return ref === UNWRITTEN ? this.g.refuse("outside") : { ref };
  }

  #ruled(op: RecordedOp): void {
    const { g, recording } = this, { schema } = op;
    const rule = ruleOf(op, g.exact) ?? g.refuse(RANDOM.test(schema.name) ? "random" : "unknown");
    const half = this.#halfOf(g.results[0]),
      rounds = half !== null && ROUNDS_OPERANDS.test(schema.name) ? half : null;
    const args = op.args.map((value, i) =>
      this.#argument(value, { overwritten: i === 0 && OVERWRITING.has(schema.name), rounds })
    );
    const made = rule(g, ...args), refs = typeof made === "number" ? [made] : made;
    const given = op.results.length - op.moves.length;
    op.results.forEach((r, i) => this.#check(refs[i], recording.values[r]));
    op.results.forEach((r, i) => {
      const seen = recording.values[r];
      const to = this.#halfOf(seen), ref = to !== null ? rounded(g.b, refs[i], to) : refs[i];
      this.#refs[r] = op.stopped || i >= given ? g.b.stop(ref) : ref;
    });
    op.moves.forEach((from, i) => this.#move(from, op.results[given + i]));
  }

  /** A moved value goes to where the first one came from, if that is not the step's own. */
  #move(from: number, to: number): void {
    const home = this.recording.values[from].from === "op" ? this.#homes.get(from) : this.#ref(from);
    if (home === undefined) return;
    this.#homes.set(to, home);
    this.#ends.set(home, this.#refs[to]!);
    this.#indexOf(home);
  }

  /** Tables that the step makes anew each time are kept; numbers that are alike everywhere stay numbers. */
  #isHeld({ schema, results }: RecordedOp): boolean {
    const { g, recording } = this, [first] = results.map((r) => recording.values[r]);
    if (!first?.tensor) return false;
    const zeros = schema.name.includes("zeros");
    if (EVEN.has(schema.name) && (zeros || !isOther(elementKind(first.dtype) ?? "f32"))) return false;
    for (const r of results) this.#refs[r] = g.hold(recording.values[r].tensor!);
    return true;
  }

  #argument(value: unknown, how: { overwritten: boolean; rounds: HalfType | null }): unknown {
    const { g } = this, { overwritten, rounds } = how;
    if (value instanceof Seen) {
      const ref = this.#ref(value.value);
      if (ref === UNWRITTEN) return overwritten ? ref : g.refuse("outside");
      return rounds !== null && g.kind(ref) === "f32" ? rounded(g.b, ref, rounds) : ref;
    }
    return Array.isArray(value)
      ? value.map((each) => this.#argument(each, { overwritten: false, rounds }))
      : value instanceof Num
      ? value.value
      : value;
  }

  /** Only fast plans compute in mixed precision. */
  #halfOf(seen: RecordedValue | undefined): HalfType | null {
    return seen !== undefined && isHalf(seen.dtype) && !this.g.exact ? seen.dtype : null;
  }

  /** Counts of whole numbers are f32 in the graph, one at a time. */
  #check(ref: Ref, seen: RecordedValue): void {
    const { g } = this, kind = g.kind(ref);
    if (!sameShape(g.shape(ref), seen.shape)) {
      throw new Error(`internal: ${g.op} gives [${seen.shape}], and its rule [${g.shape(ref)}].`);
    }
    const counted = seen.dtype === "i64" && kind === "f32" && seen.shape.every((size) => size === 1);
    const dtype = this.#halfOf(seen) !== null ? "f32" : seen.dtype;
    if (dtype !== kind && !counted) g.refuse("type");
  }

  /** An op that writes to a held tensor is called as it is. */
  #write({ schema, args, writes, results }: RecordedOp): void {
    const { g } = this, target = this.#ref(writes!);
    const node = g.b.node(target);
    if (node.op !== "tensor" || node.origin.from !== "held") g.refuse("writes");
    for (const r of results) this.#refs[r] ??= target;
    if (schema.name === "add_") return this.#addTo(target, args);
    if (RANDOM.test(schema.name)) g.refuse("random");
    const values = args.map((value, i) => {
      if (schema.args[i].base === "Scalar" && typeof value === "number") return numberOf(value);
      if (schema.args[i].memory === "written") return { ref: target };
      return value instanceof Seen ? { ref: this.#settled(this.#asTensor(value.value)) } : value;
    });
    this.#effects.push(g.b.call(schema.text, values, g.shape(target), g.kind(target)));
  }

  /** A copy of a held tensor's numbers, since another effect may write to it before. */
  #settled(ref: Ref): Ref {
    const { b } = this.g;
    let base = ref;
    for (let node = b.node(base); "args" in node && VIEWS.has(node.op); node = b.node(base)) {
      base = node.args[0];
    }
    const node = b.node(base);
    const held = node.op === "tensor" && node.origin.from === "held";
    return held && node.kind === "f32" ? b.copy(ref) : ref;
  }

  /** A count of whole numbers, by ops without a Scalar. */
  #addTo(target: Ref, [, other, alpha]: readonly unknown[]): void {
    const { g } = this, shape = g.shape(target), kind = g.kind(target);
    const term = other instanceof Seen ? this.#asTensor(other.value) : g.refuse("writes");
    if ((alpha instanceof Num ? alpha.value : alpha) !== 1 || !sameShape(g.shape(term), shape)) {
      g.refuse("writes");
    }
    const pair = g.b.call(
      "stack(Tensor[] tensors, int dim=0) -> Tensor",
      [[{ ref: target }, { ref: term }], 0],
      [2, ...shape],
      kind,
    );
    const sum = g.b.call(
      "sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
      [{ ref: pair }, [0]],
      shape,
      kind,
    );
    const copy = "copy_(Tensor(a!) self, Tensor src, bool non_blocking=False) -> Tensor(a!)";
    this.#effects.push(g.b.call(copy, [{ ref: target }, { ref: sum }], shape, kind));
  }

  /** A number's own tensor, which is there in every step. */
  #asTensor(value: number): Ref {
    const { from, tensor } = this.recording.values[value];
    return from === "number" && tensor!.h !== 0n ? this.g.hold(tensor!) : this.#ref(value);
  }

  #ref(value: number): Ref {
    return this.#refs[value] ??= this.#outside(this.recording.values[value]);
  }

  #outside({ from, number, tensor, shape, dtype }: RecordedValue): Ref {
    const { g, pass } = this;
    if (from === "op") g.refuse("outside");
    if (from === "number") {
      const own = elementKind(dtype);
      return g.b.number(number, own === null || isOther(own) ? "f32" : own);
    }
    const kind = elementKind(dtype) ?? g.refuse("type"), t = tensor!;
    if (t === pass.input) return g.b.tensor({ from: "input" }, shape, kind);
    if (t === pass.target) return g.b.tensor({ from: "target" }, shape, kind);
    const index = pass.parameters.indexOf(t);
    if (index >= 0) return g.b.tensor({ from: "parameter", index }, shape, kind);
    return t.h === 0n ? g.refuse("outside") : g.hold(t);
  }
}

/** Images whose channels lie side by side. */
function liesLast({ shape, strides }: Tensor): boolean {
  if (shape.length !== 4 || shape[2] * shape[3] === 1) return false;
  return strides[1] === 1 && strides[3] === shape[1] && strides[2] === shape[1] * shape[3];
}

export function ruleOf({ schema }: RecordedOp, exact: boolean): LoweringRule | null {
  const inPlace = schema.returns[0]?.argument === 0;
  const name = inPlace ? schema.name.replace(/_$/, "") : schema.name;
  const key = schema.overload === "" ? name : `${name}.${schema.overload}`;
  if (exact && Object.hasOwn(EXACT_RULES, key)) return EXACT_RULES[key];
  return Object.hasOwn(RULES, key) ? RULES[key] : null;
}

const seenIn = (args: readonly unknown[]): number[] =>
  args.flatMap((value) => value instanceof Seen ? [value.value] : Array.isArray(value) ? seenIn(value) : []);
