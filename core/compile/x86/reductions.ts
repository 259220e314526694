// Sums and greatest numbers of a group: where they gather while its loops go by, and how lanes and levels become one.
import type { Reduction } from "../kernel.ts";
import { TRUTH } from "./allocation.ts";
import { RSP } from "./assembler.ts";
import { AVX2, AVX512, type MemoryOperand, VECTOR } from "./encodings.ts";
import type { Pointers } from "./pointers.ts";
import { bitsOf, type Printer } from "./printer.ts";
import { COMPARE } from "./steps.ts";

/** Registers that accumulators may take. */
export const ACCUMULATORS = { avx512: 16, avx2: 6 } as const;
/** So many rows are summed up before their sum joins the next level, as libtorch does: errors grow slowly, and alike. */
const CASCADE = 16;
const LEVELS = 3;

/** Where a reduction gathers: in a register for each copy of the loop's body, or on the stack. */
export interface Gathering {
  readonly reduction: Reduction;
  readonly registers: readonly number[];
  /** The sum until now, over the rows that are done. */
  readonly total: number;
  /** Sums over columns: for each level of the cascade, where the copies' sums lie. */
  readonly levels: readonly (readonly number[])[];
}

export class Reductions {
  constructor(readonly printer: Printer, readonly pointers: Pointers) {}

  /** Registers for as many as there is room for; the others gather on the stack. */
  make(
    reductions: readonly Reduction[],
    copies: number,
    totals: ReadonlyMap<Reduction, number>,
  ): Gathering[] {
    const { asm } = this.printer;
    let next = asm.vectorRegisters;
    const room = ACCUMULATORS[asm.isa];
    return reductions.map((reduction, i) => ({
      reduction,
      registers: (i + 1) * copies <= room ? Array.from({ length: copies }, () => --next) : [],
      total: totals.get(reduction)!,
      levels: [],
    }));
  }
  #first({ op }: Reduction): number {
    return op === "sum" ? 0 : bitsOf(-Infinity);
  }
  clearTotal(reduction: Reduction, at: number): void {
    const { printer } = this;
    this.#fill(0, this.#first(reduction));
    printer.asm.vector(VECTOR.storeUps, 0, 0, { base: RSP, disp: at });
  }
  /** Puts what a reduction begins with into a register. */
  begin(reduction: Reduction, register: number): void {
    this.#fill(register, this.#first(reduction));
  }
  clear({ reduction, registers }: Gathering): void {
    for (const register of registers) this.#fill(register, this.#first(reduction));
  }
  #fill(register: number, bits: number): void {
    const { asm } = this.printer;
    if (bits === 0) return asm.vector(VECTOR.vpxor, register, register, register);
    asm.vector(VECTOR.vbroadcastss, register, 0, this.printer.words([bits]));
  }
  /** All copies' registers into the first one. */
  #joined({ reduction, registers: [first, ...others] }: Gathering): number {
    for (const other of others) this.#combine(reduction, first, other);
    return first;
  }
  /** All copies' registers into the total. */
  gather(gathering: Gathering): void {
    const { reduction, registers, total } = gathering, { asm } = this.printer;
    if (registers.length === 0) return;
    const first = this.#joined(gathering);
    asm.vector(VECTOR.vmovups, 0, 0, { base: RSP, disp: total });
    this.#combine(reduction, first, 0);
    asm.vector(VECTOR.storeUps, first, 0, { base: RSP, disp: total });
  }
  /** `into` with `other`, which may be lost; registers 1 and 2 are free. A NaN of either stays. */
  #combine({ op }: Reduction, into: number, other: number, bits?: 128 | 256): void {
    const { asm } = this.printer;
    const extra = bits ? { bits } : {};
    if (op === "sum") return asm.vector(VECTOR.vaddps, into, into, other, extra);
    asm.vector(VECTOR.vmaxps, into, other, into, extra);
    if (asm.isa === "avx512") {
      asm.vector(VECTOR.vcmpps, TRUTH, other, other, { ...extra, imm: COMPARE.unordered });
      asm.vector(VECTOR.vmovups, into, 0, other, { ...extra, mask: TRUTH });
    } else {
      asm.vector(VECTOR.vcmpps, 2, other, other, { ...extra, imm: COMPARE.unordered });
      asm.vector(VECTOR.vpor, into, into, 2, extra);
    }
  }
  /** A row is over: what its registers hold is all of it, and no total was begun. */
  finishRow(gathering: Gathering): void {
    const { reduction, registers, total } = gathering;
    if (registers.length === 0) return this.finish(reduction, total);
    this.#finish(reduction, total, this.#joined(gathering));
  }
  finish(reduction: Reduction, total: number): void {
    this.#finish(reduction, total, { base: RSP, disp: total });
  }
  /** One number of all lanes: in all lanes of the total, and where it is wanted in memory. */
  #finish(reduction: Reduction, total: number, from: number | MemoryOperand): void {
    const { asm } = this.printer;
    asm.vector(VECTOR.vmovups, 0, 0, from);
    if (asm.isa === "avx512") {
      asm.vector(AVX512.vextractf64x4, 0, 0, 1, { imm: 1 });
      this.#combine(reduction, 0, 1, 256);
      asm.vector(AVX512.vextractf32x4, 0, 0, 1, { imm: 1, bits: 256 });
    } else asm.vector(AVX2.vextractf128, 0, 0, 1, { imm: 1 });
    this.#combine(reduction, 0, 1, 128);
    for (const imm of [0x4e, 0xb1]) {
      asm.vector(VECTOR.vpermilps, 1, 0, 0, { imm, bits: 128 });
      this.#combine(reduction, 0, 1, 128);
    }
    if (reduction.to) {
      asm.vector(VECTOR.storeSs, 0, 0, this.pointers.single(reduction.to), { bits: 128 });
    }
    asm.vector(VECTOR.vbroadcastss, 0, 0, 0);
    asm.vector(VECTOR.storeUps, 0, 0, { base: RSP, disp: total });
  }

  storeColumns({ reduction, registers, total }: Gathering, count: number, tail: boolean): void {
    const { to } = reduction;
    if (!to) return;
    const { asm } = this.printer;
    for (let copy = 0; copy < count; copy++) {
      const from = registers[copy] ?? 0;
      if (registers.length === 0) asm.vector(VECTOR.vmovups, 0, 0, { base: RSP, disp: total });
      const use = this.pointers.use({ strided: to, copy, tail: tail && copy === count - 1 });
      let free = 0;
      this.pointers.store(use, from, () => ++free);
    }
  }
  /** After a row: where a level is full, its sum joins the next one. */
  cascade(gatherings: readonly Gathering[], counters: readonly number[]): void {
    const { asm } = this.printer, summed = gatherings.filter(({ levels }) => levels.length > 0);
    const done = asm.label();
    counters.forEach((counter, level) => {
      asm.subtract({ base: RSP, disp: counter }, 1);
      asm.jump("notZero", done);
      asm.storeNumber({ base: RSP, disp: counter }, CASCADE);
      for (const { registers, levels } of summed) {
        registers.forEach((register, copy) => {
          const into: MemoryOperand = { base: RSP, disp: levels[level][copy] };
          if (level === 0) {
            asm.vector(VECTOR.vaddps, register, register, into);
            asm.vector(VECTOR.storeUps, register, 0, into);
            asm.vector(VECTOR.vpxor, register, register, register);
          } else {
            const full = levels[level - 1][copy];
            asm.vector(VECTOR.vmovups, 0, 0, { base: RSP, disp: full });
            asm.vector(VECTOR.vaddps, 0, 0, into);
            asm.vector(VECTOR.storeUps, 0, 0, into);
            this.#storeZero(full);
          }
        });
      }
    });
    asm.bind(done);
  }
  #storeZero(place: number): void {
    const { asm } = this.printer;
    asm.vector(VECTOR.vpxor, 0, 0, 0);
    asm.vector(VECTOR.storeUps, 0, 0, { base: RSP, disp: place });
  }

  /** Counters of the levels of sums over so many rows, on the stack. */
  counters(rows: number): number[] {
    const depth = Math.min(LEVELS, Math.ceil(Math.log2(rows) / Math.log2(CASCADE)) - 1);
    return Array.from({ length: Math.max(0, depth) }, () => this.printer.reserve(8));
  }
  withLevels(gathering: Gathering, counters: readonly number[]): Gathering {
    const { reduction, registers } = gathering;
    if (reduction.op !== "sum" || registers.length === 0) return gathering;
    const { vectorBytes } = this.printer.asm;
    const levels = counters.map(() => registers.map(() => this.printer.reserve(vectorBytes)));
    return { ...gathering, levels };
  }
  beginColumns(gatherings: readonly Gathering[], counters: readonly number[]): void {
    for (const gathering of gatherings) {
      if (gathering.reduction.over === "column") this.clearTotal(gathering.reduction, gathering.total);
      this.clear(gathering);
      for (const place of gathering.levels.flat()) this.#storeZero(place);
    }
    for (const counter of counters) this.printer.asm.storeNumber({ base: RSP, disp: counter }, CASCADE);
  }
  /** The levels' sums join those of the last rows. */
  endColumns({ levels, registers }: Gathering): void {
    for (const level of levels) {
      registers.forEach((register, copy) =>
        this.printer.asm.vector(VECTOR.vaddps, register, register, { base: RSP, disp: level[copy] })
      );
    }
  }
}
