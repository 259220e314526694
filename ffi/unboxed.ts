// The C++ functions at::_ops::NAME_::call, of ops in place whose numbers have no other exact way (guarded.ts has the others:
// those give a result). No exception may cross such a call, because it would end the process: so only plain types and fitting
// shapes on a CPU are let through, and memory is asked for first, in a call that may fail.
import { native, out, outAt } from "./abi.ts";
import { type DType, dtypeBytes, isFloating } from "./dtype.ts";
import { NativeError } from "./errors.ts";
import { openedLibtorch } from "./library.ts";
import { emptyLike } from "./ops.ts";
import type { Num } from "./scalar_numbers.ts";
import { describe, type Tensor } from "./tensor.ts";

/** Seen in 2.10.0 and 2.15.0; each with what its numbers are by default. */
const functions = {
  "add_.Tensor": { symbol: "_ZN2at4_ops11add__Tensor4callERNS_6TensorERKS2_RKN3c106ScalarE", numbers: [1] },
  leaky_relu_: { symbol: "_ZN2at4_ops11leaky_relu_4callERNS_6TensorERKN3c106ScalarE", numbers: [0.01] },
  elu_: { symbol: "_ZN2at4_ops4elu_4callERNS_6TensorERKN3c106ScalarES7_S7_", numbers: [1, 1, 1] },
  hardtanh_: { symbol: "_ZN2at4_ops9hardtanh_4callERNS_6TensorERKN3c106ScalarES7_", numbers: [-1, 1] },
  threshold_: { symbol: "_ZN2at4_ops10threshold_4callERNS_6TensorERKN3c106ScalarES7_", numbers: [NaN, NaN] },
} as const;

const ADD = "add_.Tensor";

type Key = keyof typeof functions;
type Native = (...args: (bigint | Deno.PointerValue)[]) => unknown;

let bound: Readonly<Record<string, Native | null>> | undefined;

function bind(key: Key): Native | null {
  return (bound ??= openAll())[key];
}

function openAll(): Readonly<Record<string, Native | null>> {
  const all = Object.fromEntries(
    Object.entries(functions).map(([key, { symbol, numbers }]) => {
      const handles = key === ADD ? ["u64", "u64"] as const : ["u64"] as const;
      const parameters = [...handles, ...numbers.map(() => "pointer" as const)];
      return [key, { name: symbol, parameters, result: "pointer" as const, optional: true as const }];
    }),
  );
  const { symbols } = Deno.dlopen(`${openedLibtorch().dir}/libtorch_cpu.so`, all);
  return symbols as Readonly<Record<string, Native | null>>;
}

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

function scalarAt(slot: number, n: Num | undefined | null, otherwise: number): Deno.PointerValue {
  const s = scalars[slot], value = n?.value ?? otherwise;
  const whole = n ? n.kind !== "float" : Number.isInteger(otherwise);
  s.tag[0] = whole ? 1 : 0;
  if (whole) s.int[2] = BigInt(value);
  else s.float[2] = value;
  return s.at;
}

/** The largest that a type holds: a number beyond that is refused by an exception. What is not finite is no such case. */
const LARGEST: Readonly<Record<string, number>> = {
  ...{ u8: 255, i8: 127, i16: 32767, i32: 2 ** 31 - 1, i64: Number.MAX_SAFE_INTEGER },
  ...{ f16: 65504, bf16: 3.3895e38, f32: 3.4028e38, f64: Infinity },
};

function holds(dtype: DType, n: Num | undefined | null, otherwise: number): boolean {
  const value = n?.value ?? otherwise;
  if (n?.imaginary !== undefined) return false;
  if (n && n.kind !== "float") return Number.isSafeInteger(value) && Math.abs(value) <= LARGEST[dtype];
  return !(Number.isFinite(value) && Math.abs(value) > LARGEST[dtype]);
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

/** a += alpha * b; null where another way must be taken. `a` is no leaf that asks for a gradient. */
export function addInto(a: Tensor, b: Tensor, alpha?: Num): Tensor | null {
  const fn = bind(ADD);
  if (!fn || a.h === 0n || b.h === 0n || a.device !== "cpu") return null;
  const shape = elementwise([a, b]);
  if (shape === null || !same(shape, a.shape) || repeats(a) || overlap(a, b)) return null;
  if (!isFloating(a.dtype) && (isFloating(b.dtype) || alpha?.kind === "float")) return null;
  if (alpha && !holds(a.dtype, alpha, 1)) return null;
  if (a.numel > MANY) emptyLike(a).free(); // autograd may keep a copy
  fn(a.h, b.h, scalarAt(0, alpha, 1));
  return a;
}

/** Another op of the table, for what it can't take itself by way of `otherwise`; null where there is none. */
export function unboxedInto(key: string, otherwise: Into | null): Into | null {
  if (!Object.hasOwn(functions, key)) return null;
  const { numbers } = functions[key as Key], fn = bind(key as Key);
  if (!fn || key === ADD) return null; // that one is called by addInto
  return ((target, ...given) => {
    const { dtype } = target;
    const plain = isFloating(dtype) && !repeats(target) && target.device === "cpu" &&
      numbers.every((n, i) => holds(dtype, given[i] as Num | undefined, n));
    if (!plain && otherwise) return otherwise(target, ...given);
    if (!plain) throw new NativeError(key, describe(target), "it can't be written to with these numbers");
    if (target.numel > MANY) emptyLike(target).free();
    fn(target.h, ...numbers.map((n, i) => scalarAt(i, given[i] as Num | undefined, n)));
    return target;
  });
}

export type Into = (target: Tensor, ...rest: unknown[]) => Tensor;
