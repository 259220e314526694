// gelu by tanh, as loops of our own with libtorch's bits: its steps, of which its compiler made some one rounding, and
// Sleef's tanh.
import { count, loopsOver, rowMajor } from "./access.ts";
import type { Draft } from "./draft.ts";
import type { Node, Ref } from "./graph.ts";
import type { Instruction, Operand, Store } from "./kernel.ts";

type Call = Node & { op: "call" };

/** libtorch's loops take so many numbers at a time, and what is left in another way. */
const TOGETHER = 64;
/** It divides more numbers among threads. */
const GRAIN = 32_768;

const ROOT = Math.fround(Math.SQRT2 * (2 / Math.sqrt(Math.PI)) * 0.5), CUBE = Math.fround(0.044715);

/** The instructions of a group, one after the other. */
class Steps {
  readonly list: Instruction[] = [];

  load = (slot: number, offset: number): Operand =>
    this.#add({ op: "load", from: { slot, offset, strides: [1], kind: "f32" } });
  number = (value: number): Operand => this.#add({ op: "number", value });
  do = (op: string, ...args: Operand[]): Operand => this.#add({ op, args });

  #add(one: Instruction): Operand {
    return this.list.push(one) - 1;
  }
}

interface Made {
  readonly value: Operand;
  /** A gradient is multiplied by it. */
  readonly slope: Operand;
}

/** The slope is computed behind the value, and left out where nobody asks for it. */
function gelu(s: Steps, x: Operand, sloped: boolean): Made {
  const one = s.number(1), half = s.number(0.5), square = s.do("mul", x, x);
  const within = s.do("fma", s.number(CUBE), s.do("mul", square, x), x);
  const t = s.do("tanh", s.do("mul", s.number(ROOT), within));
  const left = s.do("mul", half, x), right = s.do("add", one, t);
  const value = s.do("mul", left, right);
  if (!sloped) return { value, slope: value };
  const bend = s.do("fma", s.do("neg", t), t, one);
  const steep = s.do("mul", s.number(ROOT), s.do("fma", s.number(Math.fround(3 * CUBE)), square, one));
  const tail = s.do("mul", s.do("mul", left, bend), steep);
  return { value, slope: s.do("add", tail, s.do("mul", half, right)) };
}

const FORWARD = "gelu(", BACKWARD = "gelu_backward(";

/** Writes the call as a group of its own; false where it has to stay a call. */
export function ownGelu(draft: Draft, ref: Ref, node: Call): boolean {
  const { schema, values, shape } = node, elements = count(shape);
  const forward = schema.startsWith(FORWARD);
  if (!draft.options.exact || !forward && !schema.startsWith(BACKWARD) || values.at(-1) !== "tanh") {
    return false;
  }
  const threads = elements < GRAIN ? 1 : draft.options.threads ?? 1;
  if (elements % (TOGETHER * threads) !== 0) return false;
  const refs = values.slice(0, -1).map((value) => (value as { ref: Ref }).ref);
  if (!refs.every((one) => isWhole(draft, one))) return false;
  const x = refs.at(-1)!, s = new Steps();
  const stores: Store[] = [];
  const store = (value: Operand, slot: number) => {
    stores.push({ value, to: { slot, offset: 0, strides: [1], kind: "f32" } });
  };
  const load = (one: Ref) => {
    const { slot, offset } = draft.stridesOf(one);
    return s.load(slot, offset);
  };
  if (forward) {
    const sloped = hasBackward(draft, x), { value, slope } = gelu(s, load(x), sloped);
    store(value, draft.define(ref));
    if (sloped) {
      draft.slopes.set(x, draft.scratch(elements));
      store(slope, draft.slopes.get(x)!);
    }
  } else {
    const known = draft.slopes.get(x);
    const slope = known === undefined ? gelu(s, load(x), true).slope : s.load(known, 0);
    store(s.do("mul", load(refs[0]), slope), draft.define(ref));
  }
  const stage = { instructions: s.list, stores, reductions: [] };
  draft.parts.push({
    ...{ kernel: "group", name: schema.slice(0, schema.indexOf("(")), exact: true, sizes: [elements] },
    stages: [stage],
  });
  return true;
}

const isWhole = (draft: Draft, ref: Ref): boolean => {
  const { shape } = draft.graph.nodes[ref], { strides } = draft.stridesOf(ref);
  return String(strides.filter((_, i) => shape[i] > 1)) === String(rowMajor(loopsOver(shape)));
};

/** The slope is known as soon as x is, and kept in its place: backward needs no second tanh. */
const hasBackward = ({ graph: { nodes } }: Draft, x: Ref): boolean =>
  nodes.some((node) =>
    node.op === "call" && node.schema.startsWith(BACKWARD) && (node.values[1] as { ref: Ref }).ref === x &&
    node.values.at(-1) === "tanh"
  );
