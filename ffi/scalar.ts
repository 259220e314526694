// Numbers where ops take tensors: the 0-dim tensors that stand for them.
import { compile } from "./aten.ts";
import { type DType, isFloating } from "./dtype.ts";
import { NativeError } from "./errors.ts";
import { constant } from "./make.ts";
import { parseSchema } from "./schema.ts";
import type { Device, Tensor } from "./tensor.ts";

/** A number in a graph: written as 1 or as 1.0, it gives results of different types. */
export class Num {
  constructor(
    readonly value: number,
    readonly kind: "int" | "float" | "bool",
    readonly imaginary?: number,
  ) {}
  toString(): string {
    if (this.imaginary !== undefined) {
      return `${this.value}${this.imaginary < 0 ? "" : "+"}${this.imaginary}j`;
    }
    return this.kind === "bool" ? (this.value ? "True" : "False") : String(this.value);
  }
}

export type TensorOrNumber = Tensor | Num;
// deno-lint-ignore no-explicit-any
export type ScalarOp = (...args: any[]) => unknown;

/**
 * The result acts on a tensor's type as a Python number does: it leaves the type alone. It has 64 bits where
 * the tensor has dimensions, as PyTorch wraps numbers, else the tensor's own type.
 */
export function numberLike(n: Num, like: Tensor, device: Device = "cpu"): Tensor {
  if (n.imaginary !== undefined) {
    throw new NativeError("number", String(n), "a complex number has no way into this op on this machine");
  }
  return constant(n.value, typeOfNumber(n, like), device);
}

function typeOfNumber({ kind }: Num, like: Tensor): DType {
  if (kind === "bool") return "bool";
  const of = like.dtype;
  const numbers = isFloating(of) || of[0] === "c";
  if (kind === "float" && !numbers) return "f32"; // the default type
  if (kind === "int" && of === "bool") return "i64";
  return like.shape.length === 0 ? of : numbers ? "f64" : "i64";
}

/** JavaScript has one kind of number: 2 is whole, and so is 2.0. */
export const numberOf = (value: number): Num => new Num(value, Number.isInteger(value) ? "int" : "float");

export const operand = (value: Tensor | number, like: Tensor): Tensor =>
  typeof value === "number" ? numberLike(numberOf(value), like) : value;

export const isNum = (value: unknown): value is Num => value instanceof Num;

export function pair(a: TensorOrNumber, b: TensorOrNumber): [Tensor, Tensor] {
  if (isNum(b)) {
    if (!isNum(a)) return [a, numberLike(b, a)];
    throw new NativeError("number", "", "an op of two numbers and no tensor can't be called");
  }
  return isNum(a) ? [numberLike(a, b), b] : [a, b];
}

/** Ops of three operands take no host number beside a GPU's tensors. */
export const beside = (value: TensorOrNumber, like: Tensor): Tensor =>
  isNum(value) ? numberLike(value, like, like.device) : value;

export const defaultType = (n: Num): DType => n.kind === "int" ? "i64" : n.kind === "bool" ? "bool" : "f32";
export const raw = (n: Num | undefined | null, otherwise: number): number => n?.value ?? otherwise;

const cached = new Map<string, ScalarOp>();

export function other(text: string): ScalarOp {
  let made = cached.get(text);
  if (made === undefined) cached.set(text, made = compile(parseSchema(text), "aten"));
  return made;
}
