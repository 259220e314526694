// Operators that are known only at run time, by their name in a graph. The schema comes from the loaded
// libtorch, so a call can never put more or fewer arguments on the stack than it takes off.
import * as ops from "./ops.ts";
import { LibraryError, NativeError } from "./errors.ts";
import { openedLibtorch } from "./library.ts";
import { type DType, isFloating } from "./dtype.ts";
import { add, constant, fill_, sub, tensor, toDevice, uninitialised } from "./make.ts";
import { addInto, guardedCall, type Into, unboxedInto } from "./scalar_calls.ts";
import {
  beside,
  defaultType,
  isNum,
  Num,
  numberLike,
  other,
  pair,
  raw,
  type ScalarOp,
  type TensorOrNumber,
} from "./scalar.ts";
import { parseSchema, type Schema } from "./schema.ts";
import { type Device, scope, type Tensor } from "./tensor.ts";
import { compile } from "./aten.ts";
import { COMPOSED } from "./composed.ts";
import { tape, unrecorded } from "./tape.ts";

// std::string: address, length, and 16 bytes of its own. c10::OperatorName: two of them.
const STRING_WORDS = 4;
const word = { struct: ["u64", "u64", "u64", "u64"] } as const;

const symbols = {
  dispatcher: {
    name: "_ZN3c1010Dispatcher13realSingletonEv",
    parameters: [],
    result: "pointer",
    optional: true,
  },
  /**
   * Gives std::optional<OperatorHandle>: the operator's entry, its place in a list, and whether there is one.
   */
  findSchema: {
    name: "_ZN3c1010Dispatcher10findSchemaERKNS_12OperatorNameE",
    parameters: ["pointer", "buffer"],
    result: { struct: ["u64", "u64", "u64"] },
    optional: true,
  },
  /** Gives a std::string that describes the entry, its schema in the second line. */
  dumpState: {
    name: "_ZNK3c104impl13OperatorEntry9dumpStateB5cxx11Ev",
    parameters: ["u64"],
    result: word,
    optional: true,
  },
} as const satisfies Deno.ForeignLibraryInterface;

let registry: Deno.DynamicLibrary<typeof symbols>["symbols"] | undefined;
let freeing: ((address: bigint) => void) | undefined;

function open() {
  const { dir, versionText } = openedLibtorch();
  registry ??= Deno.dlopen(`${dir}/libtorch_cpu.so`, symbols).symbols;
  freeing ??= Deno.dlopen("libstdc++.so.6", {
    operatorDelete: { name: "_ZdlPv", parameters: ["u64"], result: "void" },
  }).symbols.operatorDelete;
  const { dispatcher, findSchema, dumpState } = registry;
  if (!dispatcher || !findSchema || !dumpState) {
    throw new LibraryError(
      `libtorch ${versionText} in ${dir} lacks a symbol needed to look up operators for exported programs. ` +
        "Choose another libtorch with --libtorch DIR, or run: hpctrain libtorch install.",
    );
  }
  return { dispatcher, findSchema, dumpState, free: freeing };
}

/** "aten::relu(Tensor self) -> Tensor", or null. Seen right on libtorch 2.10.0 and 2.15.0. */
export function schemaText(name: string, overload: string): string | null {
  const { dispatcher, findSchema, dumpState, free } = open();
  const key = new BigUint64Array(new ArrayBuffer(2 * STRING_WORDS * 8));
  const held = [name, overload].map((text, i) => {
    const bytes = new TextEncoder().encode(text + "\0");
    key[i * STRING_WORDS] = Deno.UnsafePointer.value(Deno.UnsafePointer.of(bytes));
    key[i * STRING_WORDS + 1] = key[i * STRING_WORDS + 2] = BigInt(bytes.length - 1);
    return bytes; // must live until the call is over
  });
  const handle = words(findSchema(dispatcher(), new Uint8Array(key.buffer)));
  if (held.length !== 2 || (handle[2] & 0xffn) === 0n) return null;
  const [address] = words(dumpState(handle[0]));
  const schemaWords = new Deno.UnsafePointerView(Deno.UnsafePointer.create(address)!).getCString();
  free(address);
  const line = schemaWords.split("\n").find((text) => text.startsWith("schema: "));
  return line?.slice("schema: ".length).includes("(") ? line.slice("schema: ".length) : null;
}

function words(bytes: Uint8Array): BigUint64Array {
  return new BigUint64Array(bytes.slice().buffer);
}

export { Num, numberLike } from "./scalar.ts";

const ADD = "add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor";

function sum(a: TensorOrNumber, b: TensorOrNumber, alpha?: Num): Tensor {
  const [x, y] = pair(a, b);
  const exact = exactly(ADD);
  if (exact) return exact(x, y, alpha) as Tensor;
  return alpha === undefined ? add(x, y) : sub(x, y, -alpha.value);
}

function difference(a: TensorOrNumber, b: TensorOrNumber, alpha?: Num): Tensor {
  const [x, y] = pair(a, b);
  const exact = exactly(ADD);
  if (!exact || isFloating(x.dtype) || isFloating(y.dtype)) return sub(x, y, raw(alpha, 1));
  return exact(x, y, new Num(-raw(alpha, 1), "int")) as Tensor; // of integers a floating factor is refused
}

/** Writes to the tensor itself, as PyTorch does; where that can't be promised, by way of a copy. */
function sumInto(a: Tensor, b: TensorOrNumber, alpha?: Num): Tensor {
  const y = isNum(b) ? numberLike(b, a) : b;
  return addInto(a, y, alpha) ?? scope(() => (ops.copy_(a, sum(a, y, alpha)), a));
}

type Places = [dtype?: DType | null, layout?: null, device?: Device | null, pinned?: boolean | null];

function full(shape: readonly number[], n: Num, ...[dtype, , device]: Places): Tensor {
  return fill_(
    uninitialised(shape, { dtype: dtype ?? defaultType(n), device: device ?? "cpu" }),
    Number(n.value),
  );
}

function range(start: Num, end: Num, step: Num, ...[dtype, , device]: Places): Tensor {
  const float = [start, end, step].some((n) => n.kind === "float");
  const type = dtype ?? (float ? "f32" : "i64");
  const count = Math.max(0, Math.ceil((end.value - start.value) / step.value));
  const values = Float64Array.from({ length: count }, (_, i) => start.value + step.value * i);
  return placed(values, type, device ?? "cpu");
}

function linspace(start: Num, end: Num, steps: number, ...[dtype, , device]: Places): Tensor {
  const round = dtype === "f64" ? Number : Math.fround;
  const first = round(start.value), last = round(end.value);
  const step = round(round(last - first) / (steps - 1));
  const half = Math.floor(steps / 2);
  const values = Float64Array.from(
    { length: steps },
    // Rounded once, when it becomes a float: libtorch's loop multiplies and adds in one operation.
    (_, i) => i < half ? first + step * i : last - step * (steps - i - 1),
  );
  if (steps === 1) values[0] = start.value;
  return placed(values, dtype ?? "f32", device ?? "cpu");
}

/** These numbers follow from the op's own arguments, so they are the same in every step. */
function placed(values: Float64Array<ArrayBuffer>, dtype: DType, device: Device): Tensor {
  const made = unrecorded(() => placedAs(values, dtype, device));
  tape.recorder?.constant(made);
  return made;
}

function placedAs(values: Float64Array<ArrayBuffer>, dtype: DType, device: Device): Tensor {
  return scope(() => {
    const wide = dtype === "i64"
      ? tensor(BigInt64Array.from(values, (v) => BigInt(Math.trunc(v))))
      : ops.toDtype(tensor(values), dtype);
    return device === "cpu" ? wide : toDevice(wide, device);
  });
}

const binary = (name: string, tail = "") => {
  const text = `${name}.Tensor${tail ? "_mode" : ""}(Tensor self, Tensor other${tail}) -> Tensor`;
  return (a: TensorOrNumber, b: TensorOrNumber, ...rest: unknown[]) => other(text)(...pair(a, b), ...rest);
};
const binaryInto = (name: string) => {
  const text = `${name}.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)`;
  return (a: Tensor, b: TensorOrNumber) => other(text)(...pair(a, b));
};

function clampOf(x: Tensor, least?: TensorOrNumber | null, most?: TensorOrNumber | null): Tensor {
  const [low, high] = [least, most].map((v) => v ? beside(v, x) : null);
  return ops.clamp(x, low, high);
}

const where = (c: Tensor, a: TensorOrNumber, b: TensorOrNumber): Tensor => {
  const one = isNum(a) ? (isNum(b) ? null : b) : a;
  const place = (v: TensorOrNumber) =>
    !isNum(v) ? v : one ? beside(v, one) : constant(v.value, defaultType(v), c.device);
  return ops.where(c, place(a), place(b));
};

const maskedInto = (x: Tensor, mask: Tensor, n: TensorOrNumber) =>
  other("masked_fill_.Tensor(Tensor(a!) self, Tensor mask, Tensor value) -> Tensor(a!)")(
    x,
    mask,
    beside(n, x),
  );

/** Writes out the place of each row for all of its numbers: they are added up in the same order. */
const indexAdd = (text: string) => (x: Tensor, dim: number, index: Tensor, source: Tensor, alpha?: Num) => {
  const at = dim < 0 ? dim + x.shape.length : dim;
  const places = ops.expand(
    ops.reshape(index, source.shape.map((_, i) => i === at ? -1 : 1)),
    source.shape,
  );
  const scaled = raw(alpha, 1) === 1 ? source : ops.mul(source, numberLike(alpha!, source));
  return other(text)(x, dim, places, scaled);
};
const scattered = indexAdd("scatter_add(Tensor self, int dim, Tensor index, Tensor src) -> Tensor");
const scatteredInto = indexAdd(
  "scatter_add_(Tensor(a!) self, int dim, Tensor index, Tensor src) -> Tensor(a!)",
);

const pad = (x: Tensor, sizes: readonly number[], n?: Num) =>
  other('pad(Tensor self, SymInt[] pad, str mode="constant", float? value=None) -> Tensor')(
    x,
    sizes,
    "constant",
    raw(n, 0),
  );

const comparisons = ["eq", "ne", "gt", "ge", "lt", "le"];
const arithmetic = ["mul", "div", "remainder", "fmod"];
const bits = [
  ...["bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift"],
  ...["__and__", "__or__", "__xor__", "__lshift__", "__rshift__"],
];
const logic = ["floor_divide", "atan2", "maximum", "minimum", "logical_and", "logical_or"];

/** The keys are libtorch's names; arguments are in the schema's order, undefined for the default. */
const table: Readonly<Record<string, ScalarOp>> = {
  ...COMPOSED,
  ...Object.fromEntries(
    [...comparisons, ...arithmetic, ...bits].flatMap((name) => [
      [`${name}.Tensor`, binary(name)],
      [`${name}.Scalar`, binary(name)],
      [`${name}_.Tensor`, binaryInto(`${name}_`)],
      [`${name}_.Scalar`, binaryInto(`${name}_`)],
    ]),
  ),
  ...Object.fromEntries(
    logic.map((name) => {
      const text = `${name}(Tensor self, Tensor other) -> Tensor`;
      return [name, (a: TensorOrNumber, b: TensorOrNumber) => other(text)(...pair(a, b))];
    }),
  ),
  "div.Tensor_mode": binary("div", ", *, str? rounding_mode"),
  "div.Scalar_mode": binary("div", ", *, str? rounding_mode"),
  "floor_divide.Scalar": (a: Tensor, b: Num) =>
    other("floor_divide(Tensor self, Tensor other) -> Tensor")(...pair(a, b)),
  "add.Tensor": sum,
  "add.Scalar": sum,
  "add_.Tensor": sumInto,
  "add_.Scalar": sumInto,
  "sub.Tensor": difference,
  "sub.Scalar": difference,
  "rsub.Scalar": (a: Tensor, b: Num, alpha?: Num) => difference(b, a, alpha),
  "rsub.Tensor": (a: Tensor, b: TensorOrNumber, alpha?: Num) => difference(b, a, alpha),
  "sub_.Tensor": (a: Tensor, b: TensorOrNumber, alpha?: Num) =>
    sumInto(a, b, new Num(-raw(alpha, 1), isFloating(a.dtype) ? "float" : "int")),
  "pow.Scalar": (a: Num, b: Tensor) => ops.pow(numberLike(a, b), b), // what libtorch itself makes of it
  "masked_fill.Scalar": (x: Tensor, mask: Tensor, n: Num) => ops.maskedFill(x, mask, beside(n, x)),
  "masked_fill.Tensor": (x: Tensor, mask: Tensor, n: TensorOrNumber) => ops.maskedFill(x, mask, beside(n, x)),
  "masked_fill_.Scalar": maskedInto,
  "masked_fill_.Tensor": maskedInto,
  "where.self": where,
  "where.ScalarSelf": where,
  "where.ScalarOther": where,
  "where.Scalar": where,
  clamp: clampOf,
  "clamp.Tensor": clampOf,
  clamp_min: (x: Tensor, n: Num) => clampOf(x, n, null),
  clamp_max: (x: Tensor, n: Num) => clampOf(x, null, n),
  clamp_: (x: Tensor, least?: Num | null, most?: Num | null) =>
    ops.clamp_(x, least ? beside(least, x) : null, most ? beside(most, x) : null),
  full,
  full_like: (x: Tensor, n: Num, ...[dtype, , device]: Places) =>
    full(x.shape, n, dtype ?? x.dtype, null, device ?? x.device),
  new_full: (x: Tensor, shape: readonly number[], n: Num, ...[dtype, , device]: Places) =>
    full(shape, n, dtype ?? x.dtype, null, device ?? x.device),
  scalar_tensor: (n: Num, ...[dtype, , device]: Places) => full([], n, dtype ?? "f32", null, device),
  "fill.Scalar": (x: Tensor, n: Num) => full(x.shape, n, x.dtype, null, x.device),
  "fill_.Scalar": (x: Tensor, n: Num) =>
    other("fill_.Tensor(Tensor(a!) self, Tensor value) -> Tensor(a!)")(x, numberLike(n, x)),
  arange: (end: Num, ...places: Places) => range(new Num(0, "int"), end, new Num(1, "int"), ...places),
  "arange.start": (start: Num, end: Num, ...places: Places) =>
    range(start, end, new Num(1, "int"), ...places),
  "arange.start_step": (start: Num, end: Num, step?: Num, ...places: Places) =>
    range(start, end, step ?? new Num(1, "int"), ...places),
  linspace,
  index_add: (...args: Parameters<typeof scattered>) => scope(() => scattered(...args)),
  index_add_: (...args: Parameters<typeof scattered>) => scope(() => scatteredInto(...args)),
  celu_: (x: Tensor, alpha?: Num) => {
    const float = (value: number) => new Num(value, "float"), { value } = alpha ?? float(1);
    return byName("elu_")(x, float(value), float(1), float(1 / value));
  },
  constant_pad_nd: pad,
  "index_fill.int_Scalar": (x: Tensor, dim: number, index: Tensor, n: Num) =>
    other("index_fill.int_Tensor(Tensor self, int dim, Tensor index, Tensor value) -> Tensor")(
      x,
      dim,
      index,
      constant(n.value, x.dtype, x.device),
    ),
  "scatter.value": (x: Tensor, dim: number, index: Tensor, n: Num) =>
    other("scatter.src(Tensor self, int dim, Tensor index, Tensor src) -> Tensor")(
      x,
      dim,
      index,
      full(index.shape, n, x.dtype, null, x.device),
    ),
};

interface Forms {
  /** Takes Num for Scalar; null where the dispatcher takes it, too, or nothing does. */
  readonly call: ScalarOp | null;
  /** Takes a number in place of a tensor; null where a 0-dim tensor stands for it. */
  readonly numbers: ScalarOp | null;
}

function formsOf(schema: Schema): Forms {
  const key = schema.overload === "" ? schema.name : `${schema.name}.${schema.overload}`;
  const listed = Object.hasOwn(table, key) ? table[key] : null;
  const scalars = schema.args.some(({ base }) => base === "Scalar");
  const made = scalars ? guardedCall(schema) : null;
  const exact = made && schema.name === "masked_fill" ? withinType(made) : made;
  return {
    call: scalars ? exact ?? unboxedInto(key, byCopy(schema)) ?? listed ?? byCopy(schema) : null,
    numbers: numberForm(schema, listed),
  };
}

/**
 * Masks are filled with the least number of a type (torch.finfo), which was f32's when the graph was made: in
 * mixed precision it is the least number of the half that it goes into, which PyTorch would have taken.
 */
function withinType(call: ScalarOp): ScalarOp {
  return (x: Tensor, mask: Tensor, n: Num) => {
    const least = Math.abs(n.value) === MOST_F32 ? MOST[x.dtype] : undefined;
    return call(x, mask, least === undefined ? n : new Num(Math.sign(n.value) * least, n.kind));
  };
}

const MOST_F32 = 2 ** 128 - 2 ** 104;
const MOST: Readonly<Record<string, number>> = { bf16: 2 ** 128 - 2 ** 120, f16: 65504 };

/** Makes an op in place: the result of the plain op is written to its first argument. */
function byCopy(schema: Schema): Into | null {
  const { args, returns, name, overload } = schema;
  if (returns.length !== 1 || returns[0].argument !== 0 || args[0].list) return null;
  const plain = [overload, `Tensor_${overload}`].map((of) => exactNamed(siblingOf(name), of, schema))
    .find((found) => found !== null);
  if (!plain) return null;
  // The values that the op keeps for its gradient must not be those it writes to.
  return (x, ...rest) => scope(() => (ops.copy_(x, plain(ops.clone(x), ...rest) as Tensor), x));
}

const siblingOf = (name: string): string =>
  name.startsWith("__i") ? name.replace("__i", "__") : name.replace(/_$/, "");

/** PyTorch takes the overload for a Scalar, whose number has no type of its own. */
function numberForm({ name, overload, args }: Schema, listed: ScalarOp | null): ScalarOp | null {
  if (!overload.startsWith("Tensor") || args[1]?.base !== "Tensor" || args[0].memory === "written") {
    return listed;
  }
  const exact = exactNamed(name, overload.replace("Tensor", "Scalar"));
  if (!exact) return listed;
  return (a: TensorOrNumber, b: TensorOrNumber, ...rest: unknown[]) => {
    if (!isNum(a) && isNum(b)) return exact(a, b, ...rest);
    if (!listed) throw new NativeError(name, "", "a number can't stand first in this op");
    return listed(a, b, ...rest);
  };
}

function byName(name: string): ScalarOp {
  return formsOf(parseSchema(schemaText(`aten::${name}`, "")!.slice("aten::".length))).call!;
}

const exactKnown = new Map<string, ScalarOp | null>();

function exactly(text: string): ScalarOp | null {
  let call = exactKnown.get(text);
  if (call === undefined) exactKnown.set(text, call = guardedCall(parseSchema(text)));
  return call;
}

function exactNamed(name: string, overload: string, like?: Schema): ScalarOp | null {
  const text = schemaText(`aten::${name}`, overload)?.slice("aten::".length);
  if (text === undefined) return null;
  const same = (schema: Schema) => schema.args.map(({ base }) => base).join();
  return like && same(parseSchema(text)) !== same(like) ? null : exactly(text);
}

export interface Operator {
  readonly schema: Schema;
  readonly call: ((...args: unknown[]) => unknown) | null;
  readonly numbers: ((...args: unknown[]) => unknown) | null;
  readonly reason: string;
}

const known = new Map<string, Operator | null>();

/** The op "aten::add" "Tensor", or null where libtorch has none. */
/** An op by its schema, as plans name it: f32 numbers stand for Scalars. */
export function callOf(text: string): (...args: unknown[]) => unknown {
  const schema = parseSchema(text), { name, overload, args } = schema;
  if (args.every(({ base }) => base !== "Scalar")) return compile(schema, "aten");
  const call = operator(`aten::${name}`, overload)?.call;
  if (!call) throw new NativeError(name, "", "its numbers can't be passed on this machine");
  const asFloat = (one: unknown, i: number) =>
    args[i].base === "Scalar" && typeof one === "number" ? new Num(one, "float") : one;
  return (...given) => call(...given.map(asFloat));
}

export function operator(name: string, overload: string): Operator | null {
  const key = `${name}.${overload}`;
  let found = known.get(key);
  if (found === undefined) known.set(key, found = find(name, overload));
  return found;
}

function find(name: string, overload: string): Operator | null {
  const text = schemaText(name, overload);
  if (text === null) return null;
  const [namespace] = name.split("::");
  const plain = text.slice(text.indexOf("::") + 2);
  let schema: Schema;
  try {
    schema = parseSchema(plain);
  } catch {
    const empty = { text: plain, name, overload, args: [], returns: [] };
    return { schema: empty, call: null, numbers: null, reason: `its schema is not understood: ${plain}` };
  }
  const { call, numbers } = namespace === "aten" ? formsOf(schema) : { call: null, numbers: null };
  if (call) return { schema, call, numbers, reason: "" };
  try {
    return { schema, call: compile(schema, namespace), numbers, reason: "" };
  } catch {
    return { schema, call: null, numbers: null, reason: `its arguments can't be passed: ${plain}` };
  }
}
