// Prints a product of matrices, by itself or again and again; or says how libtorch's own function computes it.
import type { Isa } from "../../../ffi/machine.ts";
import type { BlasKernel, GemmKernel, GroupKernel, Stage, StridedAccess } from "../kernel.ts";
import { RAX, RSP } from "./assembler.ts";
import { type MemoryOperand } from "./encodings.ts";
import type { ProductBatch, Repeat } from "../batches.ts";
import { printX86Group } from "./group.ts";
import type { Printer } from "./printer.ts";
import { matrix, printTiles, transposed } from "./tiles.ts";

/** A product up to this size is still in the first cache when its epilogue comes; others have theirs tile by tile. */
const NEAR_BYTES = 32 << 10;

/** From so many multiplications on, sgemm_ is faster than ours with AVX2 (Zen 4; ours is 1.0 to 5 times as fast below). */
const LARGE = 2 ** 27;

export const prefersOwnGemm = (isa: Isa, m: number, n: number, k: number): boolean =>
  isa === "avx512" || m * n * k <= LARGE;

/** The same product by sgemm_ and its epilogue as a group; null where a matrix is not laid out as BLAS wants it. */
export function byBlas(kernel: GemmKernel): readonly (BlasKernel | GroupKernel)[] | null {
  const { name, m, n, k, a, b, c, add, epilogue } = kernel;
  // BLAS's columns are our rows: it computes C' = B' A'.
  const [ldb, ldbTurned] = b.strides, [lda, ldaTurned] = a.strides;
  const plainB = ldbTurned === 1, plainA = ldaTurned === 1;
  if (c.strides[1] !== 1 || !plainB && ldb !== 1 || !plainA && lda !== 1) return null;
  const product: BlasKernel = {
    ...{ kernel: "blas", name, m: n, n: m, k },
    ...{ transA: !plainB, a: b, lda: plainB ? ldb : ldbTurned },
    ...{ transB: !plainA, b: a, ldb: plainA ? lda : ldaTurned },
    ...{ c, ldc: c.strides[0], beta: add ? 1 : 0 },
  };
  return epilogue ? [product, epilogueGroup(kernel, epilogue)] : [product];
}

/** The product again and again, its matrices' places in the frame. */
export function printBatch(printer: Printer, { product, repeats }: ProductBatch): void {
  const { asm } = printer, operands = [product.a, product.b, product.c];
  printer.withFrame(() => {
    const at = printer.reserve(8 * operands.length);
    const place = (i: number): MemoryOperand => ({ base: RSP, disp: at + 8 * i });
    operands.forEach((access, i) => {
      printer.place(RAX, access, 4);
      asm.store(place(i), RAX);
    });
    const advance = ({ a, b, c }: Repeat, times: number) =>
      [a, b, c].forEach((step, i) => step !== 0 && asm.add(place(i), 4 * step * times));
    const repeat = (level: number): void => {
      if (level === repeats.length) return printGemm(printer, product, place);
      const one = repeats[level], counter: MemoryOperand = { base: RSP, disp: printer.reserve(8) };
      const again = asm.label();
      asm.storeNumber(counter, one.count);
      asm.bind(again);
      repeat(level + 1);
      advance(one, 1);
      asm.subtract(counter, 1);
      asm.jump("notZero", again);
      advance(one, -one.count);
    };
    repeat(0);
  });
}

/** `places`: the addresses of A, B and C lie there and not in the table. */
export function printGemm(
  printer: Printer,
  kernel: GemmKernel,
  places?: (operand: number) => MemoryOperand,
): void {
  const { m, n, k, epilogue } = kernel;
  const [a, b, c] = [kernel.a, kernel.b, kernel.c].map((access, i) => matrix(access, places?.(i)));
  const dots = !places && n === 1 && a.column === 4 && b.row === 4 && k > 1 && !kernel.add &&
    kernel.chain === undefined;
  const inTiles = !dots && m * n * 4 > NEAR_BYTES ? epilogue : null;
  const product = {
    name: kernel.name,
    m,
    n,
    k,
    a,
    b,
    c,
    add: kernel.add,
    chain: kernel.chain,
    epilogue: inTiles,
  };
  if (dots) printX86Group(printer, dotProducts(kernel));
  else if (n === 1 || c.column === 4) printTiles(printer, product);
  else if (m === 1 || c.row === 4) {
    const turned = { m: n, n: m, a: transposed(b), b: transposed(a), c: transposed(c) };
    printTiles(printer, { ...product, ...turned, epilogue: inTiles && transposedStage(inTiles) });
  } else {throw new Error(
      `internal: the product of ${kernel.name} has neither rows nor columns side by side.`,
    );}
  if (epilogue && !inTiles) printX86Group(printer, epilogueGroup(kernel, epilogue));
}

function transposedStage(stage: Stage): Stage {
  const turned = (access: StridedAccess): StridedAccess => ({
    ...access,
    strides: access.strides.toReversed(),
  });
  return {
    instructions: stage.instructions.map((one) => "from" in one ? { ...one, from: turned(one.from) } : one),
    stores: stage.stores.map((store) => ({ ...store, to: turned(store.to) })),
    reductions: [],
  };
}

/** Numbers of A's rows times one column: sums over rows. */
function dotProducts({ name, m, k, a, b, c }: GemmKernel): GroupKernel {
  const product: Stage = {
    instructions: [
      { op: "load", from: a },
      { op: "load", from: { ...b, strides: [0, b.strides[0]] } },
      { op: "mul", args: [0, 1] },
    ],
    stores: [],
    reductions: [{ op: "sum", over: "row", value: 2, to: { ...c, strides: [c.strides[0], 0] } }],
  };
  return { kernel: "group", name, sizes: [m, k], stages: [product] };
}

function epilogueGroup({ name, m, n, c, chain }: GemmKernel, stage: Stage): GroupKernel {
  const instructions = stage.instructions.map((instruction) =>
    "from" in instruction && instruction.from.slot === -1
      ? { ...instruction, from: { ...c, strides: c.strides } }
      : instruction
  );
  const exact = chain !== undefined;
  return { kernel: "group", name, exact, sizes: [m, n], stages: [{ ...stage, instructions }] };
}
