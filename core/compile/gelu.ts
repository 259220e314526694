// Activations that libtorch computes vector by vector, as loops of our own with its bits: the same steps, of which its
// compiler made some one rounding, and Sleef's tanh.
import { loopsOver, rowMajor } from "./access.ts";
import type { Draft } from "./draft.ts";
import type { Node, Ref } from "./graph.ts";
import type { GroupKernel, Instruction, Operand } from "./kernel.ts";

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

/** tanh of the inner term of gelu. */
function inner(s: Steps, x: Operand, cube: Operand): Operand {
  return s.do("tanh", s.do("mul", s.number(ROOT), s.do("fma", s.number(CUBE), cube, x)));
}

function gelu(s: Steps, x: Operand): Operand {
  const t = inner(s, x, s.do("mul", s.do("mul", x, x), x));
  return s.do("mul", s.do("mul", s.number(0.5), x), s.do("add", s.number(1), t));
}

function geluBackward(s: Steps, g: Operand, x: Operand): Operand {
  const one = s.number(1), half = s.number(0.5), square = s.do("mul", x, x);
  const t = inner(s, x, s.do("mul", x, square));
  const left = s.do("mul", half, x), right = s.do("mul", half, s.do("add", one, t));
  const slope = s.do("fma", s.do("neg", t), t, one);
  const three = s.number(Math.fround(3 * CUBE));
  const within = s.do("mul", s.number(ROOT), s.do("fma", three, square, one));
  return s.do("mul", g, s.do("add", s.do("mul", s.do("mul", left, slope), within), right));
}

/** By the beginning of a call's schema. Arguments are tensors, but for the last one. */
const ACTIVATIONS: Readonly<Record<string, (s: Steps, ...args: Operand[]) => Operand>> = {
  gelu,
  gelu_backward: geluBackward,
};

/** Writes the call as a group of its own; false where it has to stay a call. */
export function activated(draft: Draft, ref: Ref, node: Call): boolean {
  const name = node.schema.slice(0, node.schema.indexOf("("));
  if (!draft.options.exact || !Object.hasOwn(ACTIVATIONS, name) || node.values.at(-1) !== "tanh") {
    return false;
  }
  const elements = node.shape.reduce((product, size) => product * size, 1);
  const threads = elements < GRAIN ? 1 : draft.options.threads ?? 1;
  if (elements % (TOGETHER * threads) !== 0) return false;
  const tensors = (node.values.slice(0, -1) as { ref: Ref }[]).map((value) => draft.stridesOf(value.ref));
  const whole = String(rowMajor(loopsOver(node.shape)));
  const dense = tensors.every(({ strides }) => String(strides.filter((_, i) => node.shape[i] > 1)) === whole);
  if (!dense) return false;
  const s = new Steps(), args = tensors.map(({ slot, offset }) => s.load(slot, offset));
  const value = ACTIVATIONS[name](s, ...args), slot = draft.define(ref);
  const kernel: GroupKernel = {
    kernel: "group",
    name,
    exact: true,
    sizes: [elements],
    stages: [{
      instructions: s.list,
      stores: [{ value, to: { slot, offset: 0, strides: [1], kind: "f32" } }],
      reductions: [],
    }],
  };
  draft.parts.push(kernel);
  return true;
}
