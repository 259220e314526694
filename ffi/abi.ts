// The calling convention of libtorch's C interface: one stack of 64-bit values, lists, strings, boxes for
// optionals, error texts. Nothing here allocates per call.
import { NativeError } from "./errors.ts";
import type { Bound } from "./library.ts";

/** library.ts fills it, and puts stand-ins where an old libtorch lacks a verb. */
export type Native = { -readonly [K in keyof Bound]: Bound[K] };

/** Generated code may hold it before library.ts fills it. */
export const native = {} as Native;

const slots = 64;
const memory = new ArrayBuffer(8 * slots);
/** Three views of one memory. Arguments go in, results come out at 0. */
export const callStack = new BigUint64Array(memory);
export const stackF64 = new Float64Array(memory);
export const stackI64 = new BigInt64Array(memory);
export const stackI32 = new Int32Array(memory);
export const slotPointers: Deno.PointerValue[] = Array.from(
  { length: slots },
  (_, i) => Deno.UnsafePointer.of(new Uint8Array(memory, i * 8)),
);

const outMemory = new ArrayBuffer(8);
export const out = new BigUint64Array(outMemory);
export const outF64 = new Float64Array(outMemory);
export const outF32 = new Float32Array(outMemory);
export const outI64 = new BigInt64Array(outMemory);
export const outI32 = new Int32Array(outMemory);
export const outAt = Deno.UnsafePointer.of(new Uint8Array(outMemory));

const encoder = new TextEncoder();
const pinned: Uint8Array[] = [];

export function constantString(text: string): { at: Deno.PointerValue; length: bigint } {
  const bytes = encoder.encode(text + "\0");
  const held = new Uint8Array(new ArrayBuffer(bytes.length));
  held.set(bytes);
  pinned.push(held);
  return { at: Deno.UnsafePointer.of(held), length: BigInt(bytes.length - 1) };
}

const strings = new Map<string, { at: Deno.PointerValue; length: bigint }>();

/** The few distinct texts (names of modes) are encoded once. */
export function newString(text: string): bigint {
  let held = strings.get(text);
  if (held === undefined) strings.set(text, held = constantString(text));
  check(native.newString(held.at, held.length, outAt), "string");
  return out[0];
}

/** Optional arguments are passed in a heap box of 8 bytes; the callee frees it. */
export function box(value: bigint): bigint {
  check(native.newBox!(outAt), "optional");
  const address = out[0];
  out[0] = value;
  native.copyOut(address, outAt, 8n);
  return address;
}

const LOW_32 = 0xffffffff;

/** The call that receives the list owns it. */
export function intList(values: readonly number[]): bigint {
  check(native.newList(BigInt(values.length), outAt), "list");
  const list = out[0];
  for (let i = 0; i < values.length; i++) {
    const value = values[i];
    if ((value | 0) === value) {
      outI32[0] = value & LOW_32;
      outI32[1] = value >> 31;
    } else outI64[0] = BigInt(value);
    native.pushList(list, out[0]);
  }
  return list;
}

export function floatList(values: readonly number[]): bigint {
  check(native.newList(BigInt(values.length), outAt), "list");
  const list = out[0];
  for (const value of values) {
    outF64[0] = value;
    native.pushList(list, out[0]);
  }
  return list;
}

export function boolList(values: readonly boolean[]): bigint {
  check(native.newList(BigInt(values.length), outAt), "list");
  const list = out[0];
  for (const value of values) native.pushList(list, value ? 1n : 0n);
  return list;
}

/** library.ts replaces it for versions before 2.13. */
export const errorText = {
  around<F extends (...args: never[]) => unknown>(call: F): F {
    return call;
  },
  read(): string {
    const at = native.errorText?.();
    return at ? new Deno.UnsafePointerView(at).getCString() : "libtorch gave no reason";
  },
};

/** The first line is the reason; a C++ backtrace follows. */
export function firstLine(text: string): string {
  const line = text.split("\n").map((l) => l.trim()).find((l) => l !== "") ?? "libtorch gave no reason";
  return line.replace(/^(Error|RuntimeError|Exception in aoti_torch):\s*/i, "");
}

export function check(code: number, op: string, operands?: () => string): void {
  if (code !== 0) throw new NativeError(op, operands?.() ?? "", firstLine(errorText.read()));
}
