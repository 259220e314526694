// An assembler for x86-64: general registers, AVX2 (VEX) and AVX-512 (EVEX) vectors, labels, calls. It writes bytes
// and knows no operating system. tests/core/compile/x86/assembler_test.ts holds each encoding against objdump.
import type { Isa } from "../../../ffi/machine.ts";
import { AVX512, type Extra, type MemoryOperand, VECTOR, type VectorOp } from "./encodings.ts";

export const RAX = 0, RCX = 1, RDX = 2, RBX = 3, RSP = 4, RBP = 5, RSI = 6, RDI = 7;
export const R8 = 8, R9 = 9, R10 = 10, R11 = 11, R12 = 12, R13 = 13, R14 = 14, R15 = 15;

export type Label = number;

export const JUMP = { below: 0x82, notZero: 0x85, zero: 0x84, less: 0x8c, always: 0xe9 } as const;

/** One for all: there are thousands of instructions. */
const PLAIN: Extra = {};

/** The greatest number of an instruction. */
const FARTHEST = 2 ** 31 - 1;

/** Code that can be copied: its jumps stay within it, and its numbers that differ from copy to copy have four bytes. */
export interface Passage {
  readonly from: number;
  readonly to: number;
  readonly moving: readonly Moving[];
}
/** The number of four bytes at `at`. */
export interface Moving {
  readonly at: number;
  readonly spot: number;
  /** Bytes of one of what the spot counts. */
  readonly unit: number;
}

const fitsByte = (value: number): boolean => value >= -128 && value <= 127;

/** Instructions read it with its sign: 2^31 would be below zero. */
function within(value: number): number {
  if (!Number.isInteger(value) || value < -FARTHEST - 1 || value > FARTHEST) {
    throw new Error(`internal: ${value} is no 32-bit number of an instruction.`);
  }
  return value;
}

export class Assembler {
  #bytes = new Uint8Array(1 << 14);
  #view = new DataView(this.#bytes.buffer);
  #length = 0;
  readonly #labels: number[] = [];
  readonly #jumps: { readonly at: number; readonly to: Label }[] = [];
  /** They move in the passage that is written. */
  #moving: Moving[] | null = null;

  /** Bytes and f32 lanes of a vector, and how many vector registers there are. */
  readonly vectorBytes: 64 | 32;
  readonly lanes: 16 | 8;
  readonly vectorRegisters: 32 | 16;

  constructor(readonly isa: Isa) {
    const wide = isa === "avx512";
    this.vectorBytes = wide ? 64 : 32;
    this.lanes = wide ? 16 : 8;
    this.vectorRegisters = wide ? 32 : 16;
  }

  get length(): number {
    return this.#length;
  }

  /** The finished code. */
  bytes(): Uint8Array {
    this.#land(0);
    return this.#bytes.slice(0, this.#length);
  }
  #land(first: number): void {
    for (const { at, to } of this.#jumps.splice(first)) {
      this.#view.setInt32(at, this.#labels[to] - at - 4, true);
    }
  }

  /** Gives the code that `body` writes, to be copied. */
  passage(body: () => void): Passage {
    const from = this.#length, jumps = this.#jumps.length, moving: Moving[] = this.#moving = [];
    body();
    this.#moving = null;
    this.#land(jumps); // before it is copied
    return { from, to: this.#length, moving };
  }
  /** The passage again, whose numbers are `more` larger. */
  copy({ from, to, moving }: Passage, more: (spot: number, unit: number) => number): void {
    const position = this.#length - from;
    this.#grow(to - from);
    this.#bytes.copyWithin(this.#length, from, to);
    this.#length += to - from;
    for (const { at, spot, unit } of moving) {
      this.#view.setInt32(at + position, within(this.#view.getInt32(at, true) + more(spot, unit)), true);
    }
  }

  #grow(bytes = 0): void {
    if (this.#length + bytes + 32 <= this.#bytes.length) return;
    const more = new Uint8Array(2 * this.#bytes.length + bytes);
    more.set(this.#bytes);
    this.#bytes = more;
    this.#view = new DataView(more.buffer);
  }
  /** Most bytes are written without it: a call for each would bring in V8's slower compiler. */
  #byte(value: number): void {
    this.#bytes[this.#length++] = value;
  }
  #int32(value: number): void {
    this.#view.setInt32(this.#length, within(value), true);
    this.#length += 4;
  }

  label(): Label {
    return this.#labels.push(-1) - 1;
  }
  bind(label: Label): void {
    this.#labels[label] = this.#length;
  }
  jump(kind: keyof typeof JUMP, to: Label): void {
    this.#grow();
    const code = JUMP[kind];
    if (kind !== "always") this.#byte(0x0f);
    this.#byte(code);
    this.#jumps.push({ at: this.#length, to });
    this.#int32(0);
  }
  /** Writes the number of an earlier instruction, whose last four bytes end at `end`. */
  patch(end: number, value: number): void {
    this.#view.setInt32(end - 4, value, true);
  }

  /** `unit`: what a byte of displacement counts in; 0 where only four bytes will do. */
  #modrm(register: number, rm: number | MemoryOperand, unit: number): void {
    const field = (register & 7) << 3;
    if (typeof rm === "number") {
      this.#bytes[this.#length++] = 0xc0 | field | rm & 7;
      return;
    }
    const { base, index, disp = 0, spot } = rm;
    const sib = index !== undefined || (base & 7) === RSP;
    const short = spot === undefined && unit > 0 && disp % unit === 0 && fitsByte(disp / unit);
    // Without a displacement, the field of rbp and r13 means something else.
    const mode = disp === 0 && (base & 7) !== RBP && spot === undefined ? 0 : short ? 1 : 2;
    this.#bytes[this.#length++] = mode << 6 | field | (sib ? RSP : base & 7);
    if (sib) {
      const scale = Math.log2(rm.scale ?? 1);
      this.#bytes[this.#length++] = scale << 6 | ((index ?? RSP) & 7) << 3 | base & 7;
    }
    if (mode === 1) this.#bytes[this.#length++] = disp / unit & 255;
    if (spot !== undefined) this.#moving?.push({ at: this.#length, spot, unit: rm.unit! });
    if (mode === 2) this.#int32(disp);
  }

  // General registers, 64 bits.

  #general(code: number, register: number, rm: number | MemoryOperand, wide = true): void {
    this.#grow();
    const high = typeof rm === "number" ? rm >> 3 : (rm.index ?? 0) >> 3 << 1 | rm.base >> 3;
    this.#bytes[this.#length++] = 0x40 | (wide ? 8 : 0) | register >> 3 << 2 | high;
    if (code > 0xff) this.#bytes[this.#length++] = code >> 8;
    this.#bytes[this.#length++] = code & 255;
    this.#modrm(register, rm, 1);
  }
  move(to: number, from: number): void {
    this.#general(0x89, from, to);
  }
  /** A number from 0 to 2^32 - 1. */
  moveNumber(to: number, value: number): void {
    if (value < 0 || value > 0xffffffff) {
      throw new Error(`internal: ${value} does not fit a register's half.`);
    }
    this.#grow();
    if (to > 7) this.#byte(0x41);
    this.#byte(0xb8 | to & 7);
    this.#int32(value | 0);
  }
  load(to: number, from: MemoryOperand): void {
    this.#general(0x8b, to, from);
  }
  store(to: MemoryOperand, from: number): void {
    this.#general(0x89, from, to);
  }
  load32(to: number, from: MemoryOperand): void {
    this.#general(0x8b, to, from, false);
  }
  store32(to: MemoryOperand, from: number): void {
    this.#general(0x89, from, to, false);
  }
  loadByte(to: number, from: MemoryOperand): void {
    this.#general(0x0fb6, to, from, false);
  }
  /** The line of memory will be read, or written, soon. */
  prefetch(at: MemoryOperand): void {
    this.#general(0x0f18, 1, at, false);
  }
  prefetchToWrite(at: MemoryOperand): void {
    this.#general(0x0f0d, 1, at, false);
  }
  address(to: number, of: MemoryOperand): void {
    this.#general(0x8d, to, of);
  }
  addressOf(to: number, label: Label): void {
    this.#grow();
    this.#byte(0x48 | to >> 3 << 2);
    this.#byte(0x8d);
    this.#byte((to & 7) << 3 | 5); // relative to the next instruction
    this.#jumps.push({ at: this.#length, to: label });
    this.#int32(0);
  }
  /** Adds to 32 bits that other threads change, too; `register` has then what they were before. */
  fetchAdd(at: MemoryOperand, register: number): void {
    this.#grow();
    this.#byte(0xf0);
    this.#general(0x0fc1, register, at, false);
  }
  addRegister(to: number, from: number): void {
    this.#general(0x01, from, to);
  }
  /** `to` = `from` * `value`. */
  multiply(to: number, from: number, value: number): void {
    this.#general(0x69, to, from);
    this.#int32(value);
  }
  #withNumber(extension: number, to: number | MemoryOperand, value: number): void {
    const short = fitsByte(value);
    this.#general(short ? 0x83 : 0x81, extension, to);
    if (short) this.#byte(value & 255);
    else this.#int32(value);
  }
  /** Any whole number: a large one in several instructions. */
  add(to: number | MemoryOperand, value: number): void {
    for (let rest = value; rest !== 0;) {
      const part = Math.max(-FARTHEST, Math.min(FARTHEST, rest));
      this.#withNumber(0, to, part);
      rest -= part;
    }
  }
  /** Adds a spot's number, which always has four bytes. */
  addMoving(to: number, value: number, spot: number, unit: number): void {
    this.#general(0x81, 0, to);
    this.#moving?.push({ at: this.#length, spot, unit });
    this.#int32(value);
  }
  subtract(to: number | MemoryOperand, value: number): void {
    this.#withNumber(5, to, value);
  }
  and(to: number | MemoryOperand, value: number): void {
    this.#withNumber(4, to, value);
  }
  compare(register: number | MemoryOperand, value: number): void {
    this.#withNumber(7, register, value);
  }
  /** Always with four bytes, for `patch`. */
  subtractPatched(to: number): number {
    this.#general(0x81, 5, to);
    this.#int32(0);
    return this.#length;
  }
  storeNumber(to: MemoryOperand, value: number): void {
    this.#general(0xc7, 0, to);
    this.#int32(value);
  }
  push(register: number): void {
    this.#grow();
    if (register > 7) this.#byte(0x41);
    this.#byte(0x50 | register & 7);
  }
  pop(register: number): void {
    this.#grow();
    if (register > 7) this.#byte(0x41);
    this.#byte(0x58 | register & 7);
  }
  call(target: MemoryOperand): void {
    this.#general(0xff, 2, target, false);
  }
  leave(): void {
    this.#grow();
    this.#byte(0xc3);
  }
  clearUpper(): void {
    this.#grow();
    this.#byte(0xc5);
    this.#byte(0xf8);
    this.#byte(0x77);
  }
  /** A mask register from the low 16 bits of a general one. */
  setMask(mask: number, from: number): void {
    this.#grow();
    this.#byte(0xc5);
    if (from > 7) throw new Error("internal: masks are set from rax to rdi.");
    this.#byte(0xf8);
    this.#byte(0x92);
    this.#byte(0xc0 | mask << 3 | from);
  }

  // Vectors.

  vector(op: VectorOp, register: number, second: number, rm: number | MemoryOperand, extra = PLAIN): void {
    if (this.isa === "avx2") return this.#vex(op, register, second, rm, extra);
    this.#grow();
    const { map, pp, code, w, unit } = op, { mask = 0, zero = false, bits = 512, indexHigh = 0, imm } = extra;
    const memory = typeof rm === "number" ? null : rm;
    const x = memory ? (memory.index ?? 0) >> 3 & 1 : rm as number >> 4 & 1;
    const b = (memory ? memory.base : rm as number) >> 3 & 1;
    const broadcast = memory?.broadcast === true;
    const bytes = bits / 8;
    const registers = (register >> 3 & 1 ^ 1) << 7 | (x ^ 1) << 6 | (b ^ 1) << 5 |
      (register >> 4 & 1 ^ 1) << 4;
    const high = second >> 4 & 1 | indexHigh;
    const last = (zero ? 128 : 0) | (bits === 512 ? 2 : bits === 256 ? 1 : 0) << 5 | (broadcast ? 16 : 0) |
      (high ^ 1) << 3 | mask;
    const middle = w << 7 | (~second & 15) << 3 | 4 | pp;
    this.#view.setInt32(this.#length, 0x62 | (registers | map) << 8 | middle << 16 | last << 24, true);
    this.#bytes[this.#length + 4] = code;
    this.#length += 5;
    const whole = unit === "vector"
      ? bytes
      : unit === "half"
      ? bytes / 2
      : unit === "quarter"
      ? bytes / 4
      : unit;
    this.#modrm(register, rm, broadcast ? 4 : whole);
    if (imm !== undefined) this.#byte(imm);
  }

  #vex(
    { map, pp, code, w }: VectorOp,
    register: number,
    second: number,
    rm: number | MemoryOperand,
    { bits = 256, mask = 0, imm }: Extra,
  ): void {
    this.#grow();
    const memory = typeof rm === "number" ? null : rm;
    if (mask !== 0 || memory?.broadcast || bits === 512) throw new Error("internal: AVX2 has no masks.");
    const x = memory ? (memory.index ?? 0) >> 3 & 1 : 0;
    const b = (memory ? memory.base : rm as number) >> 3 & 1;
    const registers = (register >> 3 ^ 1) << 7 | (x ^ 1) << 6 | (b ^ 1) << 5;
    const last = w << 7 | (~second & 15) << 3 | (bits === 256 ? 4 : 0) | pp;
    this.#view.setInt32(this.#length, 0xc4 | (registers | map) << 8 | last << 16 | code << 24, true);
    this.#length += 4;
    this.#modrm(register, rm, 1);
    if (imm !== undefined) this.#byte(imm);
  }

  /** Lanes from base + lane of `indices` * 4 + disp. `mask`: a mask register, or with AVX2 a vector; it is cleared. */
  gather(to: number, indices: number, from: MemoryOperand, mask: number): void {
    const memory: MemoryOperand = { ...from, index: indices & 15, scale: 4 };
    if (this.isa === "avx512") {
      this.vector(VECTOR.vgatherdps, to, 0, memory, { mask, indexHigh: indices >> 4 });
    } else this.#vex(VECTOR.vgatherdps, to, mask, memory, PLAIN);
  }
  /** AVX-512 only. The mask is cleared. */
  scatter(from: number, indices: number, to: MemoryOperand, mask: number): void {
    const memory: MemoryOperand = { ...to, index: indices & 15, scale: 4 };
    this.vector(AVX512.vscatterdps, from, 0, memory, { mask, indexHigh: indices >> 4 });
  }
}
