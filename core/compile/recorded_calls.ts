// Calls of libtorch's ops that no rule knows: the op as it was recorded, and its gradient by autograd of this op alone. A word
// before the schema says which of the two it is, so that nothing takes it for an op with a rule.
import { gradientsOf, type Remembered, remembered } from "../../ffi/autograd.ts";
import { dtypeBytes } from "../../ffi/dtype.ts";
import { beginOf } from "../../ffi/make.ts";
import { clone, detach } from "../../ffi/ops.ts";
import { callOf, operator } from "../../ffi/operators.ts";
import { parseSchema, type Schema } from "../../ffi/schema.ts";
import { hostOps } from "../../ffi/tape.ts";
import { RANDOM } from "../../ffi/trace.ts";
import { Tensor } from "../../ffi/tensor.ts";
import { nodeText } from "./builder.ts";
import { nameOfCall } from "./graph.ts";

const RECORDED = "recorded ", GRADIENT = "gradient ";

type Callable = (...args: unknown[]) => unknown;

export const isRecorded = (schema: string): boolean => schema.startsWith(RECORDED);

/** Its arguments are the numbers of the tensors whose gradients are wanted, the results' gradients, and the op's own arguments. */
export const gradientOfRecorded = (schema: string): string => GRADIENT + schema.slice(RECORDED.length);

/** Results lie where libtorch puts them. */
export const hasPlaces = (schema: string): boolean =>
  !hostOps.has(nameOfCall(schema)) && !schema.startsWith(RECORDED) && !schema.startsWith(GRADIENT);

/** The sizes of their results depend on numbers, or they can't be called a second time. */
const UNSURE = new RegExp(
  "^(nonzero\\w*|argwhere|masked_select|unique\\w*|_unique\\w*|bincount|item|_local_scalar_dense|repeat_interleave|" +
    "histogram\\w*|set_\\w*|resize_\\w*|empty\\w*|new_empty\\w*|\\w*_backward|gradient|synced_norm|\\w*batch_norm\\w*|" +
    "instance_norm)$",
);

/** An op that writes to its first argument becomes the one that gives a new tensor. Null where there is none that can be called. */
export function recordedCall({ text, name, overload, args, returns }: Schema): string | null {
  const inPlace = returns[0]?.argument === 0;
  const plain = inPlace ? name.startsWith("__i") ? name.replace("__i", "__") : name.replace(/_$/, "") : name;
  if (RANDOM.test(name) || UNSURE.test(plain)) return null;
  const found = operator(`aten::${plain}`, overload);
  if (!found?.call || !inPlace && found.schema.text !== text) return null;
  const { schema } = found;
  const bases = (all: Schema["args"]) => all.map(({ base }) => base).join();
  const fits = bases(schema.args) === bases(args) && schema.args.every(({ memory }) => memory !== "written");
  const tensors = schema.returns.length > 0 && schema.returns.every(({ base }) => base === "Tensor") &&
    (schema.returns.length === 1 || schema.returns.every(({ list }) => !list));
  return fits && tensors ? RECORDED + schema.text : null;
}

/** Gives what a call of this schema does. */
export function callable(schema: string): Callable {
  const own = hostOps.get(nameOfCall(schema));
  if (own) return own as Callable;
  if (schema.startsWith(RECORDED)) return withOwnMemory(named(schema.slice(RECORDED.length)));
  if (schema.startsWith(GRADIENT)) return gradientOf(named(schema.slice(GRADIENT.length)));
  return callOf(schema);
}

function named(text: string): Callable {
  const { name, overload } = parseSchema(text), found = operator(`aten::${name}`, overload)?.call;
  if (!found) throw new Error(`internal: ${name} can't be called.`);
  return found;
}

const tensorsIn = (values: readonly unknown[]): Tensor[] =>
  values.flatMap((value) => value instanceof Tensor ? [value] : Array.isArray(value) ? tensorsIn(value) : []);

/** The memory of an argument may hold other numbers soon, so a result that is a view of it is copied. */
const withOwnMemory = (op: Callable): Callable => (...args) => {
  const made = op(...args), spans = tensorsIn(args).map(spanOf);
  return Array.isArray(made) ? made.map((t) => ownMemory(t, spans)) : ownMemory(made as Tensor, spans);
};

type Span = readonly [bigint, bigint];

function ownMemory(t: Tensor, spans: readonly Span[]): Tensor {
  const begin = beginOf(t);
  return spans.some(([from, to]) => begin >= from && begin < to) ? clone(t) : t;
}

function spanOf(t: Tensor): Span {
  const from = beginOf(t), { shape, strides } = t;
  const elements = shape.reduce((all, size, dim) => all + (size - 1) * strides[dim], 1);
  return [from, from + BigInt(dtypeBytes(t.dtype) * Math.max(0, elements))];
}

/** The op's results, which autograd remembers for the tensors of these numbers. */
function rememberedCall(op: Callable, wanted: readonly number[], given: readonly unknown[]): Remembered {
  let tensors = 0;
  const leaves: Tensor[] = [];
  const places = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(places);
    if (!(value instanceof Tensor)) return value;
    return wanted.includes(tensors++) ? new Leaf(leaves.push(value) - 1) : value;
  };
  const spread = given.map(places);
  return remembered((inputs) => {
    const put = (value: unknown): unknown =>
      Array.isArray(value) ? value.map(put) : value instanceof Leaf ? inputs[value.at] : value;
    const made = op(...spread.map(put));
    return (Array.isArray(made) ? made : [made]) as Tensor[];
  }, leaves);
}

const gradientOf = (op: Callable): Callable => (...[wanted, back, ...given]) =>
  gradientsOf(rememberedCall(op, wanted as number[], given), back as (Tensor | null)[]);

/** The place of a tensor among those whose gradients are wanted. */
class Leaf {
  constructor(readonly at: number) {}
}

/** A call and its gradient have the same key. */
const keyOf = (schema: string, values: readonly unknown[]): string =>
  `${schema.slice(schema.indexOf(" ") + 1)} ${nodeText(values)}`;

/** Where a plan asks for a call's gradient, autograd remembers the call until then, and the op need not be called twice. */
export class RememberedCalls {
  readonly #wanted = new Map<string, readonly number[]>();
  readonly #known = new Map<string, Remembered>();

  constructor(calls: readonly { readonly schema: string; readonly values: readonly unknown[] }[]) {
    for (const { schema, values: [wanted, , ...values] } of calls) {
      if (schema.startsWith(GRADIENT)) this.#wanted.set(keyOf(schema, values), wanted as number[]);
    }
  }

  /** Runs a call, whose arguments' values are these. */
  call(schema: string, values: readonly unknown[], op: Callable, args: readonly unknown[]): unknown {
    if (schema.startsWith(GRADIENT)) return this.#goBack(keyOf(schema, values.slice(2)), op, args);
    if (this.#wanted.size === 0 || !schema.startsWith(RECORDED)) return op(...args);
    const key = keyOf(schema, values), wanted = this.#wanted.get(key);
    if (wanted === undefined) return op(...args);
    const spans = tensorsIn(args).map(spanOf);
    const known = rememberedCall(named(schema.slice(RECORDED.length)), wanted, args);
    this.#known.set(key, known);
    return known.made.map((t) => ownMemory(detach(t), spans));
  }

  #goBack(key: string, op: Callable, args: readonly unknown[]): unknown {
    const known = this.#known.get(key);
    if (known === undefined) return op(...args);
    this.#known.delete(key);
    const gradients = gradientsOf(known, args[1] as (Tensor | null)[]);
    for (const t of [...known.leaves, ...known.made]) t.free();
    return gradients;
  }

  /** A run has ended, and its scope gives back what is left. */
  clear(): void {
    this.#known.clear();
  }
}
