// Instructions on vectors as bytes: VEX (AVX2) and EVEX (AVX-512) encodings, and what they take.
// tests/core/compile/x86/assembler_test.ts holds each against objdump.
/** [base + index * scale + disp]. `broadcast` repeats one f32 in all lanes (AVX-512 only). */
export interface MemoryOperand {
  readonly base: number;
  readonly index?: number;
  readonly scale?: 1 | 2 | 4 | 8;
  readonly disp?: number;
  readonly broadcast?: boolean;
  /** In a kernel that is copied, the displacement follows this spot: `unit` bytes for each element (`Passage`). */
  readonly spot?: number;
  readonly unit?: number;
}

type Bits = 128 | 256 | 512;

/**
 * `map`: 0F, 0F38, 0F3A. `pp`: no prefix, 66, F3, F2. `unit`: what a disp8 of EVEX counts in: a whole vector, or so
 * many bytes.
 */
interface Encoding {
  readonly map: 1 | 2 | 3;
  readonly pp: 0 | 1 | 2 | 3;
  readonly code: number;
  readonly w: 0 | 1;
  readonly unit: "vector" | "half" | "quarter" | 4 | 16;
}

const encoding = (
  map: 1 | 2 | 3,
  pp: 0 | 1 | 2 | 3,
  code: number,
  w: 0 | 1 = 0,
  unit: Encoding["unit"] = "vector",
): Encoding => ({ map, pp, code, w, unit });

/** Both instruction sets have these under the same opcode, unless it is said. */
export const VECTOR = {
  vmovups: encoding(1, 0, 0x10),
  storeUps: encoding(1, 0, 0x11),
  vmovss: encoding(1, 2, 0x10, 0, 4),
  storeSs: encoding(1, 2, 0x11, 0, 4),
  vbroadcastss: encoding(2, 1, 0x18, 0, 4),
  vaddps: encoding(1, 0, 0x58),
  vmulps: encoding(1, 0, 0x59),
  vsubps: encoding(1, 0, 0x5c),
  vminps: encoding(1, 0, 0x5d),
  vdivps: encoding(1, 0, 0x5e),
  vmaxps: encoding(1, 0, 0x5f),
  vsqrtps: encoding(1, 0, 0x51),
  /** vpandd, vpandnd, vpord and vpxord with AVX-512. */
  vpand: encoding(1, 1, 0xdb),
  vpandn: encoding(1, 1, 0xdf),
  vpor: encoding(1, 1, 0xeb),
  vpxor: encoding(1, 1, 0xef),
  vpaddd: encoding(1, 1, 0xfe),
  vpsubd: encoding(1, 1, 0xfa),
  vcvtps2dq: encoding(1, 1, 0x5b),
  vcvtdq2ps: encoding(1, 0, 0x5b),
  /** vrndscaleps with AVX-512. */
  vroundps: encoding(3, 1, 0x08),
  /** vpsrld, vpsrad and vpslld by a number, as the register field says. */
  shift: encoding(1, 1, 0x72),
  vfmadd132ps: encoding(2, 1, 0x98),
  vfmadd213ps: encoding(2, 1, 0xa8),
  vfmadd231ps: encoding(2, 1, 0xb8),
  vfnmadd132ps: encoding(2, 1, 0x9c),
  vfnmadd213ps: encoding(2, 1, 0xac),
  vfnmadd231ps: encoding(2, 1, 0xbc),
  /** Into a mask register with AVX-512. */
  vcmpps: encoding(1, 0, 0xc2),
  vshufps: encoding(1, 0, 0xc6),
  vunpcklps: encoding(1, 0, 0x14),
  vunpckhps: encoding(1, 0, 0x15),
  vpermilps: encoding(3, 1, 0x04),
  vpmovzxbd: encoding(2, 1, 0x31, 0, "quarter"),
  /** Lanes by the numbers of a vector register: `gather` and `scatter` write them. */
  vgatherdps: encoding(2, 1, 0x92, 0, 4),
} as const;

export const AVX512 = {
  vunpcklpd: encoding(1, 1, 0x14, 1),
  vunpckhpd: encoding(1, 1, 0x15, 1),
  vscalefps: encoding(2, 1, 0x2c),
  vpternlogd: encoding(3, 1, 0x25),
  vblendmps: encoding(2, 1, 0x65),
  vpmovm2d: encoding(2, 2, 0x38),
  vshuff32x4: encoding(3, 1, 0x23),
  /** These three have their source in the register field. */
  vextractf32x4: encoding(3, 1, 0x19, 0, 16),
  vextractf64x4: encoding(3, 1, 0x1b, 1, "half"),
  vpmovqd: encoding(2, 2, 0x35, 0, "half"),
  vinserti64x4: encoding(3, 1, 0x3a, 1, "half"),
  vmovdqu64: encoding(1, 2, 0x6f, 1),
  vscatterdps: encoding(2, 1, 0xa2, 0, 4),
} as const;

export const AVX2 = {
  vunpcklpd: encoding(1, 1, 0x14),
  vunpckhpd: encoding(1, 1, 0x15),
  vblendvps: encoding(3, 1, 0x4a),
  vmaskmovps: encoding(2, 1, 0x2c),
  storeMaskedPs: encoding(2, 1, 0x2e),
  vpmaskmovq: encoding(2, 1, 0x8c, 1),
  vperm2f128: encoding(3, 1, 0x06),
  vpermpd: encoding(3, 1, 0x01, 1),
  /** Has its source in the register field. */
  vextractf128: encoding(3, 1, 0x19),
} as const;

export type VectorOp = Encoding;

export interface Extra {
  readonly imm?: number;
  /** A mask register, k1 to k7; `zero` clears the lanes that it leaves out. */
  readonly mask?: number;
  readonly zero?: boolean;
  readonly bits?: Bits;
  /** The fifth bit of a vector of indices. */
  readonly indexHigh?: number;
}
