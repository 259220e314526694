// Pointwise work on a tile of a product: on the registers that hold it, or, where that takes too much code or more than
// plain reads and writes, as a group on the stack.
import { ELEMENT_BYTES, type GroupKernel, type Stage, type StridedAccess } from "../kernel.ts";
import { type Accesses, Allocation } from "./allocation.ts";
import { R10, R11, R12, R13, R14, R8, R9, RAX, RCX, RDI, RDX, RSI, RSP } from "./assembler.ts";
import { AVX2, type MemoryOperand, VECTOR } from "./encodings.ts";
import { X86Expressions } from "./expressions.ts";
import { printX86Group } from "./group.ts";
import { lanesMask, loadLanes, PANEL_TAIL } from "./panels.ts";
import type { Printer } from "./printer.ts";
import { type VectorStep, VectorSteps } from "./steps.ts";

/** The registers of a product that a group's loops would change. */
const KEPT = [RDX, R8, R9, R10, R12, R13, R14];
/** Registers that a tile leaves free when its product is done. */
const POINTERS = [RSI, RDI, R11, RCX];
const TILE_BYTES = 2048;
/** So many instructions for all of a tile's vectors. */
const MOST_STEPS = 2000;
/** Bytes of a line of the cache. */
const LINE = 64;

type SumOf = (row: number, vector: number) => number;

export class TileEpilogue {
  readonly #accesses: StridedAccess[] = [];
  /** Pointers to each access's number at the tile's first one, and to the tile, in the frame. */
  readonly #pointers: number;
  readonly #tile: number;
  readonly #kept: number;
  /** Steps of one vector; Infinity where a group's loops are needed. */
  readonly #steps: number;

  /** `exact`: as a group's. */
  constructor(
    readonly printer: Printer,
    readonly name: string,
    readonly exact: boolean,
    readonly stage: Stage,
  ) {
    const add = (strided: StridedAccess) => void (strided.slot === -1 || this.#accesses.push(strided));
    for (const one of stage.instructions) if ("from" in one) add(one.from);
    for (const { to } of stage.stores) add(to);
    this.#pointers = printer.reserve(8 * (this.#accesses.length + 1));
    this.#kept = printer.reserve(8 * KEPT.length);
    this.#tile = printer.reserve(TILE_BYTES);
    const stored = new Set(stage.stores.map(({ to }) => to));
    const plain = this.#accesses.every((strided) =>
      strided.kind === "f32" && (strided.strides[1] === 1 || strided.strides[1] === 0 && !stored.has(strided))
    );
    const steps = plain ? this.#stepsOf((s) => s.add({ op: "load", args: [], access: 0 }), () => 0) : [];
    this.#steps = plain && steps.every(({ op }) => op !== "call") ? steps.length : Infinity;
  }

  #place = (i: number): MemoryOperand => ({ base: RSP, disp: this.#pointers + 8 * i });

  begin(): void {
    const { asm } = this.printer;
    asm.address(RAX, { base: RSP, disp: this.#tile });
    asm.store(this.#place(0), RAX);
    this.#accesses.forEach((strided, i) => {
      this.printer.place(RAX, strided, ELEMENT_BYTES[strided.kind]);
      asm.store(this.#place(i + 1), RAX);
    });
  }
  advance(rows: number, columns: number): void {
    this.#accesses.forEach(({ strides: [row, column], kind }, i) => {
      const bytes = (rows * row + columns * column) * ELEMENT_BYTES[kind];
      if (bytes !== 0) this.printer.asm.add(this.#place(i + 1), bytes);
    });
  }
  /** Fetches what the tile's work reads and writes while the product is computed. */
  prefetch(rows: number, vectors: number): void {
    const { asm } = this.printer;
    const stored = new Set(this.stage.stores.map(({ to }) => to));
    this.#accesses.forEach((strided, i) => {
      const [row, column] = strided.strides;
      if (strided.kind !== "f32" || column !== 1 || row === 0) return;
      asm.load(RAX, this.#place(i + 1));
      for (let k = 0; k < rows; k++) {
        for (let at = 0; at < vectors * asm.vectorBytes; at += LINE) {
          const line: MemoryOperand = { base: RAX, disp: 4 * k * row + at };
          if (stored.has(strided)) asm.prefetchToWrite(line);
          else asm.prefetch(line);
        }
      }
    });
  }
  /** `tail`: lanes of the last vector of a row, 0 for all. */
  print(rows: number, vectors: number, tail: number, sum: SumOf): void {
    if (this.#steps * rows * vectors <= MOST_STEPS) this.#inRegisters(rows, vectors, tail, sum);
    else this.#onStack(rows, vectors, tail, sum);
  }

  // In registers.

  /** One vector's work; `access` gives the number of a strided access's access. */
  #stepsOf(
    product: (steps: VectorSteps) => number,
    access: (strided: StridedAccess) => number,
  ): readonly VectorStep[] {
    const steps = new VectorSteps(this.printer), loaded = new Map<string, number>();
    const load = (strided: StridedAccess): number => {
      const key = strided.slot === -1 ? "" : `${strided.slot} ${strided.offset} ${strided.strides}`;
      const known = loaded.get(key);
      if (known !== undefined) return known;
      const value = strided.slot === -1
        ? product(steps)
        : steps.add({ op: "load", args: [], access: access(strided) });
      loaded.set(key, value);
      return value;
    };
    const sources = {
      load,
      reduced: (): number => {
        throw new Error(`internal: ${this.name} has a sum in a product's tile.`);
      },
    };
    const expressions = new X86Expressions(steps, sources, this.exact, this.stage.instructions);
    for (const { value, to } of this.stage.stores) {
      steps.add({ op: "store", args: [expressions.number(value)], access: access(to) });
    }
    return steps.list;
  }
  #inRegisters(rows: number, vectors: number, tail: number, sum: SumOf): void {
    const { printer, printer: { asm } } = this;
    this.#accesses.forEach((_, i) => i < POINTERS.length && asm.load(POINTERS[i], this.#place(i + 1)));
    const waiting = new Set<number>();
    for (let row = 0; row < rows; row++) for (let j = 0; j < vectors; j++) waiting.add(sum(row, j));
    for (let row = 0; row < rows; row++) {
      for (let j = 0; j < vectors; j++) {
        waiting.delete(sum(row, j));
        const place = (strided: number): TilePlace => {
          const { strides } = this.#accesses[strided];
          const disp = 4 * (row * strides[0] + j * asm.lanes * strides[1]);
          if (strided < POINTERS.length) return { at: { base: POINTERS[strided], disp }, pointer: null };
          return { at: { base: RAX, disp }, pointer: this.#place(strided + 1) };
        };
        const accesses = new TileAccesses(printer, this.#accesses, place, j === vectors - 1 ? tail : 0);
        const steps = this.#stepsOf(
          (s) => s.add({ op: "held", args: [], held: sum(row, j) }),
          (strided) => this.#accesses.indexOf(strided),
        );
        new Allocation(printer, steps, accesses, [...waiting]).emit();
      }
    }
  }

  // On the stack.

  #onStack(rows: number, vectors: number, tail: number, sum: SumOf): void {
    const { asm } = this.printer;
    for (let row = 0; row < rows; row++) {
      for (let j = 0; j < vectors; j++) {
        const disp = this.#tile + (row * vectors + j) * asm.vectorBytes;
        asm.vector(VECTOR.storeUps, sum(row, j), 0, { base: RSP, disp });
      }
    }
    KEPT.forEach((register, i) => asm.store({ base: RSP, disp: this.#kept + 8 * i }, register));
    // The accesses' slots are the places of their pointers here: -1 the tile, -2 the first access.
    const onStack = (strided: StridedAccess): StridedAccess => {
      if (strided.slot === -1) return { ...strided, offset: 0, strides: [vectors * asm.lanes, 1] };
      return { ...strided, offset: 0, slot: -2 - this.#accesses.indexOf(strided), spot: undefined };
    };
    const stage: Stage = {
      instructions: this.stage.instructions.map((one) =>
        "from" in one ? { ...one, from: onStack(one.from) } : one
      ),
      stores: this.stage.stores.map((store) => ({ ...store, to: onStack(store.to) })),
      reductions: [],
    };
    const columns = (tail > 0 ? vectors - 1 : vectors) * asm.lanes + tail;
    const { name, exact } = this;
    const group: GroupKernel = { kernel: "group", name, exact, sizes: [rows, columns], stages: [stage] };
    printX86Group(this.printer, group, (slot) => slot < 0 ? this.#place(-1 - slot) : null);
    KEPT.forEach((register, i) => asm.load(register, { base: RSP, disp: this.#kept + 8 * i }));
  }
}

/** Where a strided access's numbers lie; `pointer` is loaded first, into the address's register. */
interface TilePlace {
  readonly at: MemoryOperand;
  readonly pointer: MemoryOperand | null;
}

/** Accesses of one vector of a tile, by the number of the access. */
class TileAccesses implements Accesses {
  constructor(
    readonly printer: Printer,
    readonly list: readonly StridedAccess[],
    readonly place: (strided: number) => TilePlace,
    readonly tail: number,
  ) {}

  #at(access: number): MemoryOperand {
    const { at, pointer } = this.place(access);
    if (pointer) this.printer.asm.load(at.base, pointer);
    return at;
  }
  #isRow = (access: number): boolean => this.list[access].strides[1] === 1;

  load(access: number, to: number): void {
    const at = this.#at(access);
    if (this.#isRow(access)) loadLanes(this.printer, to, at, this.tail, PANEL_TAIL);
    else this.printer.asm.vector(VECTOR.vbroadcastss, to, 0, at);
  }
  store(access: number, from: number, temporary: () => number): void {
    const { asm } = this.printer, to = this.#at(access);
    if (this.tail === 0) return asm.vector(VECTOR.storeUps, from, 0, to);
    if (asm.isa === "avx512") return asm.vector(VECTOR.storeUps, from, 0, to, { mask: PANEL_TAIL });
    const mask = temporary();
    asm.vector(VECTOR.vmovups, mask, 0, lanesMask(this.printer, this.tail));
    asm.vector(AVX2.storeMaskedPs, from, mask, to);
  }
  afterCall(): void {
    throw new Error("internal: a tile's work calls a function.");
  }
  operand(access: number): MemoryOperand | null {
    const { at, pointer } = this.place(access);
    if (pointer || this.tail > 0) return null;
    if (this.#isRow(access)) return at;
    return this.printer.isa === "avx512" ? { ...at, broadcast: true } : null;
  }
}
