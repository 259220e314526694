// The pointers of a nest of loops, and how a vector is read and written through them.
import { ELEMENT_BYTES, type StridedAccess } from "../kernel.ts";
import type { Accesses } from "./allocation.ts";
import { R10, R12, R13, R14, R8, R9, RAX, RCX, RDI, RDX, RSI, RSP } from "./assembler.ts";
import { AVX2, AVX512, type MemoryOperand, VECTOR } from "./encodings.ts";
import type { Printer } from "./printer.ts";

/** Free for addresses and counts within a step. */
const ADDRESS = R10, COUNT = RCX;
/** Mask registers of AVX-512: the lanes of the last vector of a row, and a passing one. */
const TAIL = 1;
const PASSING = 6;
/** Pointers in these survive a call; so does the index then. */
const SURVIVE = [R12, R13], SURVIVING_INDEX = R14;
const REGISTERS = [RDX, RSI, RDI, R8, R9, R12, R13, R14];
const FARTHEST = 0x7fff0000;

interface Pointer {
  readonly slot: number;
  /** Bytes from one step of each outer dimension to the next. */
  readonly strides: readonly number[];
  /** Elements from the slot's begin on, where they don't fit into an instruction. */
  readonly begin: number;
  readonly spot?: number;
}

/** One vector of a strided access: which copy of the unrolled loop it is, and whether only the row's last lanes count. */
interface Use {
  readonly strided: StridedAccess;
  readonly copy: number;
  readonly tail: boolean;
  /** Instead of the access: a vector of the stack. */
  readonly stack?: number;
}

export class Pointers implements Accesses {
  readonly index: number;
  /** The index counts now; else the inner dimension begins at `from`. */
  indexed = true;
  from = 0;
  readonly #pointers: Pointer[] = [];
  readonly #at = new Map<string, number>();
  /** The pointer of each access that was used. */
  readonly #of = new Map<StridedAccess, number>();
  readonly #uses: Use[] = [];
  #places: (number | { readonly stack: number })[] = [];
  readonly #lanes: number;

  constructor(
    readonly printer: Printer,
    readonly outer: number,
    accesses: readonly StridedAccess[],
    /** Lanes of the last vector of a row, 0 where it is whole. */
    readonly tailLanes: number,
    calls: boolean,
    /** Gives the place of a slot's address that the table does not have. */
    readonly special: (slot: number) => MemoryOperand | null = () => null,
  ) {
    this.#lanes = printer.asm.lanes;
    this.index = calls ? SURVIVING_INDEX : RAX;
    const registers = calls ? SURVIVE : REGISTERS;
    for (const strided of accesses) {
      const stride = strided.strides[outer];
      if (stride > FARTHEST / (ELEMENT_BYTES[strided.kind] * printer.asm.lanes)) {
        throw new Error(`internal: a stride of ${stride} is too large for lanes of a vector.`);
      }
      const pointer = this.#pointer(strided), key = this.#key(pointer);
      if (!this.#at.has(key)) this.#at.set(key, this.#pointers.push(pointer) - 1);
    }
    this.#places = this.#pointers.map((_, i) => registers[i] ?? { stack: printer.reserve(8) });
  }

  #pointer({ slot, strides, kind, offset, spot }: StridedAccess): Pointer {
    const bytes = ELEMENT_BYTES[kind];
    const reach = Math.abs(offset) * bytes;
    return {
      slot,
      strides: strides.slice(0, this.outer).map((stride) => stride * bytes),
      begin: reach > FARTHEST / 2 ? offset * bytes : 0,
      spot,
    };
  }
  #key = ({ slot, strides, begin }: Pointer): string => `${slot} ${strides.join()} ${begin}`;

  /** Sets all pointers to where their slots begin, and the mask of the last lanes. */
  begin(): void {
    const { asm } = this.printer;
    this.#pointers.forEach(({ slot, begin, spot }, i) => {
      const place = this.#places[i];
      const register = typeof place === "number" ? place : ADDRESS;
      asm.load(register, this.special(slot) ?? this.printer.slot(slot, spot));
      asm.add(register, begin);
      if (typeof place !== "number") asm.store({ base: RSP, disp: place.stack }, register);
    });
    this.setMask(TAIL, this.tailLanes);
  }
  /** One step of an outer dimension, or so many. */
  advance(dim: number, steps: number): void {
    const { asm } = this.printer;
    this.#pointers.forEach(({ strides }, i) => {
      const bytes = strides[dim] * steps;
      if (bytes === 0) return;
      const place = this.#places[i];
      asm.add(typeof place === "number" ? place : { base: RSP, disp: place.stack }, bytes);
    });
  }
  setMask(mask: number, lanes: number): void {
    if (this.printer.isa !== "avx512" || lanes === 0) return;
    this.printer.asm.moveNumber(COUNT, 2 ** lanes - 1);
    this.printer.asm.setMask(mask, COUNT);
  }
  afterCall(): void {
    this.setMask(TAIL, this.tailLanes);
  }

  use(use: Use): number {
    return this.#uses.push(use) - 1;
  }

  #pointerOf(strided: StridedAccess): number {
    let at = this.#of.get(strided);
    if (at === undefined) this.#of.set(strided, at = this.#at.get(this.#key(this.#pointer(strided)))!);
    return at;
  }
  #base({ strided }: Use): { base: number; begin: number } {
    const at = this.#pointerOf(strided), place = this.#places[at], { begin } = this.#pointers[at];
    if (typeof place === "number") return { base: place, begin };
    this.printer.asm.load(ADDRESS, { base: RSP, disp: place.stack });
    return { base: ADDRESS, begin };
  }
  /** The first lane; a stride that is neither 0 nor 1 takes a register. */
  #memory(use: Use): MemoryOperand {
    const { strided, copy } = use, { asm } = this.printer;
    const { base, begin } = this.#base(use);
    const bytes = ELEMENT_BYTES[strided.kind], stride = strided.strides[this.outer];
    const steps = copy * this.#lanes + (this.indexed ? 0 : this.from);
    const disp = (strided.offset + steps * stride) * bytes - begin, { spot } = strided;
    if (!this.indexed || stride === 0) return { base, disp, spot, unit: bytes };
    if (stride === 1) return { base, index: this.index, scale: bytes, disp, spot, unit: bytes };
    asm.multiply(COUNT, this.index, stride * bytes);
    asm.addRegister(COUNT, base);
    return { base: COUNT, disp, spot, unit: bytes };
  }
  /** One value of a strided access that the inner dimension does not move. */
  single(strided: StridedAccess): MemoryOperand {
    return this.#memory({
      strided: { ...strided, strides: [...strided.strides.slice(0, this.outer), 0] },
      copy: 0,
      tail: false,
    });
  }

  operand(access: number): MemoryOperand | null {
    const use = this.#uses[access], { strided } = use;
    if (use.stack !== undefined || use.tail || strided.kind !== "f32") return null;
    const stride = strided.strides[this.outer];
    const place = this.#places[this.#pointerOf(strided)];
    if (typeof place !== "number") return null;
    if (stride === 1) return this.#memory(use);
    if (stride !== 0 || this.printer.isa !== "avx512") return null;
    return { ...this.#memory(use), broadcast: true };
  }

  // Reading and writing.

  load(access: number, to: number, temporary: () => number): void {
    const use = this.#uses[access], { asm } = this.printer;
    if (use.stack !== undefined) return asm.vector(VECTOR.vmovups, to, 0, { base: RSP, disp: use.stack });
    const stride = use.strided.strides[this.outer];
    switch (use.strided.kind) {
      case "f32":
        if (stride === 0) return asm.vector(VECTOR.vbroadcastss, to, 0, this.#memory(use));
        if (stride === 1) return this.#loadRow(use, to);
        return this.#gather(use, to, stride, temporary);
      case "i64":
        if (stride === 0) asm.vector(VECTOR.vbroadcastss, to, 0, this.#memory(use)); // its low half
        else if (stride === 1 && !(use.tail && asm.isa === "avx2")) this.#loadWhole(use, to, temporary);
        else this.#loadLanes(use, to, stride);
        return asm.vector(VECTOR.vcvtdq2ps, to, 0, to);
      case "bool": {
        if (stride === 1 && !(use.tail && asm.isa === "avx2")) {
          asm.vector(VECTOR.vpmovzxbd, to, 0, this.#memory(use), use.tail ? { mask: TAIL, zero: true } : {});
        } else this.#loadLanes(use, to, stride);
        const zero = temporary();
        asm.vector(VECTOR.vpxor, zero, zero, zero);
        return asm.vector(VECTOR.vpsubd, to, zero, to);
      }
    }
  }

  #loadRow(use: Use, to: number): void {
    const { asm } = this.printer, from = this.#memory(use);
    if (!use.tail) return asm.vector(VECTOR.vmovups, to, 0, from);
    if (asm.isa === "avx512") return asm.vector(VECTOR.vmovups, to, 0, from, { mask: TAIL, zero: true });
    asm.vector(VECTOR.vmovups, to, 0, this.tailMask());
    asm.vector(AVX2.vmaskmovps, to, to, from);
  }
  /** All bits in the lanes that count. */
  tailMask(): MemoryOperand {
    return this.printer.lanes((i) => i < this.tailLanes ? 0xffffffff : 0);
  }

  #gather(use: Use, to: number, stride: number, temporary: () => number): void {
    const { asm } = this.printer;
    const indices = temporary();
    asm.vector(VECTOR.vmovups, indices, 0, this.printer.lanes((i) => i * stride | 0));
    const from = this.#memory(use), { base } = from;
    if (asm.isa === "avx512") {
      // The address may stand in the register that a mask is made in.
      if (base === COUNT) asm.move(ADDRESS, COUNT);
      this.setMask(PASSING, use.tail ? this.tailLanes : this.#lanes);
      asm.vector(VECTOR.vpxor, to, to, to);
      return asm.gather(to, indices, { ...from, base: base === COUNT ? ADDRESS : base }, PASSING);
    }
    const mask = temporary();
    const whole = this.printer.lanes(() => 0xffffffff);
    asm.vector(VECTOR.vmovups, mask, 0, use.tail ? this.tailMask() : whole);
    asm.vector(VECTOR.vpxor, to, to, to);
    asm.gather(to, indices, from, mask);
  }

  /** The low halves of i64s. */
  #loadWhole(use: Use, to: number, temporary: () => number): void {
    const { asm } = this.printer, from = this.#memory(use), other = temporary();
    const half = (k: 0 | 1): MemoryOperand => ({ ...from, disp: from.disp! + k * this.#lanes * 4 });
    if (asm.isa === "avx2") {
      asm.vector(VECTOR.vmovups, to, 0, half(0));
      asm.vector(VECTOR.vmovups, other, 0, half(1));
      asm.vector(VECTOR.vshufps, to, to, other, { imm: 0x88 });
      return asm.vector(AVX2.vpermpd, to, 0, to, { imm: 0xd8 });
    }
    const kept: MemoryOperand = from.base === COUNT ? { ...from, base: ADDRESS } : from;
    if (from.base === COUNT) asm.move(ADDRESS, COUNT);
    const read = (k: 0 | 1, register: number) => {
      const lanes = use.tail ? Math.min(8, Math.max(0, this.tailLanes - 8 * k)) : 8;
      if (lanes === 0) return asm.vector(VECTOR.vpxor, register, register, register);
      if (lanes < 8) this.setMask(PASSING, lanes);
      const memory = { ...kept, disp: kept.disp! + 64 * k };
      asm.vector(AVX512.vmovdqu64, register, 0, memory, lanes < 8 ? { mask: PASSING, zero: true } : {});
      asm.vector(AVX512.vpmovqd, register, 0, register);
    };
    read(0, to);
    read(1, other);
    asm.vector(AVX512.vinserti64x4, to, to, other, { imm: 1 });
  }

  /** Lane by lane over the stack: bytes, or the low halves of i64s. */
  #loadLanes(use: Use, to: number, stride: number): void {
    const { asm } = this.printer, from = this.#memory(use);
    const bytes = ELEMENT_BYTES[use.strided.kind];
    const lanes = stride === 0 ? 1 : use.tail ? this.tailLanes : this.#lanes;
    // The address is in a register that is not the one that values pass through.
    asm.address(ADDRESS, from);
    this.printer.withFrame(() => {
      const at = this.printer.reserve(asm.vectorBytes);
      if (lanes < this.#lanes) {
        // These lanes are zero, whatever the stack held: one large lane changes how Sleef computes the others.
        asm.vector(VECTOR.vpxor, to, to, to);
        asm.vector(VECTOR.storeUps, to, 0, { base: RSP, disp: at });
      }
      for (let i = 0; i < lanes; i++) {
        const lane: MemoryOperand = { base: ADDRESS, disp: i * stride * bytes };
        if (bytes === 1) asm.loadByte(COUNT, lane);
        else asm.load32(COUNT, lane);
        asm.store32({ base: RSP, disp: at + 4 * i }, COUNT);
      }
      const memory: MemoryOperand = { base: RSP, disp: at };
      if (stride === 0) asm.vector(VECTOR.vbroadcastss, to, 0, memory);
      else asm.vector(VECTOR.vmovups, to, 0, memory);
    });
  }

  store(access: number, from: number, temporary: () => number): void {
    const use = this.#uses[access], { asm } = this.printer;
    if (use.stack !== undefined) return asm.vector(VECTOR.storeUps, from, 0, { base: RSP, disp: use.stack });
    const stride = use.strided.strides[this.outer];
    if (use.strided.kind !== "f32" || stride === 0) {
      throw new Error(`internal: a kernel stores ${use.strided.kind} with a stride of ${stride}.`);
    }
    if (stride !== 1) return this.#scatter(use, from, stride, temporary);
    const to = this.#memory(use);
    if (!use.tail) return asm.vector(VECTOR.storeUps, from, 0, to);
    if (asm.isa === "avx512") return asm.vector(VECTOR.storeUps, from, 0, to, { mask: TAIL });
    const mask = temporary();
    asm.vector(VECTOR.vmovups, mask, 0, this.tailMask());
    asm.vector(AVX2.storeMaskedPs, from, mask, to);
  }
  #scatter(use: Use, from: number, stride: number, temporary: () => number): void {
    const { asm } = this.printer;
    if (asm.isa === "avx512") {
      const indices = temporary();
      asm.vector(VECTOR.vmovups, indices, 0, this.printer.lanes((i) => i * stride | 0));
      const to = this.#memory(use), { base } = to;
      if (base === COUNT) asm.move(ADDRESS, COUNT);
      this.setMask(PASSING, use.tail ? this.tailLanes : this.#lanes);
      return asm.scatter(from, indices, { ...to, base: base === COUNT ? ADDRESS : base }, PASSING);
    }
    asm.address(ADDRESS, this.#memory(use));
    this.printer.withFrame(() => {
      const at = this.printer.reserve(asm.vectorBytes);
      asm.vector(VECTOR.storeUps, from, 0, { base: RSP, disp: at });
      for (let i = 0; i < (use.tail ? this.tailLanes : this.#lanes); i++) {
        asm.load32(COUNT, { base: RSP, disp: at + 4 * i });
        asm.store32({ base: ADDRESS, disp: i * stride * 4 }, COUNT);
      }
    });
  }
}
