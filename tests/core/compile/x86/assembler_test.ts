import { assertEquals } from "@std/assert";
import type { Isa } from "../../../../ffi/machine.ts";
import * as x86 from "../../../../core/compile/x86/assembler.ts";
import { Assembler } from "../../../../core/compile/x86/assembler.ts";
import {
  AVX2,
  AVX512,
  type MemoryOperand,
  VECTOR,
  type VectorOp,
} from "../../../../core/compile/x86/encodings.ts";

// What is written is read back by objdump, which comes with the C compiler that other tests need.

const GENERAL = ["rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi"].concat(
  Array.from({ length: 8 }, (_, i) => `r${i + 8}`),
);
const HALVES = ["eax", "ecx", "edx", "ebx", "esp", "ebp", "esi", "edi"].concat(
  Array.from({ length: 8 }, (_, i) => `r${i + 8}d`),
);

/** Instructions as objdump names them, without sizes of memory. */
function disassembled(bytes: Uint8Array): string[] {
  const file = Deno.makeTempFileSync();
  try {
    Deno.writeFileSync(file, bytes);
    const { stdout, success } = new Deno.Command("objdump", {
      args: ["-D", "-b", "binary", "-m", "i386:x86-64", "-M", "intel", "-w", "--no-show-raw-insn", file],
    }).outputSync();
    assertEquals(success, true);
    return new TextDecoder().decode(stdout).split("\n").filter((line) => /^\s+[0-9a-f]+:\t/.test(line)).map(
      plain,
    );
  } finally {
    Deno.removeSync(file);
  }
}
const plain = (line: string): string =>
  line.replace(/^\s+[0-9a-f]+:\s*(\{evex\} |rex )?/, "").replace("lock rex ", "lock ").replace(/\s*#.*$/, "")
    .replace(
      /\b\w+ BCST \[/,
      "repeated [",
    )
    .replace(/\b\w+ PTR \[/, "[").replace(/\s+/g, " ").trim();

/** Only what differs is worth printing. */
function assertRead(bytes: Uint8Array, expected: readonly string[]): void {
  const read = disassembled(bytes);
  const wrong = expected.flatMap((text, i) => read[i] === text ? [] : [{ expected: text, read: read[i] }]);
  assertEquals(wrong.slice(0, 10), []);
  assertEquals(read.length, expected.length);
}

const hex = (value: number): string => `${value < 0 ? "-" : "+"}0x${Math.abs(value).toString(16)}`;

function memoryText({ base, index, scale = 1, disp = 0, broadcast }: MemoryOperand, vector?: string): string {
  const second = index === undefined ? "" : `+${vector ?? GENERAL[index]}*${scale}`;
  const shown = disp !== 0 || (base & 7) === x86.RBP ? hex(disp) : "";
  return `${broadcast ? "repeated " : ""}[${GENERAL[base]}${second}${shown}]`;
}

const MEMORIES: readonly MemoryOperand[] = [
  ...GENERAL.flatMap((_, base): MemoryOperand[] => [{ base }, { base, disp: 64 }]),
  ...[
    4,
    -4,
    8,
    32,
    127,
    128,
    -128,
    -129,
    256,
    64 * 127,
    64 * 128,
    -64 * 128,
    4 * 128,
    0x12345678,
    -0x12345678,
  ].map((
    disp,
  ) => ({ base: x86.RBX, disp })),
  ...GENERAL.flatMap((_, index): MemoryOperand[] =>
    index === x86.RSP ? [] : [{ base: x86.R13, index, scale: 4 }]
  ),
  ...([1, 2, 4, 8] as const).map((scale): MemoryOperand => ({
    base: x86.RBP,
    index: x86.RAX,
    scale,
    disp: 512,
  })),
];

type Form =
  | "nds" // r, r2, r/m
  | "unary" // r, r/m
  | "load" // r, m
  | "store" // m, r
  | "reverse"; // r/m of fewer bits, r

interface Row {
  readonly op: VectorOp;
  readonly name: string;
  readonly form: Form;
  readonly imm?: number;
  /** Registers of the three operands where they are not the vector's own kind. */
  readonly kinds?: readonly [string, string, string];
  readonly bits?: 128 | 256 | 512;
  readonly repeats?: boolean;
  /** How an immediate number or a last register is shown; nothing where the name tells it. */
  readonly shown?: string;
  readonly registersOnly?: boolean;
}

function rowsOf(isa: Isa): Row[] {
  const wide = isa === "avx512", d = wide ? "d" : "", kind = wide ? "zmm" : "ymm", repeats = wide;
  const nds = (op: VectorOp, name: string): Row => ({ op, name, form: "nds", repeats });
  const unary = (op: VectorOp, name: string): Row => ({ op, name, form: "unary", repeats });
  const compared = Object.entries({
    lt_oq: 0x11,
    le_oq: 0x12,
    gt_oq: 0x1e,
    ge_oq: 0x1d,
    eq: 0,
    neq: 4,
    unord: 3,
  });
  const rows: Row[] = [
    ...(["vaddps", "vmulps", "vsubps", "vminps", "vdivps", "vmaxps", "vpaddd", "vpsubd"] as const).map((
      name,
    ) => nds(VECTOR[name], name)),
    ...(["vpand", "vpandn", "vpor", "vpxor"] as const).map((name) => nds(VECTOR[name], name + d)),
    ...([
      "vfmadd132ps",
      "vfmadd213ps",
      "vfmadd231ps",
      "vfnmadd132ps",
      "vfnmadd213ps",
      "vfnmadd231ps",
    ] as const).map((
      name,
    ) => nds(VECTOR[name], name)),
    ...(["vunpcklps", "vunpckhps"] as const).map((name) => nds(VECTOR[name], name)),
    ...(["vsqrtps", "vcvtps2dq", "vcvtdq2ps"] as const).map((name) => unary(VECTOR[name], name)),
    { ...unary(VECTOR.vroundps, wide ? "vrndscaleps" : "vroundps"), imm: 8, shown: ",0x8" },
    { ...unary(VECTOR.vpermilps, "vpermilps"), imm: 0x4e, shown: ",0x4e" },
    { ...nds(VECTOR.vshufps, "vshufps"), imm: 0x88, shown: ",0x88" },
    ...compared.map(([how, imm]): Row => ({
      ...nds(VECTOR.vcmpps, `vcmp${how}ps`),
      imm,
      kinds: wide ? ["k", kind, kind] : undefined,
    })),
    { op: VECTOR.vmovups, name: "vmovups", form: "unary" },
    { op: VECTOR.storeUps, name: "vmovups", form: "store" },
    { op: VECTOR.storeSs, name: "vmovss", form: "store", kinds: ["xmm", "", ""], bits: 128 },
    { op: VECTOR.vmovss, name: "vmovss", form: "load", kinds: ["xmm", "", ""], bits: 128 },
    { op: VECTOR.vbroadcastss, name: "vbroadcastss", form: "unary", kinds: [kind, "", "xmm"] },
    { op: VECTOR.vpmovzxbd, name: "vpmovzxbd", form: "unary", kinds: [kind, "", "xmm"] },
  ];
  if (wide) {
    rows.push(
      ...(["vscalefps", "vblendmps"] as const).map((name) => nds(AVX512[name], name)),
      { ...nds(AVX512.vunpcklpd, "vunpcklpd"), repeats: false },
      { ...nds(AVX512.vunpckhpd, "vunpckhpd"), repeats: false },
      { ...nds(AVX512.vpternlogd, "vpternlogd"), imm: 0xca, shown: ",0xca" },
      { ...nds(AVX512.vshuff32x4, "vshuff32x4"), imm: 0xdd, shown: ",0xdd" },
      { op: AVX512.vmovdqu64, name: "vmovdqu64", form: "unary" },
      {
        op: AVX512.vinserti64x4,
        name: "vinserti64x4",
        form: "nds",
        kinds: ["zmm", "zmm", "ymm"],
        imm: 1,
        shown: ",0x1",
      },
      {
        op: AVX512.vextractf64x4,
        name: "vextractf64x4",
        form: "reverse",
        kinds: ["zmm", "", "ymm"],
        imm: 1,
        shown: ",0x1",
      },
      {
        op: AVX512.vextractf32x4,
        name: "vextractf32x4",
        form: "reverse",
        kinds: ["ymm", "", "xmm"],
        bits: 256,
        imm: 1,
        shown: ",0x1",
      },
      { op: AVX512.vpmovqd, name: "vpmovqd", form: "reverse", kinds: ["zmm", "", "ymm"] },
      { op: AVX512.vpmovm2d, name: "vpmovm2d", form: "unary", kinds: ["zmm", "", "k"], registersOnly: true },
      // Of the parts of a vector, as sums over rows use them.
      { ...nds(VECTOR.vaddps, "vaddps"), kinds: ["ymm", "ymm", "ymm"], bits: 256, repeats: false },
      { ...nds(VECTOR.vmaxps, "vmaxps"), kinds: ["xmm", "xmm", "xmm"], bits: 128, repeats: false },
    );
  } else {
    rows.push(
      nds(AVX2.vunpcklpd, "vunpcklpd"),
      nds(AVX2.vunpckhpd, "vunpckhpd"),
      { ...nds(AVX2.vblendvps, "vblendvps"), imm: 5 << 4, shown: ",ymm5" },
      { ...nds(AVX2.vperm2f128, "vperm2f128"), imm: 0x31, shown: ",0x31" },
      { ...unary(AVX2.vpermpd, "vpermpd"), imm: 0xd8, shown: ",0xd8" },
      {
        op: AVX2.vextractf128,
        name: "vextractf128",
        form: "reverse",
        kinds: ["ymm", "", "xmm"],
        imm: 1,
        shown: ",0x1",
      },
      { ...nds(VECTOR.vaddps, "vaddps"), kinds: ["xmm", "xmm", "xmm"], bits: 128 },
    );
  }
  return rows;
}

/** Writes each row over registers and memory. Gives what objdump should say. */
function writeRow(asm: Assembler, row: Row): string[] {
  const { op, name, form, imm, bits, shown = "" } = row;
  const own = asm.isa === "avx512" ? "zmm" : "ymm";
  const [first, second, last] = row.kinds ?? [own, own, own];
  const count = (kind: string) => kind === "k" ? 8 : asm.vectorRegisters;
  const extra = { imm, bits };
  const expected: string[] = [];
  const write = (register: number, two: number, rm: number | MemoryOperand, third: string) => {
    asm.vector(op, register, form === "nds" ? two : 0, rm, extra);
    const target = `${first}${register}`;
    const operands = form === "nds"
      ? [target, `${second}${two}`, third]
      : form === "store" || form === "reverse"
      ? [third, target]
      : [target, third];
    expected.push(`${name} ${operands.join(",")}${shown}`);
  };
  if (form !== "load" && form !== "store") {
    for (let i = 0; i < 32; i++) {
      const register = i % count(first),
        two = (i * 7 + 3) % count(second || own),
        third = (i * 11 + 5) % count(last);
      write(register, two, third, `${last}${third}`);
    }
  }
  if (row.registersOnly) return expected;
  MEMORIES.forEach((memory, i) => {
    write(i % count(first), (i * 5 + 1) % count(second || own), memory, memoryText(memory));
    if (!row.repeats) return;
    const repeated = { ...memory, broadcast: true };
    write((i + 3) % count(first), (i * 5) % count(second || own), repeated, memoryText(repeated));
  });
  return expected;
}

const has = (command: string): boolean => {
  try {
    return new Deno.Command(command, { args: ["--version"], stdout: "null" }).outputSync().success;
  } catch {
    return false;
  }
};
const ignore = !has("objdump");
if (ignore) {
  console.error("objdump is missing (Debian: binutils), so the assembler's encodings are not checked.");
}

for (const isa of ["avx512", "avx2"] as const) {
  Deno.test({
    name: `each vector instruction of ${isa} is what objdump reads, over registers and memory`,
    ignore,
    fn() {
      const asm = new Assembler(isa);
      const expected = rowsOf(isa).flatMap((row) => writeRow(asm, row));
      assertRead(asm.bytes(), expected);
    },
  });
}

Deno.test({
  name: "masks, shifts, gathers and masked moves are what objdump reads",
  ignore,
  fn() {
    const wide = new Assembler("avx512"), narrow = new Assembler("avx2"), expected: string[] = [];
    const place: MemoryOperand = { base: x86.R9, disp: 128 }, text = memoryText(place);
    for (let mask = 1; mask < 8; mask++) {
      wide.vector(VECTOR.vmovups, 17, 0, place, { mask, zero: true });
      wide.vector(VECTOR.storeUps, 30, 0, place, { mask });
      wide.vector(VECTOR.vmovups, 3, 0, 19, { mask });
      wide.vector(VECTOR.vcmpps, mask, 1, 2, { imm: 3, bits: 256 });
      wide.vector(AVX512.vpmovm2d, 9, 0, mask);
      wide.vector(VECTOR.vpmovzxbd, 20, 0, place, { mask, zero: true });
      wide.vector(AVX512.vmovdqu64, 21, 0, place, { mask, zero: true });
      wide.gather(22, 25, { base: x86.RCX, disp: 12 }, mask);
      wide.gather(7, 8, { base: x86.R10, disp: 0x4000 }, mask);
      wide.scatter(31, 16, { base: x86.R12, disp: 4 }, mask);
      wide.setMask(mask, x86.RCX);
      expected.push(
        `vmovups zmm17{k${mask}}{z},${text}`,
        `vmovups ${text}{k${mask}},zmm30`,
        `vmovups zmm3{k${mask}},zmm19`,
        `vcmpunordps k${mask},ymm1,ymm2`,
        `vpmovm2d zmm9,k${mask}`,
        `vpmovzxbd zmm20{k${mask}}{z},${text}`,
        `vmovdqu64 zmm21{k${mask}}{z},${text}`,
        `vgatherdps zmm22{k${mask}},[rcx+zmm25*4+0xc]`,
        `vgatherdps zmm7{k${mask}},[r10+zmm8*4+0x4000]`,
        `vscatterdps [r12+zmm16*4+0x4]{k${mask}},zmm31`,
        `kmovw k${mask},ecx`,
      );
    }
    for (const [extension, name] of [[2, "vpsrld"], [4, "vpsrad"], [6, "vpslld"]] as const) {
      for (const [to, from] of [[1, 2], [31, 16], [9, 30]]) {
        wide.vector(VECTOR.shift, extension, to, from, { imm: 23 });
        expected.push(`${name} zmm${to},zmm${from},0x17`);
      }
    }
    assertRead(wide.bytes(), expected);
    const short: string[] = [];
    for (const [a, b] of [[0, 15], [15, 0], [7, 8], [12, 3]]) {
      narrow.vector(AVX2.vmaskmovps, a, b, place);
      narrow.vector(AVX2.storeMaskedPs, a, b, place);
      narrow.vector(AVX2.vpmaskmovq, a, b, place);
      narrow.gather(a, (b + 2) % 16, { base: x86.RSI, disp: 8 }, b);
      narrow.vector(VECTOR.shift, 6, a, b, { imm: 23 });
      narrow.vector(AVX2.vblendvps, a, b, 3, { imm: b << 4 });
      short.push(
        `vmaskmovps ymm${a},ymm${b},${text}`,
        `vmaskmovps ${text},ymm${b},ymm${a}`,
        `vpmaskmovq ymm${a},ymm${b},${text}`,
        `vgatherdps ymm${a},[rsi+ymm${(b + 2) % 16}*4+0x8],ymm${b}`,
        `vpslld ymm${a},ymm${b},0x17`,
        `vblendvps ymm${a},ymm${b},ymm3,ymm${b}`,
      );
    }
    narrow.clearUpper();
    assertRead(narrow.bytes(), [...short, "vzeroupper"]);
  },
});

Deno.test({
  name: "each instruction of general registers is what objdump reads",
  ignore,
  fn() {
    const asm = new Assembler("avx512"), expected: string[] = [];
    const write = (text: string, instruction: () => void) => {
      instruction();
      expected.push(text);
    };
    GENERAL.forEach((name, r) => {
      const other = (r * 5 + 3) % 16;
      write(`mov ${name},${GENERAL[other]}`, () => asm.move(r, other));
      write(`mov ${HALVES[r]},0xfedcba98`, () => asm.moveNumber(r, 0xfedcba98));
      write(`add ${name},${GENERAL[other]}`, () => asm.addRegister(r, other));
      write(`imul ${name},${GENERAL[other]},0x12345`, () => asm.multiply(r, other, 0x12345));
      write(`push ${name}`, () => asm.push(r));
      write(`pop ${name}`, () => asm.pop(r));
      for (const value of [1, 127, 128, -128, -129, 0x7fffffff]) {
        const shown = (value < 0 ? (1n << 64n) + BigInt(value) : BigInt(value)).toString(16);
        write(`add ${name},0x${shown}`, () => asm.add(r, value));
        write(`sub ${name},0x${shown}`, () => asm.subtract(r, value));
        write(`and ${name},0x${shown}`, () => asm.and(r, value));
        write(`cmp ${name},0x${shown}`, () => asm.compare(r, value));
      }
    });
    MEMORIES.forEach((memory, i) => {
      const r = i % 16, text = memoryText(memory);
      write(`mov ${GENERAL[r]},${text}`, () => asm.load(r, memory));
      write(`mov ${text},${GENERAL[r]}`, () => asm.store(memory, r));
      write(`mov ${HALVES[r]},${text}`, () => asm.load32(r, memory));
      write(`mov ${text},${HALVES[r]}`, () => asm.store32(memory, r));
      write(`movzx ${HALVES[r]},${text}`, () => asm.loadByte(r, memory));
      write(`lea ${GENERAL[r]},${text}`, () => asm.address(r, memory));
      write(`add ${text},0x10`, () => asm.add(memory, 16));
      write(`sub ${text},0x100`, () => asm.subtract(memory, 256));
      write(`mov ${text},0x7`, () => asm.storeNumber(memory, 7));
      write(`lock xadd ${text},${HALVES[r]}`, () => asm.fetchAdd(memory, r));
      const line = text.replace(/^\w+ PTR /, "BYTE PTR ");
      write(`prefetcht0 ${line}`, () => asm.prefetch(memory));
      write(`prefetchw ${line}`, () => asm.prefetchToWrite(memory));
      write(`call ${text}`, () => asm.call(memory));
    });
    const patched = asm.subtractPatched(x86.RSP);
    asm.patch(patched, 0x1240);
    expected.push("sub rsp,0x1240");
    asm.leave();
    expected.push("ret");
    const begin = asm.length, back = asm.label(), on = asm.label();
    asm.bind(back);
    asm.jump("notZero", back);
    asm.jump("always", on);
    asm.jump("less", back);
    asm.bind(on);
    const at = (offset: number) => `0x${(begin + offset).toString(16)}`;
    expected.push(`jne ${at(0)}`, `jmp ${at(17)}`, `jl ${at(0)}`);
    for (const [register, distance] of [[x86.RDI, -24], [x86.R9, -31]]) {
      asm.addressOf(register, back);
      expected.push(`lea ${GENERAL[register]},[rip+0x${((1n << 64n) + BigInt(distance)).toString(16)}]`);
    }
    assertRead(asm.bytes(), expected);
  },
});
