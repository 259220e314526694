// Which products of our own have the bits of libtorch's sgemm_ on this machine. Its order of a sum depends on the
// processor and on shapes, never on numbers, so each shape is tried once: both compute the same product of numbers that
// round everywhere, and ours is used where every bit is equal.
import { borrowBytes, uninitialised } from "../../ffi/make.ts";
import { loadCode } from "../../ffi/machine_code.ts";
import { scope, type Tensor } from "../../ffi/tensor.ts";
import type { BlasKernel, GemmKernel, Isa, Kernel, Walk } from "./kernel.ts";
import { prefersOwnGemm } from "./x86/gemm.ts";
import { printCode } from "./x86/print.ts";

/** The length of sgemm_'s sums for the product that both kernels are; null where ours has other bits. */
export type ChainOf = (theirs: BlasKernel, ours: GemmKernel) => number | null;

/** It cuts sums over k into parts of such a length: 192 with AVX2, 384 with AVX-512. Up to twice as many are halved. */
const LENGTHS = [192, 384, 256, 336];
/** More numbers are not tried: sgemm_ does well with large products. */
const MOST = 1 << 23;

const known = new Map<string, number | null>();

export const chainOn = (isa: Isa, threads: number): ChainOf => (theirs, ours) => {
  const { m, n, k, a, b, add } = ours;
  if (m === 1 || n === 1) return null; // sums of a vector's product may depend on where it lies
  if (!prefersOwnGemm(isa, m, n, k) || m * n + m * k + k * n > MOST) return null;
  const key = [isa, threads, m, n, k, add, a.strides, b.strides, theirs.transA, theirs.transB].join();
  let chain = known.get(key);
  if (chain === undefined) known.set(key, chain = scope(() => tried(theirs, ours, isa, threads)));
  return chain;
};

function tried(theirs: BlasKernel, ours: GemmKernel, isa: Isa, threads: number): number | null {
  const size = ({ strides }: Walk, ...shape: number[]) =>
    shape.reduce((all, count, i) => all + (count - 1) * strides[i], 1);
  const { m, n, k } = ours;
  const a = numbers(size(ours.a, m, k), 0), b = numbers(size(ours.b, k, n), 1);
  const run = (kernel: Kernel): Int32Array | null => {
    const c = numbers(m * n, 2), code = loadCode(printCode([kernel], isa, 3, threads));
    if ("refused" in code) return null;
    [a, b, c].forEach((tensor, slot) => code.setSlot(slot, tensor));
    code.run();
    code.free();
    return bitsOf(c);
  };
  const at = <P extends { readonly slot: number; readonly offset: number }>(place: P, slot: number): P => ({
    ...place,
    slot,
    offset: 0,
  });
  const swapped = n > 1; // its columns are our rows (blas.ts)
  const expected = run({
    ...theirs,
    ...{ a: at(theirs.a, swapped ? 1 : 0), b: at(theirs.b, swapped ? 0 : 1), c: at(theirs.c, 2) },
  });
  for (const chain of expected === null ? [] : new Set(LENGTHS.map((length) => chainOfLength(length, k)))) {
    const own = { a: at(ours.a, 0), b: at(ours.b, 1), c: at(ours.c, 2) };
    const found = run({ ...ours, ...own, epilogue: null, chain });
    if (found?.every((bits, i) => bits === expected![i])) return chain;
  }
  return null;
}

const chainOfLength = (length: number, k: number): number =>
  k <= length ? k : k < 2 * length ? Math.floor(k / 2) : length;

function numbers(count: number, seed: number): Tensor {
  const t = uninitialised([count]), bytes = borrowBytes(t);
  const values = new Float32Array(bytes.buffer, bytes.byteOffset, count);
  let state = seed + 1;
  for (let i = 0; i < count; i++) {
    state = Math.imul(state, 1664525) + 1013904223 | 0;
    values[i] = (state >> 7) / 2 ** 24;
  }
  return t;
}

function bitsOf(t: Tensor): Int32Array {
  const bytes = borrowBytes(t);
  return new Int32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4);
}
