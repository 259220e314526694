// Any operation of libtorch by its name, and numbers where operations take tensors, as in PyTorch: x * 2.
import { operator } from "../../../ffi/operators.ts";
import { NativeError } from "../../../ffi/errors.ts";
import * as make from "../../../ffi/make.ts";
import { Num, numberOf, operand } from "../../../ffi/scalar.ts";
import type { Argument, Schema } from "../../../ffi/schema.ts";
import { Tensor } from "../../../ffi/tensor.ts";

/** `a` plus `b`, element by element. */
export const add = (a: Tensor, b: Tensor | number): Tensor => make.add(a, operand(b, a));

/** `a` less `scale` times `b`, element by element. */
export const sub = (a: Tensor, b: Tensor | number, scale = 1): Tensor => make.sub(a, operand(b, a), scale);

/** The arguments of an operation of any name, in its schema's order; named ones may come last: `{ dim: [1], keepdim: true }`. */
export type OpArgument =
  | Tensor
  | number
  | boolean
  | string
  | null
  | undefined
  | readonly OpArgument[]
  | { readonly [name: string]: OpArgument };

/** An operation that was looked up by name. */
export type AnyOp<R = Tensor> = (...args: OpArgument[]) => R;

/**
 * Any operation of the libtorch that is loaded: `const logsumexp = op("logsumexp")`, `op("scatter_add")`,
 * `op("sum.dim_IntList")`. The name is that of PyTorch's schema, with the overload behind a dot. Look it up once, not in
 * each step. A name that is not there, or an argument that does not fit, is refused with the schema.
 */
export function op<R = Tensor>(name: string): AnyOp<R> {
  const full = name.includes("::") ? name : `aten::${name}`;
  const [base, overload = ""] = full.split(".");
  const found = operator(base, overload);
  if (!found) throw new NativeError(name, "", `this libtorch has no such operation${others(base, overload)}`);
  const { call, schema, reason } = found;
  if (!call) throw new NativeError(name, "", `it can't be called from here: ${reason}`);
  return (...given) => call(...inOrder(schema, given)) as R;
}

const COMMON = [
  "",
  "Tensor",
  "Scalar",
  "self",
  "dim",
  "int",
  "default",
  "dim_IntList",
  "Tensor_Scalar",
  "Tensor_Tensor",
];

function others(base: string, overload: string): string {
  const overloads = COMMON.filter((each) => each !== overload && operator(base, each) !== null)
    .map((each) => `"${base.replace("aten::", "")}${each && `.${each}`}"`);
  return overloads.length > 0 ? `, but ${overloads.join(", ")}` : "";
}

/** The arguments in the schema's order, numbers as what the schema wants in their places. */
function inOrder(schema: Schema, given: readonly OpArgument[]): unknown[] {
  const { args } = schema, last = given.at(-1);
  const named = isNamed(last) ? last : {};
  const placed = isNamed(last) ? given.slice(0, -1) : given;
  const unknown = Object.keys(named).find((name) => !args.some((a) => a.name === name));
  if (unknown !== undefined || placed.length > args.length) {
    const what = unknown === undefined ? `not ${placed.length} arguments` : `no argument ${unknown}`;
    throw new NativeError(schema.name, "", `it takes ${what}: ${schema.text}`);
  }
  const like = [...placed, ...Object.values(named)].find((value) => value instanceof Tensor);
  return args.map((a, i) => {
    const value = i < placed.length ? placed[i] : named[a.name];
    if (value === undefined && a.fallback === undefined) {
      throw new NativeError(schema.name, "", `${a.name} is missing: ${schema.text}`);
    }
    return asWanted(schema, a, value, like);
  });
}

const isNamed = (value: OpArgument): value is { readonly [name: string]: OpArgument } =>
  typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Tensor);

function asWanted(schema: Schema, { name, base, list }: Argument, value: OpArgument, like?: Tensor): unknown {
  if (base === "Scalar" && !list) {
    if (typeof value === "boolean") return new Num(Number(value), "bool");
    return typeof value === "number" ? numberOf(value) : value;
  }
  if (base !== "Tensor" || list || value instanceof Tensor || value === null || value === undefined) {
    return value;
  }
  if (typeof value === "number" && like) return operand(value, like);
  throw new NativeError(
    schema.name,
    "",
    `${name} is ${JSON.stringify(value)}, and no tensor: ${schema.text}`,
  );
}
