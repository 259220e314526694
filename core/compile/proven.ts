// Some products of our own have the bits of libtorch's sgemm_ on this machine. Its order of a sum depends on the
// processor and on shapes, never on numbers, so each shape is tried once: both compute the same product of numbers that
// round everywhere, and ours is used where every bit is equal.
import { returnFreedMemory, sameMemory } from "../../ffi/libc.ts";
import { borrowBytes, memoryBlockOf, readBytes, tensor, uninitialised } from "../../ffi/make.ts";
import { loadCode } from "../../ffi/machine_code.ts";
import { mul } from "../../ffi/ops.ts";
import { scope, type Tensor } from "../../ffi/tensor.ts";
import type { Isa } from "../../ffi/machine.ts";
import type { BlasKernel, GemmKernel, Kernel, StridedAccess } from "./kernel.ts";
import { prefersOwnGemm } from "./x86/gemm.ts";
import { printCode } from "./x86/print.ts";

/** The length of sgemm_'s sums for the product that both kernels are; null where ours has other bits. */
type ChainOf = (theirs: BlasKernel, ours: GemmKernel) => number | null;

/** It cuts sums over k into parts of such a length: 192 with AVX2, 384 with AVX-512. Up to twice as many are halved. */
const LENGTHS = [192, 384, 256, 336];
/** More numbers are not tried: sgemm_ does well with large products. */
const MOST = 1 << 23;

/** Bytes of matrices that are worth the time of giving them back. */
const MUCH = 4 << 20;

/** Matrices begin so many elements behind the begin of a cache line: sums that change with it are not ours. */
const SHIFTS = [0, 5];

const known = new Map<string, number | null>();

export const chainOn = (isa: Isa, threads: number): ChainOf => (theirs, ours) => {
  const { m, n, k, a, b, add } = ours;
  if (m === 1 || n === 1) return null; // sums of a vector's product may depend on where it lies
  if (!prefersOwnGemm(isa, m, n, k) || m * n + m * k + k * n > MOST) return null;
  const key = [isa, threads, m, n, k, add, a.strides, b.strides, theirs.transA, theirs.transB].join();
  let chain = known.get(key);
  if (chain === undefined) {
    known.set(key, chain = scope(() => tried(theirs, ours, isa, threads)));
    if (F32 * (m * n + m * k + k * n) > MUCH) returnFreedMemory(); // the next shape's numbers would lie beside this one's
  }
  return chain;
};

/** The length that had the last product's bits is tried first: it depends on the processor. */
let likely = LENGTHS[0];

function tried(theirs: BlasKernel, ours: GemmKernel, isa: Isa, threads: number): number | null {
  const { m, n, k } = ours;
  const size = ({ strides }: StridedAccess, rows: number, columns: number) =>
    (rows - 1) * strides[0] + (columns - 1) * strides[1] + 1;
  const spare = Math.max(...SHIFTS);
  const a = trialNumbers(size(ours.a, m, k) + spare, 0), b = trialNumbers(size(ours.b, k, n) + spare, 1);
  const at = <P>(place: P, slot: number): P => ({ ...place, slot, offset: 0 });
  /** The product, once for each shift; null where this machine gives no memory for code. */
  const products = (kernel: Kernel, agrees = (_product: Tensor, _shift: number) => true): Tensor[] | null => {
    const code = loadCode(printCode([kernel], isa, 3, threads));
    if ("refused" in code) return null;
    const made: Tensor[] = [];
    for (const [i, shift] of SHIFTS.entries()) {
      const c = trialNumbers(m * n + spare, 2);
      [a, b, c].forEach((tensor, slot) => code.setSlot(slot, tensor, F32 * shift));
      code.run();
      made.push(c);
      if (!agrees(c, i)) break;
    }
    code.free();
    return made;
  };
  // Its columns are our rows, so its first matrix is our second one (products.ts).
  const expected = products({ ...theirs, a: at(theirs.a, 1), b: at(theirs.b, 0), c: at(theirs.c, 2) });
  if (expected === null) return null;
  const own = { ...ours, a: at(ours.a, 0), b: at(ours.b, 1), c: at(ours.c, 2), epilogue: null };
  const chains = new Set([likely, ...LENGTHS].map((length) => chainOfLength(length, k)));
  const chain = [...chains].find((chain) =>
    scope(() => {
      let same = false;
      products({ ...own, chain }, (product, i) => {
        same = sameMemory([[memoryBlockOf(product), memoryBlockOf(expected[i])]]);
        product.free(); // it may be large
        return same;
      });
      return same;
    })
  );
  if (chain !== undefined && LENGTHS.includes(chain)) likely = chain;
  return chain ?? null;
}

const chainOfLength = (length: number, k: number): number =>
  k <= length ? k : k < 2 * length ? Math.floor(k / 2) : length;

const F32 = 4;

/** So many numbers that no two rows of a matrix begin with the same. */
const ROWS = 241, COLUMNS = 251, POOL = ROWS * COLUMNS;
let pool: Float32Array | null = null;

/** Numbers to try sums with. */
export function trialNumbers(count: number, seed: number): Tensor {
  const t = uninitialised([count]), bytes = borrowBytes(t);
  const values = new Float32Array(bytes.buffer, bytes.byteOffset, count);
  pool ??= numberPool();
  for (let at = 0, from = seed * (POOL >> 2); at < count; from = 0) {
    const some = pool.subarray(from, from + count - at);
    values.set(some, at);
    at += some.length;
  }
  return t;
}

/** Numbers that round everywhere: products of few. After a loop over all of them V8 would bring in its slower compiler. */
function numberPool(): Float32Array {
  const few = drawn(ROWS + COLUMNS);
  const all = scope(() =>
    readBytes(mul(tensor(few.subarray(0, ROWS), [ROWS, 1]), tensor(few.subarray(ROWS), [1, COLUMNS])))
  );
  return new Float32Array(all.buffer);
}

function drawn(count: number): Float32Array<ArrayBuffer> {
  const values = new Float32Array(count);
  for (let i = 0, state = 1; i < count; i++) {
    state = Math.imul(state, 1664525) + 1013904223 | 0;
    values[i] = (state >> 7) / 2 ** 24;
  }
  return values;
}
