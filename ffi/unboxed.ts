// The C++ functions at::_ops::NAME::call, for ops whose Scalar has no other exact way. No exception may cross such a
// call, because it would end the process: so only plain types and fitting shapes are let through, and memory for the
// result is asked for first, in a call that may fail. May import abi, dtype, errors, library, make, ops, tensor.
import { native, out, outAt } from "./abi.ts";
import { dtypeBytes, isFloating } from "./dtype.ts";
import { NativeError } from "./errors.ts";
import { openedLibtorch } from "./library.ts";
import { empty, emptyLike } from "./ops.ts";
import { describe, scope, Tensor } from "./tensor.ts";

interface Number_ {
  readonly value: number;
  readonly kind: "int" | "float" | "bool";
}

// Seen in 2.10.0 and 2.15.0. Result: the address of a new handle, given first. Then tensors, then numbers.
const T = "RKNS_6TensorE", N = "RKN3c106ScalarE";
const functions = {
  "add.Tensor": { symbol: `_ZN2at4_ops10add_Tensor4callE${T}S4_${N}`, tensors: 2, numbers: [1] },
  "pow.Tensor_Scalar": { symbol: `_ZN2at4_ops17pow_Tensor_Scalar4callE${T}${N}`, tensors: 1, numbers: [NaN] },
  leaky_relu: { symbol: `_ZN2at4_ops10leaky_relu4callE${T}${N}`, tensors: 1, numbers: [0.01] },
  elu: { symbol: `_ZN2at4_ops3elu4callE${T}${N}S8_S8_`, tensors: 1, numbers: [1, 1, 1] },
  softplus: { symbol: `_ZN2at4_ops8softplus4callE${T}${N}S8_`, tensors: 1, numbers: [1, 20] },
  hardtanh: { symbol: `_ZN2at4_ops8hardtanh4callE${T}${N}S8_`, tensors: 1, numbers: [-1, 1] },
  threshold: { symbol: `_ZN2at4_ops9threshold4callE${T}${N}S8_`, tensors: 1, numbers: [NaN, NaN] },
  celu: { symbol: `_ZN2at4_ops4celu4callE${T}${N}`, tensors: 1, numbers: [1] },
  softshrink: { symbol: `_ZN2at4_ops10softshrink4callE${T}${N}`, tensors: 1, numbers: [0.5] },
  hardshrink: { symbol: `_ZN2at4_ops10hardshrink4callE${T}${N}`, tensors: 1, numbers: [0.5] },
  addcmul: { symbol: `_ZN2at4_ops7addcmul4callE${T}S4_S4_${N}`, tensors: 3, numbers: [1] },
  addcdiv: { symbol: `_ZN2at4_ops7addcdiv4callE${T}S4_S4_${N}`, tensors: 3, numbers: [1] },
  addmm: { symbol: `_ZN2at4_ops5addmm4callE${T}S4_S4_${N}S8_`, tensors: 3, numbers: [1, 1] },
  baddbmm: { symbol: `_ZN2at4_ops7baddbmm4callE${T}S4_S4_${N}S8_`, tensors: 3, numbers: [1, 1] },
} as const;

/** The same that write to their first tensor: no new handle. */
const into = {
  "add_.Tensor": "_ZN2at4_ops11add__Tensor4callERNS_6TensorERKS2_RKN3c106ScalarE",
  leaky_relu_: "_ZN2at4_ops11leaky_relu_4callERNS_6TensorERKN3c106ScalarE",
  elu_: "_ZN2at4_ops4elu_4callERNS_6TensorERKN3c106ScalarES7_S7_",
  hardtanh_: "_ZN2at4_ops9hardtanh_4callERNS_6TensorERKN3c106ScalarES7_",
  threshold_: "_ZN2at4_ops10threshold_4callERNS_6TensorERKN3c106ScalarES7_",
} as const;

type Plain = keyof typeof functions;
type Written = keyof typeof into;
type Native = (...args: (bigint | Deno.PointerValue)[]) => unknown;

let bound: Readonly<Record<string, Native | null>> | undefined;

function bind(key: Plain | Written): Native | null {
  return (bound ??= openAll())[key];
}

function openAll(): Readonly<Record<string, Native | null>> {
  const one = (name: string, handles: number, numbers: number) => ({
    name,
    parameters: [
      ...new Array<"u64">(handles).fill("u64"),
      ...new Array<"pointer">(numbers).fill("pointer"),
    ],
    result: "pointer" as const,
    optional: true as const,
  });
  const plain = Object.entries(functions).map((
    [key, { symbol, tensors, numbers }],
  ) => [key, one(symbol, 1 + tensors, numbers.length)]);
  const written = Object.entries(into).map(([key, symbol]) => {
    const { tensors, numbers } = functions[plainOf(key as Written)];
    return [key, one(symbol, tensors, numbers.length)];
  });
  // A C++ object is returned through a register that this call sets on x86-64 only.
  const all = Object.fromEntries(Deno.build.arch === "x86_64" ? [...plain, ...written] : written);
  const { symbols } = Deno.dlopen(`${openedLibtorch().dir}/libtorch_cpu.so`, all);
  return Object.fromEntries(
    [...Object.keys(functions), ...Object.keys(into)].map((key) => [
      key,
      (symbols as Record<string, Native | null>)[key] ?? null,
    ]),
  );
}

/** "add_.Tensor" -> "add.Tensor": the function whose result is not written in place. */
const plainOf = (key: Written): Plain => key.replace(/_(?=\.|$)/, "") as Plain;

const functionOf = (key: Written) => functions[plainOf(key)].numbers;

// c10::Scalar: a tag (0 for a double, 1 for an integer) and, aligned to 16 bytes, the value.
const scalars = Array.from({ length: 3 }, () => {
  const memory = new ArrayBuffer(32);
  return {
    tag: new Int32Array(memory),
    int: new BigInt64Array(memory),
    float: new Float64Array(memory),
    at: Deno.UnsafePointer.of(new Uint8Array(memory)),
  };
});

function scalarAt(slot: number, n: Number_ | undefined | null, otherwise: number): Deno.PointerValue {
  const s = scalars[slot], value = n?.value ?? otherwise;
  const whole = n ? n.kind !== "float" : Number.isInteger(otherwise);
  s.tag[0] = whole ? 1 : 0;
  if (whole) s.int[2] = BigInt(value);
  else s.float[2] = value;
  return s.at;
}

const MANY = 1 << 18;
const plainTypes = new Set(["u8", "i8", "i16", "i32", "i64", "f16", "f32", "f64", "bf16"]);

/** Shapes stretched over each other; null where they don't fit. */
export function broadcast(a: readonly number[], b: readonly number[]): number[] | null {
  const length = Math.max(a.length, b.length), shape = new Array<number>(length);
  for (let i = 1; i <= length; i++) {
    const x = a[a.length - i] ?? 1, y = b[b.length - i] ?? 1;
    if (x !== y && x !== 1 && y !== 1) return null;
    shape[length - i] = x === 1 ? y : x;
  }
  return shape;
}

/** The result's shape of an elementwise op, where nothing about these tensors can be refused; else null. */
function elementwise(tensors: readonly Tensor[]): readonly number[] | null {
  const [first] = tensors, dtype = first.dtype;
  if (!plainTypes.has(dtype)) return null;
  let shape: readonly number[] | null = first.shape;
  for (let i = 1; i < tensors.length; i++) {
    const t = tensors[i], type = t.dtype;
    if (type !== dtype && !(plainTypes.has(type) && t.shape.length === 0)) return null;
    if (t.device !== first.device && t.shape.length > 0) return null;
    const other = t.shape;
    if (same(shape, other)) continue;
    shape = broadcast(shape, other);
    if (shape === null) return null;
  }
  return shape;
}

function same(a: readonly number[], b: readonly number[]): boolean {
  if (a.length !== b.length) return false;
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false;
  return true;
}

/** Asks for as much memory as the result takes, where asking may fail. */
function askForMemory(shape: readonly number[], like: Tensor): void {
  let count = 1;
  for (const size of shape) count *= size;
  if (count > MANY) scope(() => empty(shape, like.dtype, null, like.device));
}

function products(key: Plain, [c, a, b]: readonly Tensor[]): readonly number[] | null {
  const rank = key === "addmm" ? 2 : 3;
  const fits = isFloating(a.dtype) && a.dtype === b.dtype && a.dtype === c.dtype && a.device === b.device &&
    a.device === c.device && a.shape.length === rank && b.shape.length === rank &&
    a.shape[rank - 1] === b.shape[rank - 2] && (rank === 2 || a.shape[0] === b.shape[0]);
  if (!fits) return null;
  const shape = [...a.shape.slice(0, rank - 1), b.shape[rank - 1]];
  const stretched = broadcast(c.shape, shape);
  return stretched && same(stretched, shape) ? shape : null;
}

function refused(key: string, tensors: readonly Tensor[]): never {
  throw new NativeError(
    key,
    tensors.map(describe).join(", "),
    "these types or shapes do not go together in this op (it has no way here that could say more)",
  );
}

function call(key: Plain, fn: Native, args: readonly unknown[]): Tensor {
  const { tensors: count, numbers } = functions[key];
  const tensors = args.slice(0, count) as Tensor[];
  const shape = key === "addmm" || key === "baddbmm" ? products(key, tensors) : elementwise(tensors);
  if (shape === null || (key !== "pow.Tensor_Scalar" && !isFloating(tensors[0].dtype))) refused(key, tensors);
  const given = numbers.map((otherwise, i) => scalarAt(i, args[count + i] as Number_ | undefined, otherwise));
  const exponent = args[1] as Number_;
  if (key === "pow.Tensor_Scalar" && !isFloating(tensors[0].dtype) && exponent.value < 0) {
    refused(key, tensors);
  }
  askForMemory(shape, tensors[0]);
  const handle = native.operatorNew(8n);
  fn(handle, ...tensors.map((t) => t.h), ...given);
  return new Tensor(handle);
}

function write(key: Written, fn: Native, args: readonly unknown[]): Tensor {
  const target = args[0] as Tensor;
  if (!isFloating(target.dtype) || repeats(target)) refused(key, [target]);
  if (target.numel > MANY) emptyLike(target).free();
  fn(target.h, ...functionOf(key).map((n, i) => scalarAt(i, args[1 + i] as Number_ | undefined, n)));
  return target;
}

/** More than one element in one place of memory: nothing can be written there. */
const repeats = (t: Tensor): boolean =>
  !t.contiguous && t.strides.some((stride, i) => stride === 0 && t.shape[i] > 1);

/** Whether memory that is written is read through another view. */
function overlap(a: Tensor, b: Tensor): boolean {
  const [from, to] = extent(a), [first, last] = extent(b);
  if (to <= first || last <= from) return false;
  return from !== first || !same(a.shape, b.shape) || !same(a.strides, b.strides);
}

function extent(t: Tensor): [bigint, bigint] {
  native.dataPointer(t.h, outAt);
  const from = out[0];
  if (t.contiguous) return [from, from + BigInt(t.byteLength)];
  const { shape, strides } = t;
  const last = shape.reduce((sum, size, i) => sum + (size - 1) * strides[i], 0);
  return [from, from + BigInt((last + 1) * dtypeBytes(t.dtype))];
}

export const unboxedCall = {
  /** a + alpha * b; null where another way must be taken. */
  add(a: Tensor, b: Tensor, alpha?: Number_): Tensor | null {
    const fn = bind("add.Tensor");
    if (!fn) return null;
    if (a.h === 0n || b.h === 0n) return null; // the other way says so
    const shape = elementwise([a, b]);
    if (shape === null || (alpha?.kind === "float" && !isFloating(a.dtype))) return null;
    askForMemory(shape, a);
    const handle = native.operatorNew(8n);
    fn(handle, a.h, b.h, scalarAt(0, alpha, 1));
    return new Tensor(handle);
  },
  /** a += alpha * b; null where another way must be taken. `a` is no leaf that asks for a gradient. */
  addInto(a: Tensor, b: Tensor, alpha?: Number_): Tensor | null {
    const fn = bind("add_.Tensor");
    if (!fn || a.h === 0n || b.h === 0n) return null;
    const shape = elementwise([a, b]);
    if (shape === null || !same(shape, a.shape) || repeats(a) || overlap(a, b)) return null;
    if (!isFloating(a.dtype) && (isFloating(b.dtype) || alpha?.kind === "float")) return null;
    if (a.numel > MANY) emptyLike(a).free(); // autograd may keep a copy
    fn(a.h, b.h, scalarAt(0, alpha, 1));
    return a;
  },
  /** Another op of the table, or null. */
  of(key: string): ((...args: unknown[]) => unknown) | null {
    if (Object.hasOwn(functions, key)) {
      const fn = bind(key as Plain);
      return fn && ((...args) => call(key as Plain, fn, args));
    }
    if (Object.hasOwn(into, key)) {
      const fn = bind(key as Written);
      return fn && ((...args) => write(key as Written, fn, args));
    }
    return null;
  },
};
