// An update of the user's own as a loop, for `fast`: its ops, as they were recorded on a few numbers that stand for all weights,
// by the rules of lowering. The list of ops makes the loop. Their numbers are other ones in each step, so the loop reads them.
import { Num } from "../../ffi/scalar.ts";
import type { Refusal } from "../../ffi/tape.ts";
import { type RecordedOp, type Recording, Seen } from "../../ffi/trace.ts";
import type { Tensor } from "../../ffi/tensor.ts";
import { nodeText, sameShape } from "./builder.ts";
import { nameOfCall, type Node, POINTWISE, type Ref } from "./graph.ts";
import type { GroupKernel, Operand } from "./kernel.ts";
import { ruleOf, RULES } from "./lower/lower.ts";
import { Lowering, type Term } from "./lower/lowering.ts";
import { orRefusal, Refused } from "./refused.ts";
import { Loop, type WeightPiece } from "./update.ts";

export interface RecordedUpdate {
  /** Updates of equal texts have one loop, and as many numbers. */
  readonly ops: string;
  /** The same without exponents. */
  readonly list: string;
  readonly numbers: readonly number[];
  /** Its loop over a piece of the arena. Throws Refused where it is no loop over single numbers. */
  loop(): (piece: WeightPiece) => GroupKernel;
}

/** `given` were weights, gradient and state when the recording began; `ends` have the weights and the state since it ended. */
export function recordedUpdate(
  recording: Recording,
  given: readonly Tensor[],
  ends: readonly Tensor[],
): RecordedUpdate | Refusal {
  return recording.refusal ?? orRefusal(() => noted(recording, given, ends));
}

function refuse(op: string, reason: Refusal["reason"]): never {
  throw new Refused(op, reason);
}

/** One of the step's numbers, as an op's argument. A rule that computes with it would make it a part of the loop. */
class StepNumber {
  constructor(readonly place: number, readonly op: string) {}

  [Symbol.toPrimitive](): never {
    return refuse(this.op, "arguments");
  }
}

/** Its number says what is computed: a power of 2 is a product. */
const CHOOSES = /^pow_?$/;

/** Where a value comes from: an op by the count of results before it, or what was given. */
type Source = { readonly made: number } | { readonly given: number };

interface Step {
  readonly op: RecordedOp;
  /** Tensors are sources; numbers that may be others in the next step are StepNumbers. */
  readonly args: readonly unknown[];
}

function noted(recording: Recording, given: readonly Tensor[], ends: readonly Tensor[]): RecordedUpdate {
  const { values, ops } = recording, numbers: number[] = [], made = new Map<number, number>();
  const sourceOf = (op: string, value: number): Source => {
    const at = made.get(value);
    if (at !== undefined) return { made: at };
    const place = given.indexOf(values[value].tensor!);
    return place < 0 ? refuse(op, "outside") : { given: place };
  };
  const argument = ({ schema: { name, args } }: RecordedOp, value: unknown, i: number): unknown => {
    const seen = value instanceof Seen ? values[value.value] : null;
    if (Array.isArray(value) && value.some((one) => one instanceof Seen)) refuse(name, "arguments");
    const scalar = args[i].base === "Scalar" ? value instanceof Num ? value.value : value : null;
    const number = seen?.from === "number" ? seen.number : scalar;
    if (typeof number !== "number") return value instanceof Seen ? sourceOf(name, value.value) : value;
    const asEver = seen === null && String(number) === args[i].fallback;
    if (CHOOSES.test(name)) powers.push(number);
    return CHOOSES.test(name) || asEver ? number : new StepNumber(numbers.push(number) - 1, name);
  };
  const texts: unknown[] = [], powers: number[] = [];
  const steps = ops.map((op): Step => {
    refuseOthers(op);
    const args = op.args.map((value, i) => argument(op, value, i)), changes = CHOOSES.test(op.schema.name);
    const isNumber = (value: unknown) => value instanceof StepNumber || changes && typeof value === "number";
    texts.push(op.schema.text, args.map((value) => isNumber(value) ? "n" : value));
    for (const r of op.results) {
      made.set(r, made.size);
      texts.push(values[r].dtype, values[r].shape);
    }
    return { op, args };
  });
  const results = ends.map((t) => sourceOf("update", recording.valueOf(t) ?? refuse("update", "writes")));
  return {
    ...{ ops: nodeText([texts, results, powers]), list: nodeText([texts, results]), numbers },
    loop: () => lowered(recording, steps, results, given),
  };
}

/** An op may give tensors that follow from tensors, and do nothing else. */
function refuseOthers({ schema, writes, moves, drops, found }: RecordedOp): void {
  if (schema.returns.some(({ base }) => base !== "Tensor")) refuse(schema.name, "reads");
  if (writes !== null || moves.length > 0) refuse(schema.name, "writes");
  if (drops !== null) refuse(schema.name, "random");
  if (found !== null) refuse(schema.name, "arguments");
}

/** Its tensors are what was given, and behind that the step's numbers. */
class UpdateLowering extends Lowering {
  constructor(readonly tensors: number) {
    super(false);
  }
  step(place: number): Ref {
    return this.b.tensor({ from: "held", index: this.tensors + place }, [], "f32");
  }
  /** Tensors that a rule makes are none of the step's. */
  override hold(): never {
    return this.refuse("outside");
  }
  override float(x: Term): Ref {
    const n: unknown = typeof x === "number" ? null : x.n;
    return n instanceof StepNumber ? this.step(n.place) : super.float(x);
  }
}

function lowered(
  { values }: Recording,
  steps: readonly Step[],
  results: readonly Source[],
  given: readonly Tensor[],
): (piece: WeightPiece) => GroupKernel {
  const g = new UpdateLowering(given.length), made: Ref[] = [];
  const tensors = given.map(({ shape }, index) => g.b.tensor({ from: "held", index }, shape, "f32"));
  const refOf = (source: Source) => "made" in source ? made[source.made] : tensors[source.given];
  for (const { op, args } of steps) {
    const { schema, results, args: seen } = op, at = schema.overload && `.${schema.overload}`;
    g.op = schema.name + at;
    g.results = results.map((r) => values[r]);
    g.given = seen.map((one) => one instanceof Seen ? values[one.value] : null);
    g.source = g.given[0] ?? null;
    const own = args.map((value, i) => {
      const isTensor = schema.args[i].base === "Tensor" && !schema.args[i].list;
      if (!isTensor || value === null) return value;
      if (value instanceof StepNumber) return g.step(value.place);
      return typeof value === "number" ? g.b.number(value) : refOf(value as Source);
    });
    const rule = schema.name.startsWith("empty") ? RULES.zeros : ruleOf(op, false) ?? g.refuse("unknown");
    const refs = [rule(g, ...own)].flat();
    g.results.forEach(({ shape, dtype }, i) => {
      if (refs[i] === undefined) g.refuse("arguments");
      if (g.kind(refs[i]) !== dtype) g.refuse("type");
      if (!sameShape(g.shape(refs[i]), shape)) g.refuse("arguments");
      made.push(refs[i]);
    });
  }
  const refs = results.map(refOf);
  return (piece) => loopOver(g.b.nodes, refs, given.length, piece);
}

/** `results` are the next weights and state. */
function loopOver(
  nodes: readonly Node[],
  results: readonly Ref[],
  tensors: number,
  piece: WeightPiece,
): GroupKernel {
  const loop = new Loop(piece), slots = [piece.weights, piece.gradient, ...piece.state];
  const known = new Map<Ref, Operand>();
  const operand = (ref: Ref): Operand => {
    let own = known.get(ref);
    if (own === undefined) known.set(ref, own = computed(nodes[ref]));
    return own;
  };
  const computed = (node: Node): Operand => {
    switch (node.op) {
      case "tensor": {
        const index = node.origin.from === "held" ? node.origin.index : NaN;
        return index < tensors ? loop.load(slots[index]) : loop.given(index - tensors);
      }
      case "number":
        return loop.number(node.value);
      case "stop":
      case "reshape":
      case "expand": // of a number to all, since no other size is left
        return operand(node.args[0]);
      case "call":
        return refuse(nameOfCall(node.schema), "unknown");
    }
    if (!(node.op in POINTWISE)) refuse(node.op, "unknown");
    return loop.op(node.op, ...node.args.map(operand));
  };
  const places = slots.toSpliced(1, 1);
  results.map(operand).forEach((value, i) => {
    const one = loop.instructions[value];
    if (!("from" in one)) return loop.store(value, places[i]);
    // It is read where it is stored, which may be behind the store to where it lies.
    if (one.from.slot !== places[i]) loop.store(loop.op("mul", value, loop.number(1)), places[i]);
  });
  return loop.kernel("update");
}
