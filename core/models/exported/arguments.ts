// From what a graph says of an argument to what the op's function takes. May import ffi, graph (types).
import type { Argument } from "../../../ffi/schema.ts";
import { Num, numberLike } from "../../../ffi/scalar_ops.ts";
import type { Device, Tensor } from "../../../ffi/tensor.ts";
import type { Value } from "./graph.ts";

/** What a graph's run goes through: the values made so far, by slot, and how it is run. */
export interface Frame {
  readonly values: unknown[];
  device: Device;
  /** Batch statistics and dropout are on. */
  training: boolean;
  /** Forward is gone through once more for the same batch: buffers stay as they are. */
  again: boolean;
  /** What forward writes to is a copy already: of the buffers as the first pass found them. */
  copies: boolean;
}

export type Getter = (frame: Frame) => unknown;
/** A value that is the same at every run, or how to get it. */
export type Source = { readonly fixed: unknown } | { readonly get: Getter; readonly slot?: number };

export class Unfit extends Error {}

type SlotOf = (name: string) => number;

const fixed = (value: unknown): Source => ({ fixed: value });
const fromSlot = (slot: number): Source => ({ slot, get: (frame) => frame.values[slot] });

/** Flags that evaluation turns off, by the schema's names. */
const FLAGS = new Set(["training", "train"]);

export function sourceOf(a: Argument, value: Value | undefined, slotOf: SlotOf): Source {
  if (value === undefined) {
    if (a.fallback === undefined) throw new Unfit(`its argument ${a.name} is missing`);
    return fixed(undefined);
  }
  if (value.kind === "none") {
    if (!a.optional && a.base !== "Generator") throw new Unfit(`its argument ${a.name} can't be None`);
    return fixed(null);
  }
  if (value.kind === "device") return { get: (frame) => frame.device };
  if (a.base === "Layout" || a.base === "Generator") {
    if (value.kind === "layout" && !value.strided) throw new Unfit("sparse layouts are not supported");
    return fixed(null);
  }
  return a.list ? listSource(a, value, slotOf) : plainSource(a, value, slotOf);
}

function plainSource(a: Argument, value: Value, slotOf: SlotOf): Source {
  switch (a.base) {
    case "Tensor":
      if (value.kind === "tensor") return fromSlot(slotOf(value.name));
      return numberSource(value, slotOf);
    case "Scalar":
      return numberSource(value, slotOf);
    case "int":
    case "float":
      if (value.kind === "symbol") return fromSlot(slotOf(value.name));
      if (value.kind !== "number") break;
      return a.name === "dropout_p"
        ? { get: (frame) => frame.training ? value.value : 0 }
        : fixed(value.value);
    case "bool":
      if (value.kind !== "number") break;
      return FLAGS.has(a.name) && value.value !== 0
        ? { get: (frame) => frame.training }
        : fixed(value.value !== 0);
    case "str":
      if (value.kind === "text") return fixed(value.value);
      break;
    case "ScalarType":
      if (value.kind === "dtype" && value.value !== null) return fixed(value.value);
      throw new Unfit("it makes tensors of a type that is not supported");
    case "MemoryFormat":
      if (value.kind === "format" && value.value !== null) return fixed(value.value);
  }
  throw new Unfit(`its argument ${a.name} is ${saidOf(value)}, and ${a.base} is expected`);
}

function numberSource(value: Value, slotOf: SlotOf): Source {
  if (value.kind === "number") return fixed(new Num(value.value, value.as, value.imaginary));
  if (value.kind !== "symbol") throw new Unfit(`${saidOf(value)} stands where a number is expected`);
  const slot = slotOf(value.name), { as } = value;
  return { get: (frame) => new Num(frame.values[slot] as number, as) };
}

function listSource(a: Argument, value: Value, slotOf: SlotOf): Source {
  if (a.base === "Tensor" && value.kind === "tensors") {
    const slots = value.names.map((name) => name === null ? -1 : slotOf(name));
    return { get: ({ values }) => slots.map((slot) => slot < 0 ? null : values[slot]) };
  }
  if (value.kind === "number" && a.base !== "Tensor") { // one number for all of them
    const one = a.base === "bool" ? value.value !== 0 : value.value;
    return fixed(new Array(a.length || 1).fill(one));
  }
  if (value.kind !== "numbers") {
    throw new Unfit(`its argument ${a.name} is ${saidOf(value)}, and a list is expected`);
  }
  const numbers = value.values;
  if (numbers.every((n) => typeof n === "number")) {
    return fixed(a.base === "bool" ? numbers.map((n) => n !== 0) : numbers);
  }
  const parts = numbers.map((n) => typeof n === "string" ? { slot: slotOf(n), n: 0 } : { slot: -1, n });
  return { get: ({ values }) => parts.map(({ slot, n }) => slot < 0 ? n : values[slot]) };
}

/** For ops that take no number in place of a tensor: the 0-dim tensor that stands for it, like the one in slot `first`. */
export function asTensor(source: Source, first: number): Source {
  if (!("fixed" in source) || !(source.fixed instanceof Num)) return source;
  const n = source.fixed;
  if (first < 0) throw new Unfit("it has only numbers where tensors are expected");
  return {
    get: ({ values }) => {
      const like = values[first] as Tensor;
      return numberLike(n, like, like.device);
    },
  };
}

export function saidOf(value: Value): string {
  switch (value.kind) {
    case "none":
      return "None";
    case "number":
    case "symbol":
      return "a number";
    case "numbers":
      return "a list of numbers";
    case "graph":
      return "a graph of its own";
    case "other":
      return value.what;
    case "text":
      return "a text";
    default:
      return `a ${value.kind}`;
  }
}
