// Prints a product of matrices. A tile of C stays in registers while k goes by: each number of A is repeated over a
// vector of B's row. B's columns are gathered in scratch memory, a panel at a time, where they don't lie side by side.
import type { BlasKernel, GemmKernel, GroupKernel, Isa, Stage, Walk } from "../kernel.ts";
import {
  type Assembler,
  AVX2,
  AVX512,
  type Memory,
  R10,
  R11,
  R12,
  R13,
  R14,
  R8,
  R9,
  RAX,
  RCX,
  RDI,
  RDX,
  RSI,
  RSP,
  VECTOR,
} from "./assembler.ts";
import type { Batch, Repeat } from "./batches.ts";
import { printGroup } from "./group.ts";
import { BYTES } from "./pointers.ts";
import type { Printer } from "./printer.ts";

/** Rows of a tile by its vectors of columns: so many sums fill the registers. */
const MOST_ROWS = {
  avx512: { 1: 14, 2: 12, 3: 8, 4: 6 },
  avx2: { 1: 6, 2: 6 },
} as const satisfies Record<string, Record<number, number>>;
const MOST_VECTORS = { avx512: 4, avx2: 2 } as const;
/** A panel of B this large stays in the second cache. */
const PANEL_BYTES = 512 << 10;
/** B is used as it lies up to this size. */
const SMALL_BYTES = 256 << 10;
/** Or where so few rows use it that gathering costs more than it gives. */
const FEW_ROWS = 24;
/** A product up to this size is still in the first cache when its epilogue comes; others have theirs tile by tile. */
const NEAR_BYTES = 32 << 10;
const TAIL = 1, PART = 2;
/** B panel's and A's place, C's and A's rows, the panel's begin, counts. */
const FROM_B = RDI, FROM_A = RSI, ROWS_A = R8, ROWS_C = R9, PANEL = R10, COLUMNS_C = R13, COLUMNS_B = R12;

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

interface Matrix {
  readonly walk: Walk;
  /** Bytes from one row and one column to the next. */
  readonly row: number;
  readonly column: number;
  /** Its address lies there, if not in the table. */
  readonly place?: Memory;
}

const matrix = (walk: Walk, place?: Memory): Matrix => ({
  ...{ walk, row: 4 * walk.strides[0], column: 4 * walk.strides[1] },
  place,
});
const transposed = (one: Matrix): Matrix => ({ ...one, row: one.column, column: one.row });

/** The product again and again, its matrices' places in the frame. */
export function printBatch(printer: Printer, { product, repeats }: Batch): void {
  const { asm } = printer, operands = [product.a, product.b, product.c];
  printer.withFrame(() => {
    const at = printer.reserve(8 * operands.length);
    const place = (i: number): Memory => ({ base: RSP, disp: at + 8 * i });
    operands.forEach((walk, i) => {
      printer.place(RAX, walk.slot, 4 * walk.offset);
      asm.store(place(i), RAX);
    });
    const advance = ({ a, b, c }: Repeat, times: number) =>
      [a, b, c].forEach((step, i) => step !== 0 && asm.add(place(i), 4 * step * times));
    const repeat = (level: number): void => {
      if (level === repeats.length) return printGemm(printer, product, place);
      const one = repeats[level], counter: Memory = { base: RSP, disp: printer.reserve(8) };
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
export function printGemm(printer: Printer, kernel: GemmKernel, places?: (operand: number) => Memory): void {
  const { m, n, k, epilogue } = kernel;
  const [a, b, c] = [kernel.a, kernel.b, kernel.c].map((walk, i) => matrix(walk, places?.(i)));
  const dots = !places && n === 1 && a.column === 4 && b.row === 4 && k > 1 && !kernel.add;
  const inTiles = !dots && m * n * 4 > NEAR_BYTES ? epilogue : null;
  const print = (...operands: [number, number, Matrix, Matrix, Matrix, Stage | null]) =>
    printer.withFrame(() => new Gemm(printer, k, kernel.add, kernel.name, ...operands).print());
  if (dots) printGroup(printer, dotProducts(kernel));
  else if (n === 1 || c.column === 4) print(m, n, a, b, c, inTiles);
  else if (m === 1 || c.row === 4) {
    print(n, m, transposed(b), transposed(a), transposed(c), inTiles && transposedStage(inTiles));
  } else {throw new Error(
      `internal: the product of ${kernel.name} has neither rows nor columns side by side.`,
    );}
  if (epilogue && !inTiles) printGroup(printer, epilogueGroup(kernel, epilogue));
}

function transposedStage(stage: Stage): Stage {
  const turned = (walk: Walk): Walk => ({ ...walk, strides: walk.strides.toReversed() });
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

function epilogueGroup({ name, m, n, c }: GemmKernel, stage: Stage): GroupKernel {
  const instructions = stage.instructions.map((instruction) =>
    "from" in instruction && instruction.from.slot === -1
      ? { ...instruction, from: { ...c, strides: c.strides } }
      : instruction
  );
  return { kernel: "group", name, sizes: [m, n], stages: [{ ...stage, instructions }] };
}

class Gemm {
  readonly #asm: Assembler;
  readonly #lanes: number;
  /** B is gathered in panels. */
  readonly #packs: boolean;
  readonly #epilogue: TileEpilogue | null;

  constructor(
    readonly printer: Printer,
    readonly k: number,
    readonly add: boolean,
    readonly name: string,
    readonly m: number,
    readonly n: number,
    readonly a: Matrix,
    readonly b: Matrix,
    readonly c: Matrix,
    epilogue: Stage | null,
  ) {
    this.#epilogue = epilogue && new TileEpilogue(printer, name, epilogue);
    this.#asm = printer.asm;
    this.#lanes = this.#asm.lanes;
    const together = b.column === 4 || n === 1;
    this.#packs = !together || k * n * 4 > SMALL_BYTES && m > FEW_ROWS;
  }

  print(): void {
    const { isa } = this.#asm;
    const most = MOST_VECTORS[isa];
    const vectors = Math.ceil(this.n / this.#lanes);
    const deep = Math.max(1, Math.floor(PANEL_BYTES / (most * this.#asm.vectorBytes)));
    for (let from = 0; from < this.k; from += deep) {
      const depth = Math.min(deep, this.k - from), add = this.add || from > 0;
      // Three and three are better than four and two.
      const wide = most === 4 && vectors % 3 === 0 && vectors % 4 !== 0 ? 3 : most;
      const whole = Math.floor(this.n / (wide * this.#lanes));
      const rest = vectors - whole * wide;
      const last = from + depth === this.k;
      this.#begin(from);
      if (last) this.#epilogue?.begin();
      if (whole > 0) {
        this.#overPanels(whole, wide, () => this.#panel(wide, wide * this.#lanes, depth, add, last));
      }
      if (rest > 0) this.#panel(rest, this.n - whole * wide * this.#lanes, depth, add, last);
    }
  }

  #address(to: number, { walk, place }: Matrix, more: number): void {
    if (!place) return this.printer.place(to, walk.slot, 4 * walk.offset + more);
    this.#asm.load(to, place);
    this.#asm.add(to, more);
  }
  #begin(from: number): void {
    this.#address(COLUMNS_B, this.b, from * this.b.row);
    this.#address(COLUMNS_C, this.c, 0);
    this.#address(R14, this.a, from * this.a.column);
  }
  #overPanels(count: number, vectors: number, panel: () => void): void {
    const asm = this.#asm, again = asm.label();
    const counter: Memory = { base: RSP, disp: this.printer.reserve(8) };
    asm.storeNumber(counter, count);
    asm.bind(again);
    panel();
    asm.add(COLUMNS_B, vectors * this.#lanes * this.b.column);
    asm.add(COLUMNS_C, vectors * this.#lanes * 4);
    asm.subtract(counter, 1);
    asm.jump("notZero", again);
  }
  #setMask(mask: number, lanes: number): void {
    if (this.#asm.isa !== "avx512") return;
    this.#asm.moveNumber(RAX, 2 ** lanes - 1);
    this.#asm.setMask(mask, RAX);
  }

  /** Columns of C: `vectors` vectors, of which the last may be a part. */
  #panel(vectors: number, columns: number, depth: number, add: boolean, last: boolean): void {
    const asm = this.#asm, tail = columns % this.#lanes;
    if (tail > 0) this.#setMask(TAIL, tail);
    if (this.#packs) this.#pack(vectors, columns, depth);
    else asm.move(PANEL, COLUMNS_B);
    asm.move(ROWS_A, R14);
    asm.move(ROWS_C, COLUMNS_C);
    const most = (MOST_ROWS[asm.isa] as Record<number, number>)[vectors];
    const rows = tileRows(this.m, most);
    const times = Math.floor(this.m / rows), left = this.m % rows;
    const tile = (count: number) => {
      this.#tile(count, vectors, tail, depth, add, last);
      if (last) this.#epilogue?.advance(count, 0);
    };
    if (times > 1) {
      const again = asm.label();
      asm.moveNumber(RDX, times);
      asm.bind(again);
      tile(rows);
      asm.subtract(RDX, 1);
      asm.jump("notZero", again);
    } else tile(rows);
    if (left > 0) tile(left);
    if (last) this.#epilogue?.advance(-this.m, columns);
  }

  #tile(rows: number, vectors: number, tail: number, depth: number, add: boolean, last: boolean): void {
    const asm = this.#asm;
    const sum = (row: number, j: number) => asm.vectorRegisters - 1 - (row * vectors + j);
    const number = vectors; // the repeated number of A; vectors of B stand before it
    const partial = (j: number) => tail > 0 && j === vectors - 1;
    for (let row = 0; row < rows; row++) {
      for (let j = 0; j < vectors; j++) {
        if (add) this.#load(sum(row, j), { base: ROWS_C, disp: this.#at(row, j) }, partial(j) ? tail : 0);
        else asm.vector(VECTOR.vpxor, sum(row, j), sum(row, j), sum(row, j));
      }
    }
    asm.move(FROM_A, ROWS_A);
    asm.move(FROM_B, PANEL);
    const rowB = this.#packs ? vectors * asm.vectorBytes : this.b.row;
    const step = (at: number) => {
      for (let j = 0; j < vectors; j++) {
        const from = { base: FROM_B, disp: at * rowB + j * asm.vectorBytes };
        this.#load(j, from, partial(j) && !this.#packs ? tail : 0);
      }
      for (let row = 0; row < rows; row++) {
        const from: Memory = { base: FROM_A, disp: row * this.a.row + at * this.a.column };
        if (vectors === 1 && asm.isa === "avx512") {
          asm.vector(VECTOR.vfmadd231ps, sum(row, 0), 0, { ...from, broadcast: true });
          continue;
        }
        asm.vector(VECTOR.vbroadcastss, number, 0, from);
        for (let j = 0; j < vectors; j++) asm.vector(VECTOR.vfmadd231ps, sum(row, j), number, j);
      }
    };
    const unrolled = depth <= 8 ? depth : 4;
    const times = Math.floor(depth / unrolled), left = depth % unrolled;
    const steps = (count: number) => {
      for (let at = 0; at < count; at++) step(at);
    };
    if (times > 1) {
      const again = asm.label();
      asm.moveNumber(RCX, times);
      asm.bind(again);
      steps(unrolled);
      asm.add(FROM_A, unrolled * this.a.column);
      asm.add(FROM_B, unrolled * rowB);
      asm.subtract(RCX, 1);
      asm.jump("notZero", again);
    } else steps(unrolled);
    steps(left);
    if (last && this.#epilogue) {
      const columns = tail > 0 ? (vectors - 1) * this.#lanes + tail : vectors * this.#lanes;
      this.#epilogue.print(rows, columns, vectors, sum);
      if (tail > 0) this.#setMask(TAIL, tail); // the epilogue's loops have one of their own
    } else this.#storeTile(rows, vectors, tail, sum);
    asm.add(ROWS_A, rows * this.a.row);
    asm.add(ROWS_C, rows * this.c.row);
  }
  #storeTile(rows: number, vectors: number, tail: number, sum: (row: number, j: number) => number): void {
    const partial = (j: number) => tail > 0 && j === vectors - 1;
    for (let row = 0; row < rows; row++) {
      for (let j = 0; j < vectors; j++) {
        this.#store({ base: ROWS_C, disp: this.#at(row, j) }, sum(row, j), partial(j) ? tail : 0);
      }
    }
  }
  #at(row: number, j: number): number {
    return row * this.c.row + j * this.#asm.vectorBytes;
  }

  /** `tail`: so many lanes; 0 for all. Register 3 is free with AVX2. */
  #load(to: number, from: Memory, tail: number): void {
    const asm = this.#asm;
    if (tail === 0) return asm.vector(VECTOR.vmovups, to, 0, from);
    if (asm.isa === "avx512") return asm.vector(VECTOR.vmovups, to, 0, from, { mask: TAIL, zero: true });
    asm.vector(VECTOR.vmovups, to, 0, this.#lanesMask(tail));
    asm.vector(AVX2.vmaskmovps, to, to, from);
  }
  #store(to: Memory, from: number, tail: number): void {
    const asm = this.#asm;
    if (tail === 0) return asm.vector(VECTOR.storeUps, from, 0, to);
    if (asm.isa === "avx512") return asm.vector(VECTOR.storeUps, from, 0, to, { mask: TAIL });
    asm.vector(VECTOR.vmovups, 0, 0, this.#lanesMask(tail));
    asm.vector(AVX2.storeMaskedPs, from, 0, to);
  }
  #lanesMask = (lanes: number): Memory => this.printer.lanes((i) => i < lanes ? 0xffffffff : 0);

  // Panels: [k][columns of the panel], the columns filled up with zeros to whole vectors.

  #pack(vectors: number, columns: number, depth: number): void {
    const asm = this.#asm, rowBytes = vectors * asm.vectorBytes;
    this.printer.scratch(PANEL, depth * rowBytes, PANEL_BYTES);
    asm.move(FROM_B, COLUMNS_B);
    asm.move(R11, PANEL);
    if (this.b.column === 4) return this.#packRows(vectors, columns, depth, rowBytes);
    if (this.b.row === 4) return this.#packColumns(vectors, columns, depth, rowBytes);
    this.#packAny(vectors, columns, depth, rowBytes);
  }
  #times(count: number, body: () => void): void {
    const asm = this.#asm;
    if (count === 0) return;
    if (count === 1) return body();
    const again = asm.label();
    asm.moveNumber(RCX, count);
    asm.bind(again);
    body();
    asm.subtract(RCX, 1);
    asm.jump("notZero", again);
  }
  #packRows(vectors: number, columns: number, depth: number, rowBytes: number): void {
    const asm = this.#asm, tail = columns % this.#lanes;
    this.#times(depth, () => {
      for (let j = 0; j < vectors; j++) {
        const last = tail > 0 && j === vectors - 1;
        this.#load(j, { base: FROM_B, disp: j * asm.vectorBytes }, last ? tail : 0);
        asm.vector(VECTOR.storeUps, j, 0, { base: R11, disp: j * asm.vectorBytes });
      }
      asm.add(FROM_B, this.b.row);
      asm.add(R11, rowBytes);
    });
  }
  /** Squares of columns that each lie side by side are turned. */
  #packColumns(vectors: number, columns: number, depth: number, rowBytes: number): void {
    const asm = this.#asm, lanes = this.#lanes;
    const squares = (deep: number) => {
      for (let j = 0; j < vectors; j++) {
        const rows = Math.min(lanes, columns - j * lanes);
        for (let i = 0; i < lanes; i++) {
          if (i >= rows) asm.vector(VECTOR.vpxor, i, i, i);
          else this.#loadPart(i, { base: FROM_B, disp: (j * lanes + i) * this.b.column }, deep);
        }
        const turned = asm.isa === "avx512" ? turn16(asm) : turn8(asm);
        for (let i = 0; i < deep; i++) {
          asm.vector(VECTOR.storeUps, turned[i], 0, { base: R11, disp: i * rowBytes + j * asm.vectorBytes });
        }
      }
      asm.add(FROM_B, deep * 4);
      asm.add(R11, deep * rowBytes);
    };
    const rest = depth % lanes;
    this.#times(Math.floor(depth / lanes), () => squares(lanes));
    if (rest === 0) return;
    this.#setMask(PART, rest);
    squares(rest);
  }
  #loadPart(to: number, from: Memory, lanes: number): void {
    const asm = this.#asm;
    if (lanes === this.#lanes) return asm.vector(VECTOR.vmovups, to, 0, from);
    if (asm.isa === "avx512") return asm.vector(VECTOR.vmovups, to, 0, from, { mask: PART, zero: true });
    asm.vector(VECTOR.vmovups, to, 0, this.#lanesMask(lanes));
    asm.vector(AVX2.vmaskmovps, to, to, from);
  }
  /** One number after the other. */
  #packAny(vectors: number, columns: number, depth: number, rowBytes: number): void {
    const asm = this.#asm;
    this.#times(depth, () => {
      for (let i = 0; i < vectors * this.#lanes; i++) {
        if (i < columns) asm.load32(RAX, { base: FROM_B, disp: i * this.b.column });
        else asm.moveNumber(RAX, 0);
        asm.store32({ base: R11, disp: 4 * i }, RAX);
      }
      asm.add(FROM_B, this.b.row);
      asm.add(R11, rowBytes);
    });
  }
}

/** The registers of a product that the epilogue's loops would change. */
const KEPT = [RDX, ROWS_A, ROWS_C, PANEL, COLUMNS_B, COLUMNS_C, R14];
const TILE_BYTES = 2048;

/** Pointwise work on a tile of the product, which passes over the stack. */
class TileEpilogue {
  readonly #walks: Walk[] = [];
  /** Pointers to each walk's number at the tile's first one, and to the tile, in the frame. */
  readonly #pointers: number;
  readonly #tile: number;
  readonly #kept: number;

  constructor(readonly printer: Printer, readonly name: string, readonly stage: Stage) {
    const add = (walk: Walk) => void (walk.slot === -1 || this.#walks.push(walk));
    for (const one of stage.instructions) if ("from" in one) add(one.from);
    for (const { to } of stage.stores) add(to);
    this.#pointers = printer.reserve(8 * (this.#walks.length + 1));
    this.#kept = printer.reserve(8 * KEPT.length);
    this.#tile = printer.reserve(TILE_BYTES);
  }

  #place = (i: number): Memory => ({ base: RSP, disp: this.#pointers + 8 * i });

  begin(): void {
    const { asm } = this.printer;
    asm.address(RAX, { base: RSP, disp: this.#tile });
    asm.store(this.#place(0), RAX);
    this.#walks.forEach(({ slot, offset, kind }, i) => {
      this.printer.place(RAX, slot, offset * BYTES[kind]);
      asm.store(this.#place(i + 1), RAX);
    });
  }
  advance(rows: number, columns: number): void {
    this.#walks.forEach(({ strides: [row, column], kind }, i) => {
      const bytes = (rows * row + columns * column) * BYTES[kind];
      if (bytes !== 0) this.printer.asm.add(this.#place(i + 1), bytes);
    });
  }
  print(rows: number, columns: number, vectors: number, sum: (row: number, j: number) => number): void {
    const { asm } = this.printer;
    for (let row = 0; row < rows; row++) {
      for (let j = 0; j < vectors; j++) {
        const disp = this.#tile + (row * vectors + j) * asm.vectorBytes;
        asm.vector(VECTOR.storeUps, sum(row, j), 0, { base: RSP, disp });
      }
    }
    KEPT.forEach((register, i) => asm.store({ base: RSP, disp: this.#kept + 8 * i }, register));
    // The walks' slots are the places of their pointers here: -1 the tile, -2 the first walk.
    const here = (walk: Walk): Walk => {
      if (walk.slot === -1) return { ...walk, offset: 0, strides: [vectors * asm.lanes, 1] };
      return { ...walk, offset: 0, slot: -2 - this.#walks.indexOf(walk) };
    };
    const stage: Stage = {
      instructions: this.stage.instructions.map((one) =>
        "from" in one ? { ...one, from: here(one.from) } : one
      ),
      stores: this.stage.stores.map((store) => ({ ...store, to: here(store.to) })),
      reductions: [],
    };
    const group: GroupKernel = { kernel: "group", name: this.name, sizes: [rows, columns], stages: [stage] };
    printGroup(this.printer, group, (slot) => slot < 0 ? this.#place(-1 - slot) : null);
    KEPT.forEach((register, i) => asm.load(register, { base: RSP, disp: this.#kept + 8 * i }));
  }
}

/** The most rows that divide all; else the most. */
function tileRows(m: number, most: number): number {
  if (m <= most) return m;
  for (let rows = most; 2 * rows > most; rows--) if (m % rows === 0) return rows;
  return most;
}

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
function turn16(asm: Assembler): number[] {
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
function turn8(asm: Assembler): number[] {
  const helper = (i: number) => 8 + i;
  turnFours(asm, 8, AVX2);
  for (let i = 0; i < 4; i++) {
    asm.vector(AVX2.vperm2f128, helper(i), i, 4 + i, { imm: 0x20 });
    asm.vector(AVX2.vperm2f128, helper(4 + i), i, 4 + i, { imm: 0x31 });
  }
  return Array.from({ length: 8 }, (_, i) => helper(i));
}
