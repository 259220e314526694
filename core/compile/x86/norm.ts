// Norms of vectors as libtorch takes them on a CPU: squares are summed in the lanes of one register, then lane after lane, then
// what is left over. A table says where the vectors lie; the last of them may be the norms of those before it.
import type { Isa } from "../../../ffi/machine.ts";
import type { Code } from "../kernel.ts";
import { type Assembler, R10, R8, R9, RCX, RSI, RSP } from "./assembler.ts";
import { VECTOR } from "./encodings.ts";
import { Printer } from "./printer.ts";

/** How the compiler of a libtorch has written its loop: so many lanes, and which sums are fused with their products. */
export interface NormWay {
  readonly lanes: 8 | 16;
  readonly fused: boolean;
  /** It squares so many numbers of the rest at once and adds them; what is fewer is fused, one by one. */
  readonly squaredBy: 1 | 4 | 8 | 16;
}

/** All that are known; one of them has the bits of the libtorch that is there. */
export const normWays = (isa: Isa): readonly NormWay[] =>
  (isa === "avx512" ? [16, 8] as const : [8] as const).flatMap((lanes) =>
    [false, true].flatMap((fused) =>
      ([4, 1, 8, 16] as const).filter((by) => by <= lanes)
        .map((squaredBy) => ({ lanes, fused, squaredBy }))
    )
  );

/** Slots of the code: address and length of each vector, as i64, and where their norms go. */
export const VECTORS = 0, NORMS = 1;
const ENTRY = 16, F32 = 4;

const SUM = 0, VALUES = 1;

/** A function that takes the norms of `count` vectors, in their order. */
export function printNorms(count: number, isa: Isa, way: NormWay): Code {
  const printer = new Printer(isa, 2), { asm } = printer;
  return printer.print([() => {
    asm.load(R8, printer.slot(VECTORS));
    asm.load(R10, printer.slot(NORMS));
    asm.moveNumber(R9, count);
    const next = asm.label();
    asm.bind(next);
    asm.load(RSI, { base: R8 });
    asm.load(RCX, { base: R8, disp: ENTRY / 2 });
    printNorm(asm, way);
    asm.vector(VECTOR.storeSs, SUM, 0, { base: R10 }, ONE);
    asm.add(R10, F32);
    asm.add(R8, ENTRY);
    asm.subtract(R9, 1);
    asm.jump("notZero", next);
  }]);
}

const ONE = { bits: 128 } as const;

/** RSI has the address of the first number, and RCX their count. */
function printNorm(asm: Assembler, { lanes, fused, squaredBy }: NormWay): void {
  const all = { bits: lanes === 16 ? 512 : 256 } as const;
  asm.vector(VECTOR.vpxor, SUM, SUM, SUM, all);
  whileLeft(asm, lanes, () => {
    asm.vector(VECTOR.vmovups, VALUES, 0, { base: RSI }, all);
    printSquare(asm, fused, all);
  });
  asm.vector(VECTOR.storeUps, SUM, 0, { base: RSP }, all);
  asm.vector(VECTOR.vmovss, SUM, 0, { base: RSP }, ONE);
  for (let lane = 1; lane < lanes; lane++) {
    asm.vector(VECTOR.vmovss, VALUES, 0, { base: RSP, disp: F32 * lane }, ONE);
    asm.vector(VECTOR.vaddps, SUM, SUM, VALUES, ONE);
  }
  const rest = (count: number, fused: boolean) =>
    whileLeft(asm, count, () => {
      for (let i = 0; i < count; i++) {
        asm.vector(VECTOR.vmovss, VALUES, 0, { base: RSI, disp: F32 * i }, ONE);
        printSquare(asm, fused, ONE);
      }
    });
  if (squaredBy < lanes) rest(squaredBy, false);
  rest(1, true);
  asm.vector(VECTOR.vsqrtps, SUM, 0, SUM, ONE);
}

function whileLeft(asm: Assembler, count: number, body: () => void): void {
  const again = asm.label(), over = asm.label();
  asm.bind(again);
  asm.compare(RCX, count);
  asm.jump("below", over);
  body();
  asm.add(RSI, F32 * count);
  asm.subtract(RCX, count);
  asm.jump("always", again);
  asm.bind(over);
}

function printSquare(asm: Assembler, fused: boolean, bits: { readonly bits: 128 | 256 | 512 }): void {
  if (fused) return asm.vector(VECTOR.vfmadd231ps, SUM, VALUES, VALUES, bits);
  asm.vector(VECTOR.vmulps, VALUES, VALUES, VALUES, bits);
  asm.vector(VECTOR.vaddps, SUM, SUM, VALUES, bits);
}
