import { check, native, out, outAt, outF32, outI32, outI64 } from "./abi.ts";
import { aten } from "./aten.ts";
import { type DType, dtypeCode, opmathType } from "./dtype.ts";
import { NativeError } from "./errors.ts";
import {
  contiguous,
  empty,
  emptyLike,
  expand,
  mul,
  onesOp,
  stack,
  sumDim,
  toCopy,
  toDtype,
  zerosOp,
} from "./ops.ts";
import { askForHugePages, bytesAt, type MemoryBlock, zeroUntouched } from "./libc.ts";
import { parseSchema, type Schema } from "./schema.ts";
import { tape, unrecorded } from "./tape.ts";
import { alive, describe, type Device, keep, scope, Tensor } from "./tensor.ts";

/** Options of a new tensor. */
export interface Options {
  /** f32 by default. */
  dtype?: DType;
  /** The CPU by default. */
  device?: Device;
  /** Page-locked host memory: a copy to a GPU from it runs beside the computation. */
  pinned?: boolean;
}

/** A tensor of zeros of this shape, f32 on the CPU by default. */
export const zeros = (shape: readonly number[], o: Options = {}): Tensor =>
  zerosOp(shape, o.dtype ?? "f32", null, o.device ?? "cpu", o.pinned ? true : null);
/** A tensor of ones of this shape, f32 on the CPU by default. */
export const ones = (shape: readonly number[], o: Options = {}): Tensor =>
  onesOp(shape, o.dtype ?? "f32", null, o.device ?? "cpu", o.pinned ? true : null);
export const uninitialised = (shape: readonly number[], o: Options = {}): Tensor =>
  empty(shape, o.dtype ?? "f32", null, o.device ?? "cpu", o.pinned ? true : null);

/** Typed arrays for a new tensor; each gives its own data type. */
export type Numbers =
  | Float32Array
  | Float64Array
  | Int8Array
  | Int16Array
  | Int32Array
  | Uint8Array
  | Uint16Array
  | Uint32Array
  | BigInt64Array
  | BigUint64Array;

const dtypeOfArray = new Map<unknown, DType>([
  [Float32Array, "f32"],
  [Float64Array, "f64"],
  [Int8Array, "i8"],
  [Int16Array, "i16"],
  [Int32Array, "i32"],
  [Uint8Array, "u8"],
  [Uint16Array, "u16"],
  [Uint32Array, "u32"],
  [BigInt64Array, "i64"],
  [BigUint64Array, "u64"],
]);

/** Numbers in rows, and rows in rows: [[1, 2], [3, 4]]. */
export type Nested = readonly (number | Nested)[];

/** A tensor with these numbers, copied. By default plain arrays become f32, nested ones with their shape. */
export function tensor(values: Numbers | Nested, shape?: readonly number[] | null, o: Options = {}): Tensor {
  const rows = Array.isArray(values) ? shapeOf(values) : null;
  const typed = rows ? Float32Array.from((values as number[]).flat(Infinity) as number[]) : values as Numbers;
  const dtype = dtypeOfArray.get(typed.constructor);
  if (dtype === undefined) throw new Error(`internal: no data type for a ${typed.constructor.name}.`);
  const made = uninitialised(shape ?? rows ?? [typed.length], { dtype });
  writeBytes(made, new Uint8Array(typed.buffer, typed.byteOffset, typed.byteLength));
  if (Object.keys(o).length === 0) return made;
  const placed = toCopy(made, o.dtype ?? dtype, null, o.device ?? "cpu", o.pinned ? true : null);
  made.free();
  return placed;
}

function shapeOf(rows: Nested): number[] {
  if (!Array.isArray(rows[0])) return [rows.length];
  const inner = shapeOf(rows[0]);
  for (const row of rows) {
    if (Array.isArray(row) && String(shapeOf(row)) === String(inner)) continue;
    throw new NativeError("tensor", "", "its rows have different lengths");
  }
  return [rows.length, ...inner];
}

/** A 0-dim tensor. */
export function scalar(value: number, dtype: DType = "f32", device: Device = "cpu"): Tensor {
  return fill_(uninitialised([], { dtype, device }), value);
}

/** The same bytes as numbers of another type. */
export const viewDtype = aten("view.dtype(Tensor(a) self, ScalarType dtype) -> Tensor(a)");

let absent: Tensor | null = null;

/** Stands where an op wants a tensor and there is none. It has no shape. */
export function absentTensor(): Tensor {
  if (absent === null) {
    check(native.newAbsent(outAt), "absentTensor");
    absent = keep(new Tensor(out[0]));
  }
  return absent;
}

/** Fills the tensor with one number. */
export function fill_(t: Tensor, value: number): Tensor {
  check(native.fill(alive(t, "fill_"), value), "fill_", () => describe(t));
  tape.recorder?.op(FILL, [t, value], t);
  return t;
}
export function zero_(t: Tensor): Tensor {
  check(native.zero(alive(t, "zero_")), "zero_");
  tape.recorder?.op(FILL, [t, 0], t);
  return t;
}

/** Copies raw bytes into a contiguous CPU tensor. */
export function writeBytes(t: Tensor, bytes: Uint8Array, offset = 0): void {
  if (offset + bytes.length > t.byteLength || !t.contiguous || t.device !== "cpu") {
    throw new Error(
      `internal: ${bytes.length} bytes at ${offset} don't fit a contiguous CPU ${describe(t)}.`,
    );
  }
  if (bytes.length === 0) return;
  native.copyFromBuffer(address(t) + BigInt(offset), bytes as Uint8Array<ArrayBuffer>, BigInt(bytes.length));
}

/** The tensor's bytes, copied, in row-major order; from any device. */
export function readBytes(t: Tensor): Uint8Array<ArrayBuffer> {
  return scope(() => {
    const host = t.device === "cpu" ? t : toDevice(t, "cpu");
    const dense = host.contiguous ? host : contiguous(host);
    const bytes = new Uint8Array(dense.byteLength);
    if (bytes.length > 0) native.copyToBuffer(bytes, address(dense), BigInt(bytes.length));
    return bytes;
  });
}

/**
 * Copies a tensor's numbers into those of `to` from its i-th of as many on, where both stay, dense on the host and of one type:
 * that is a copy of memory, and takes a tenth of what an op does. Elsewhere it does nothing, and returns false.
 */
export function copiesMemory(to: Tensor, from: Tensor, i = 0): boolean {
  if (tape.recorder !== null) return false;
  const a = to.host, b = from.host;
  if (a === null || b === null || a.dtype !== b.dtype) return false;
  const begin = i === 0 ? 0n : BigInt(i) * b.bytes;
  if (begin + b.bytes > a.bytes) return false;
  native.copyWord(a.at + begin, b.at, b.bytes);
  return true;
}

/** The number of a tensor of one f32 that stays on the host, read without an op; null of another. */
export function numberIn(t: Tensor): number | null {
  if (tape.recorder !== null) return null;
  const { host } = t;
  if (host === null || host.dtype !== "f32" || host.bytes !== 4n) return null;
  native.copyIn(outAt, host.at, 4n);
  return outF32[0];
}

/** Copies f32 numbers on the host, in row-major order; false of others, or of more than there is room for. */
export function copyNumbers(to: Float32Array<ArrayBuffer>, t: Tensor): boolean {
  if (tape.recorder !== null || t.device !== "cpu" || t.dtype !== "f32" || t.byteLength > to.byteLength) {
    return false;
  }
  if (t.host === null) return scope(() => copyNumbers(to, contiguous(t)));
  native.copyToBuffer(to, t.host.at, t.host.bytes);
  return true;
}

/** A window on the tensor's own memory, without a copy. Valid only while the tensor lives; contiguous CPU only. */
export function borrowBytes(t: Tensor): Uint8Array<ArrayBuffer> {
  if (!t.contiguous || t.device !== "cpu") throw new Error(`internal: borrowBytes of ${describe(t)}.`);
  return bytesAt({ address: address(t), bytes: t.byteLength });
}

/** The memory of a contiguous CPU tensor, for another thread; keep the tensor for as long as that uses it. */
export function memoryBlockOf(t: Tensor): MemoryBlock {
  if (!t.contiguous || t.device !== "cpu") throw new Error(`internal: placeOf ${describe(t)}.`);
  return { address: address(t), bytes: t.byteLength };
}

/** A tensor's first number lies there. */
export const beginOf = (t: Tensor): bigint => address(t);

/**
 * The memory of a contiguous tensor on its own device; keep the tensor for as long as the address is used.
 */
export function addressOf(t: Tensor): bigint {
  if (!t.contiguous) throw new Error(`internal: addressOf ${describe(t)}.`);
  return address(t);
}

/** Wraps memory that is not libtorch's own, as f32 in one dimension; it must outlive the tensor. */
export function tensorAt(address: bigint, elements: number): Tensor {
  const sizes = BigInt64Array.of(BigInt(elements)), strides = BigInt64Array.of(1n);
  check(native.fromMemory(address, 1n, sizes, strides, 0n, dtypeCode("f32"), 0, 0, outAt), "fromMemory");
  return new Tensor(out[0]);
}

/** All values as numbers, in row-major order. */
export function toNumbers(t: Tensor): Float64Array {
  if (t.kept && t.host?.dtype === "f64") return new Float64Array(readBytes(t).buffer);
  return scope(() => new Float64Array(readBytes(toCopy(t, "f64", null, "cpu")).buffer));
}
/** All values of an integer tensor, exactly. */
export function toBigInts(t: Tensor): BigInt64Array {
  return scope(() => new BigInt64Array(readBytes(toCopy(t, "i64", null, "cpu")).buffer));
}

/** A copy on this device. */
export function toDevice(t: Tensor, device: Device, nonBlocking = false): Tensor {
  return toCopy(t, null, null, device, null, nonBlocking);
}

/** Made once on each device that it is asked for on, and kept there. */
export function onEachDevice(make: () => Tensor): (device: Device) => Tensor {
  const made = new Map<Device, Tensor>();
  return (device) => {
    const there = made.get(device) ?? unrecorded(() => keep(scope(() => toDevice(make(), device))));
    made.set(device, there);
    tape.recorder?.constant(there);
    return there;
  };
}

/** A row of numbers of this type, made once on each device. */
export const constantRow = (values: readonly number[], dtype: "f32" | "f64", shape?: readonly number[]) =>
  onEachDevice(() => tensor((dtype === "f64" ? Float64Array : Float32Array).from(values), shape));

/** The same, of the type that what it meets is computed in. */
export function constantRowBeside(values: readonly number[], shape?: readonly number[]) {
  const rows = { f32: constantRow(values, "f32", shape), f64: constantRow(values, "f64", shape) };
  return ({ dtype, device }: Pick<Tensor, "dtype" | "device">): Tensor => rows[opmathType(dtype)](device);
}

function address(t: Tensor): bigint {
  tape.recorder?.refuse("data", "reads");
  check(native.dataPointer(alive(t, "data"), outAt), "data");
  return out[0];
}

// c10::Scalar{tag = HAS_i, v.i = 1}: the alpha of add, laid out by hand. The union is aligned to 16 bytes.
const one = new BigInt64Array(new ArrayBuffer(32));
one[0] = 1n;
one[2] = 1n;
const oneAt = Deno.UnsafePointer.of(one);

/** From this many elements on, memory may be short: asking for it in a call that may fail finds that out. */
const MANY = 1n << 18n;

/** a + b. */
export function add(a: Tensor, b: Tensor): Tensor {
  const ha = alive(a, "add"), hb = alive(b, "add");
  if (native.addUnboxed && plainOperands(ha, hb)) {
    // Equal shapes and types on the host, and room for the result: nothing can be refused, so no C++
    // exception can cross this call, which would end the process. The result is written into a fresh handle,
    // a C++ object of one pointer.
    native.numel(ha, outAt);
    if (outI64[0] > MANY) emptyLike(a).free();
    const handle = native.operatorNew(8n);
    native.addUnboxed(handle, ha, hb, oneAt);
    return recorded(ADD, a, b, 1, new Tensor(handle));
  }
  if (whole(ha) && whole(hb)) return addWhole(a, b, 1);
  check(native.subtract(ha, hb, -1, outAt), "add", () => `${describe(a)}, ${describe(b)}`);
  return recorded(ADD, a, b, 1, new Tensor(out[0]));
}

/** a - scale * b. */
export function sub(a: Tensor, b: Tensor, scale = 1): Tensor {
  const ha = alive(a, "sub"), hb = alive(b, "sub");
  if (whole(ha) && whole(hb)) return addWhole(a, b, -scale);
  check(native.subtract(ha, hb, scale, outAt), "sub", () => `${describe(a)}, ${describe(b)}`);
  return recorded(SUB, a, b, scale, new Tensor(out[0]));
}

const ADD = parseSchema("add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor");
const SUB = parseSchema("sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor");
const FILL = parseSchema("fill_.Scalar(Tensor(a!) self, Scalar value) -> Tensor(a!)");

function recorded(schema: Schema, a: Tensor, b: Tensor, scale: number, made: Tensor): Tensor {
  if (tape.recorder !== null) tape.recorder.op(schema, [a, b, scale], made);
  return made;
}

const LAST_WHOLE = 4, BOOL = 11; // c10::ScalarType: u8, i8, i16, i32, i64

function whole(handle: bigint): boolean {
  native.dtype(handle, outAt);
  return outI32[0] <= LAST_WHOLE || outI32[0] === BOOL;
}

/** libtorch takes only a whole factor for whole numbers, not even 1.0. */
function addWhole(a: Tensor, b: Tensor, factor: number): Tensor {
  return scope(() => {
    const { shape, dtype } = mul(a, b); // as they stretch, in the type that holds both
    const terms = [a, factor === 1 ? b : mul(b, constant(factor, dtype, b.device))];
    return sumDim(stack(terms.map((t) => expand(toCopy(t, dtype), shape))), [0], false, dtype);
  });
}

const BF16 = 15, LAST_PLAIN = 11; // c10::ScalarType: beyond are quantised types and the wider unsigned, which have no add

function plainOperands(a: bigint, b: bigint): boolean {
  native.dtype(a, outAt);
  const dtype = outI32[0];
  if (dtype > LAST_PLAIN && dtype !== BF16) return false;
  native.dtype(b, outAt);
  if (outI32[0] !== dtype) return false;
  native.deviceType(a, outAt);
  if (outI32[0] !== 0) return false;
  native.deviceType(b, outAt);
  if (outI32[0] !== 0) return false;
  native.dim(a, outAt);
  const dim = out[0];
  native.dim(b, outAt);
  if (out[0] !== dim) return false;
  for (let i = 0n; i < dim; i++) {
    native.size(a, i, outAt);
    const size = out[0];
    native.size(b, i, outAt);
    if (out[0] !== size) return false;
  }
  return true;
}

const constants = new Map<string, Tensor>();

/** Numbers that change from step to step would fill memory: later ones belong to their scope. */
const CONSTANTS = 4096;

/** A 0-dim constant for ops that want a tensor, made once per value, data type and device, never freed. */
export function constant(value: number, dtype: DType = "f32", device: Device = "cpu"): Tensor {
  const key = `${value} ${dtype} ${device}`;
  let made = constants.get(key);
  if (made === undefined) {
    made = unrecorded(() => scalar(value, dtype, device));
    if (constants.size < CONSTANTS) constants.set(key, keep(made));
  }
  if (tape.recorder !== null) tape.recorder.number(made, value);
  return made;
}

/** In the type that losses are computed in; what has it stays as it is. */
export function upcast(x: Tensor): Tensor {
  const { dtype } = x, wide = opmathType(dtype);
  return dtype === wide ? x : toDtype(x, wide);
}

/** x * factor. */
export const scale = (x: Tensor, factor: number): Tensor =>
  mul(x, constant(factor, x.dtype === "f64" ? "f64" : "f32", x.device));

// Tensors that live as long as the run are in large pages, where the machine has some. Their first write
// takes a third of the time, because a page is given out for 2 MiB and not for 4 KiB.

/** Below this a large page would be mostly empty. */
const LARGE = 8 << 20;

export function longLivedUninitialised(shape: readonly number[], o: Options = {}): Tensor {
  const made = uninitialised(shape, o);
  if (made.device === "cpu" && made.byteLength >= LARGE) askForHugePages(memoryBlockOf(made));
  return made;
}

/** Many zeros take no memory until they are written. */
export function longLivedZeros(shape: readonly number[], o: Options = {}): Tensor {
  const made = longLivedUninitialised(shape, o);
  const large = made.device === "cpu" && made.byteLength >= LARGE && tape.recorder === null;
  return large && zeroUntouched(memoryBlockOf(made)) ? made : zero_(made);
}
