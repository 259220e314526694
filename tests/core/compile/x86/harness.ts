// Runs kernels over memory that lies between pages which nobody may touch: a read or a write beside it ends the process.
import { native, outAt, outI64 } from "../../../../ffi/abi.ts";
import { type DType, dtypeCode } from "../../../../ffi/dtype.ts";
import { type CodeToLoad, loadCode, type MachineCode } from "../../../../ffi/machine_code.ts";
import { Tensor } from "../../../../ffi/tensor.ts";
import type { Isa } from "../../../../ffi/machine.ts";
import type { Kernel, SlotPlace, StridedAccess } from "../../../../core/compile/kernel.ts";
import { printCode, printFunctions } from "../../../../core/compile/x86/print.ts";

const libc = Deno.dlopen("libc.so.6", {
  mmap: { parameters: ["u64", "usize", "i32", "i32", "i32", "i64"], result: "u64" },
  mprotect: { parameters: ["u64", "usize", "i32"], result: "i32" },
}).symbols;

export type Data = Float32Array | BigInt64Array | Uint8Array;

const AREA = 8 << 20, PAGE = 4096;

interface Area {
  readonly address: bigint;
  readonly bytes: Uint8Array;
}
const areas: Area[] = [];

function area(i: number): Area {
  while (areas.length <= i) {
    const address = libc.mmap(0n, BigInt(AREA + 2 * PAGE), 0, 0x22, -1, 0n) + BigInt(PAGE);
    if (libc.mprotect(address, BigInt(AREA), 3) !== 0) throw new Error("no memory for tests");
    const buffer = Deno.UnsafePointerView.getArrayBuffer(Deno.UnsafePointer.create(address)!, AREA);
    areas.push({ address, bytes: new Uint8Array(buffer) });
  }
  return areas[i];
}

const dtypeOf = (data: Data): DType =>
  data instanceof Float32Array ? "f32" : data instanceof BigInt64Array ? "i64" : "bool";

/** The data in guarded memory. `atEnd`: its last byte is followed by a page that can't be touched. */
export function guarded(i: number, data: Data, atEnd: boolean): Area {
  const { address, bytes } = area(i);
  if (data.byteLength > AREA) throw new Error("too large for the guarded memory of tests");
  const begin = atEnd ? AREA - data.byteLength : 0;
  const view = bytes.subarray(begin, begin + data.byteLength);
  view.set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
  return { address: address + BigInt(begin), bytes: view };
}

function guardedTensor(i: number, data: Data, atEnd: boolean): { tensor: Tensor; bytes: Uint8Array } {
  const { address, bytes } = guarded(i, data, atEnd);
  const sizes = BigInt64Array.of(BigInt(data.length)), strides = BigInt64Array.of(1n);
  native.fromMemory(
    address,
    1n,
    new Uint8Array(sizes.buffer),
    new Uint8Array(strides.buffer),
    0n,
    dtypeCode(dtypeOf(data)),
    0,
    0,
    outAt,
  );
  return { tensor: new Tensor(BigInt.asUintN(64, outI64[0])), bytes };
}

export function load(code: CodeToLoad): MachineCode {
  const loaded = loadCode(code);
  if ("refused" in loaded) throw new Error(`no code: ${loaded.refused} ${loaded.name}`);
  return loaded;
}

/**
 * What the slots hold after the kernels have run: `slots` is left as it is. The same kernels at other places, whose code is
 * copied, must give the same.
 */
export function runKernels(
  kernels: readonly Kernel[],
  isa: Isa,
  slots: readonly Data[],
  atEnd = true,
  threads = 1,
): Data[] {
  const results = runCode(load(printCode(kernels, isa, slots.length, threads)), 0, slots, atEnd);
  const ahead = slots.map((_, i) => 1 + i % 5), begin = slots.length;
  const others = [
    ...slots,
    ...slots.map((data, i) => {
      const longer = new (data.constructor as Float32ArrayConstructor)(data.length + ahead[i]);
      longer.set(data as Float32Array, ahead[i]);
      return longer;
    }),
  ];
  const twice = [kernels, kernels.map((kernel) => elsewhere(kernel, begin, ahead))];
  const again = runCode(load(printFunctions(twice, isa, others.length, threads)), 1, others, atEnd);
  results.forEach((result, i) => {
    const bytes = new Uint8Array(again[begin + i].slice(ahead[i]).buffer);
    if (!new Uint8Array(result.buffer).every((byte, k) => byte === bytes[k])) {
      throw new Error(
        `The copy of ${kernels.map(({ name }) => name)} for other places gives another slot ${i}.`,
      );
    }
  });
  return results;
}

function runCode(code: MachineCode, entry: number, slots: readonly Data[], atEnd: boolean): Data[] {
  const memory = slots.map((data, i) => guardedTensor(i, data, atEnd));
  memory.forEach(({ tensor }, i) => code.setSlot(i, tensor));
  code.run(entry);
  code.free();
  return slots.map((data, i) => {
    memory[i].tensor.free();
    return copied(data, memory[i]);
  });
}

/** The same with slots from `begin` on, so many elements behind where they were. */
export function elsewhere<T>(value: T, begin: number, ahead: readonly number[]): T {
  if (Array.isArray(value)) return value.map((one) => elsewhere(one, begin, ahead)) as T;
  if (typeof value !== "object" || value === null) return value;
  const { slot, offset } = value as Partial<SlotPlace>;
  if (slot !== undefined && offset !== undefined) {
    return slot < 0 ? value : { ...value, slot: slot + begin, offset: offset + ahead[slot] };
  }
  const moved = Object.entries(value).map(([name, one]) => [name, elsewhere(one, begin, ahead)]);
  return Object.fromEntries(moved) as T;
}

/** What memory holds now, as the data that it was made of. */
export function copied(data: Data, { bytes }: Pick<Area, "bytes">): Data {
  const copy = bytes.slice();
  if (data instanceof Float32Array) return new Float32Array(copy.buffer);
  return data instanceof BigInt64Array ? new BigInt64Array(copy.buffer) : copy;
}

export const strided = (
  slot: number,
  strides: readonly number[],
  offset = 0,
  kind: StridedAccess["kind"] = "f32",
): StridedAccess => ({ slot, strides, offset, kind });

const flags = Deno.readTextFileSync("/proc/cpuinfo").match(/^flags.*$/m)?.[0].split(" ") ?? [];
export const ISAS: readonly Isa[] = flags.includes("avx512dq")
  ? ["avx512", "avx2"]
  : flags.includes("avx2") && flags.includes("fma")
  ? ["avx2"]
  : [];

// Its library stays open: opened by a test, it would count as left behind by it.
const RETURN = 0xc3;
load({
  bytes: Uint8Array.of(RETURN),
  entries: [0],
  constants: new Uint8Array(),
  constantsSlot: 0,
  scratchBytes: 0,
  symbols: [],
}).free();
