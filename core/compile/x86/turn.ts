// Squares of numbers in vector registers, turned so that columns become rows.
import { type Assembler } from "./assembler.ts";
import { AVX2, AVX512, VECTOR } from "./encodings.ts";

/** Turns squares of four within registers 0 to `size` - 1, with the help of as many behind them. */
function turnFours(
  asm: Assembler,
  size: number,
  { vunpcklpd, vunpckhpd }: Pick<typeof AVX512 | typeof AVX2, "vunpcklpd" | "vunpckhpd">,
): void {
  const helper = (i: number) => size + i;
  for (let i = 0; i < size; i += 2) {
    asm.vector(VECTOR.vunpcklps, helper(i), i, i + 1);
    asm.vector(VECTOR.vunpckhps, helper(i + 1), i, i + 1);
  }
  for (let i = 0; i < size; i += 4) {
    asm.vector(vunpcklpd, i, helper(i), helper(i + 2));
    asm.vector(vunpckhpd, i + 1, helper(i), helper(i + 2));
    asm.vector(vunpcklpd, i + 2, helper(i + 1), helper(i + 3));
    asm.vector(vunpckhpd, i + 3, helper(i + 1), helper(i + 3));
  }
}

/** Registers 0 to 15 as a square, turned with the help of 16 to 31. Gives the registers of the new rows. */
export function turn16(asm: Assembler): number[] {
  const helper = (i: number) => 16 + i;
  turnFours(asm, 16, AVX512);
  for (let half = 0; half < 16; half += 8) {
    for (let i = 0; i < 4; i++) {
      asm.vector(AVX512.vshuff32x4, helper(half + i), half + i, half + 4 + i, { imm: 0x88 });
      asm.vector(AVX512.vshuff32x4, helper(half + 4 + i), half + i, half + 4 + i, { imm: 0xdd });
    }
  }
  for (let i = 0; i < 8; i++) {
    asm.vector(AVX512.vshuff32x4, i, helper(i), helper(8 + i), { imm: 0x88 });
    asm.vector(AVX512.vshuff32x4, 8 + i, helper(i), helper(8 + i), { imm: 0xdd });
  }
  return Array.from({ length: 16 }, (_, i) => i);
}

/** Registers 0 to 7 as a square, turned with the help of 8 to 15. */
export function turn8(asm: Assembler): number[] {
  const helper = (i: number) => 8 + i;
  turnFours(asm, 8, AVX2);
  for (let i = 0; i < 4; i++) {
    asm.vector(AVX2.vperm2f128, helper(i), i, 4 + i, { imm: 0x20 });
    asm.vector(AVX2.vperm2f128, helper(4 + i), i, 4 + i, { imm: 0x31 });
  }
  return Array.from({ length: 8 }, (_, i) => helper(i));
}
