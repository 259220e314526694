// A product of matrices in tiles. A tile of C stays in registers while k goes by: each number of A is repeated over a
// vector of B's row. B's columns are gathered in scratch memory, a panel at a time, where they don't lie side by side.
import type { Stage, StridedAccess } from "../kernel.ts";
import {
  type Assembler,
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
} from "./assembler.ts";
import { AVX2, type MemoryOperand, VECTOR } from "./encodings.ts";
import { lanesMask, loadLanes, PANEL_TAIL, printPanel, setMask } from "./panels.ts";
import type { Printer } from "./printer.ts";
import { TileEpilogue } from "./tile_epilogue.ts";

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
/** Or where so few rows use it that gathering costs more than it gives: more where its own rows are that short. */
const FEW_ROWS = 24, FEW_OF_SHORT = 128, SHORT_ROW = 1024;
/** Where A's columns lie side by side, each number that is repeated has a line of its own: so many stay in the first caches. */
const TURNED_DEPTH = 128;
/** Bytes of a line of the cache. */
const LINE = 64;
/** B panel's and A's place, C's and A's rows, the panel's begin, counts. */
const FROM_B = RDI, FROM_A = RSI, ROWS_A = R8, ROWS_C = R9, PANEL = R10, COLUMNS_C = R13, COLUMNS_B = R12;

interface Matrix {
  readonly access: StridedAccess;
  /** Bytes from one row and one column to the next. */
  readonly row: number;
  readonly column: number;
  /** Its address lies there, if not in the table. */
  readonly place?: MemoryOperand;
}

export const matrix = (access: StridedAccess, place?: MemoryOperand): Matrix => ({
  ...{ access, row: 4 * access.strides[0], column: 4 * access.strides[1] },
  place,
});
export const transposed = (one: Matrix): Matrix => ({ ...one, row: one.column, column: one.row });

/** C = A B, or C += A B; a stage takes C's place where it is given. */
interface TiledProduct {
  readonly name: string;
  readonly m: number;
  readonly n: number;
  readonly k: number;
  readonly a: Matrix;
  readonly b: Matrix;
  readonly c: Matrix;
  readonly add: boolean;
  /** The kernel's. */
  readonly chain?: number;
  readonly epilogue: Stage | null;
}

/** `times` parts of a product's sum, one after the other. */
interface Part {
  readonly depth: number;
  readonly add: boolean;
  readonly last: boolean;
  times: number;
}

/** Prints it in tiles. C has one column, or its rows' numbers lie side by side. */
export function printTiles(printer: Printer, product: TiledProduct): void {
  printer.withFrame(() => new Tiles(printer, product).print());
}

class Tiles {
  readonly #asm: Assembler;
  readonly #lanes: number;
  /** B is gathered in panels. */
  readonly #packs: boolean;
  readonly #epilogue: TileEpilogue | null;

  constructor(readonly printer: Printer, readonly product: TiledProduct) {
    const { name, m, n, k, b, chain, epilogue } = product;
    this.#epilogue = epilogue && new TileEpilogue(printer, name, chain !== undefined, epilogue);
    this.#asm = printer.asm;
    this.#lanes = this.#asm.lanes;
    const together = b.column === 4 || n === 1;
    const few = n <= SHORT_ROW ? FEW_OF_SHORT : FEW_ROWS;
    this.#packs = !together || k * n * 4 > SMALL_BYTES && m > few;
  }

  print(): void {
    const { a, b, c } = this.product, asm = this.#asm, parts = this.#parts();
    if (parts.length === 1) {
      this.#address(COLUMNS_B, b);
      this.#address(R14, a);
      this.#address(COLUMNS_C, c);
      return this.#part(parts[0]);
    }
    const [inB, inA, counter] = [0, 1, 2].map((): MemoryOperand => ({
      base: RSP,
      disp: this.printer.reserve(8),
    }));
    for (const [one, place] of [[b, inB], [a, inA]] as const) {
      this.#address(RAX, one);
      asm.store(place, RAX);
    }
    for (const part of parts) {
      const again = asm.label();
      asm.storeNumber(counter, part.times);
      asm.bind(again);
      asm.load(COLUMNS_B, inB);
      asm.load(R14, inA);
      this.#address(COLUMNS_C, c);
      this.#part(part);
      asm.add(inB, part.depth * b.row);
      asm.add(inA, part.depth * a.column);
      if (part.times === 1) continue;
      asm.subtract(counter, 1);
      asm.jump("notZero", again);
    }
  }
  /** The sum over k in parts: C is read again for each, and the last one has the epilogue. Equal ones are one loop. */
  #parts(): Part[] {
    const { k, chain, a, add } = this.product, { isa } = this.#asm;
    const panel = Math.floor(PANEL_BYTES / (MOST_VECTORS[isa] * this.#asm.vectorBytes));
    const deep = chain ?? (a.row === 4 && k > 2 * TURNED_DEPTH ? TURNED_DEPTH : Math.max(1, panel));
    const parts: Part[] = [];
    for (let from = 0; from < k; from += deep) {
      const part = {
        depth: Math.min(deep, k - from),
        add: add || from > 0,
        last: from + deep >= k,
        times: 1,
      };
      const before = parts.at(-1);
      if (before && !part.last && before.add === part.add) before.times++;
      else parts.push(part);
    }
    return parts;
  }
  #part({ depth, add, last }: Part): void {
    const most = MOST_VECTORS[this.#asm.isa], vectors = Math.ceil(this.product.n / this.#lanes);
    // Three and three are better than four and two.
    const wide = most === 4 && vectors % 3 === 0 && vectors % 4 !== 0 ? 3 : most;
    const whole = Math.floor(this.product.n / (wide * this.#lanes));
    const rest = vectors - whole * wide;
    if (last) this.#epilogue?.begin();
    if (whole > 0) {
      this.#overPanels(whole, wide, () => this.#panel(wide, wide * this.#lanes, depth, add, last));
    }
    if (rest > 0) this.#panel(rest, this.product.n - whole * wide * this.#lanes, depth, add, last);
  }

  #address(to: number, { access, place }: Matrix): void {
    if (place) this.#asm.load(to, place);
    else this.printer.place(to, access, 4);
  }
  #overPanels(count: number, vectors: number, panel: () => void): void {
    const asm = this.#asm, again = asm.label();
    const counter: MemoryOperand = { base: RSP, disp: this.printer.reserve(8) };
    asm.storeNumber(counter, count);
    asm.bind(again);
    panel();
    asm.add(COLUMNS_B, vectors * this.#lanes * this.product.b.column);
    asm.add(COLUMNS_C, vectors * this.#lanes * 4);
    asm.subtract(counter, 1);
    asm.jump("notZero", again);
  }

  /** Columns of C: `vectors` vectors, of which the last may be a part. */
  #panel(vectors: number, columns: number, depth: number, add: boolean, last: boolean): void {
    const asm = this.#asm, tail = columns % this.#lanes;
    if (tail > 0) setMask(this.printer, PANEL_TAIL, tail);
    if (this.#packs) this.#pack(vectors, columns, depth);
    else asm.move(PANEL, COLUMNS_B);
    asm.move(ROWS_A, R14);
    asm.move(ROWS_C, COLUMNS_C);
    const most = (MOST_ROWS[asm.isa] as Record<number, number>)[vectors];
    for (const { rows, times } of tilesOf(this.product.m, most)) {
      const again = asm.label();
      if (times > 1) {
        asm.moveNumber(RDX, times);
        asm.bind(again);
      }
      this.#tile(rows, vectors, tail, depth, add, last);
      if (last) this.#epilogue?.advance(rows, 0);
      if (times === 1) continue;
      asm.subtract(RDX, 1);
      asm.jump("notZero", again);
    }
    if (last) this.#epilogue?.advance(-this.product.m, columns);
  }

  #tile(rows: number, vectors: number, tail: number, depth: number, add: boolean, last: boolean): void {
    const asm = this.#asm;
    const sum = (row: number, j: number) => asm.vectorRegisters - 1 - (row * vectors + j);
    const number = vectors; // the repeated number of A; vectors of B stand before it
    const partial = (j: number) => tail > 0 && j === vectors - 1;
    const first = add && this.product.chain === undefined, behind = add && !first;
    for (let row = 0; row < rows; row++) {
      for (let j = 0; j < vectors; j++) {
        if (first) this.#load(sum(row, j), { base: ROWS_C, disp: this.#at(row, j) }, partial(j) ? tail : 0);
        else asm.vector(VECTOR.vpxor, sum(row, j), sum(row, j), sum(row, j));
      }
    }
    if (last && this.#epilogue) this.#epilogue.prefetch(rows, vectors);
    else if (!add) this.#prefetchTile(rows, vectors);
    asm.move(FROM_A, ROWS_A);
    asm.move(FROM_B, PANEL);
    const rowB = this.#packs ? vectors * asm.vectorBytes : this.product.b.row;
    const step = (at: number) => {
      for (let j = 0; j < vectors; j++) {
        const from = { base: FROM_B, disp: at * rowB + j * asm.vectorBytes };
        this.#load(j, from, partial(j) && !this.#packs ? tail : 0);
      }
      for (let row = 0; row < rows; row++) {
        const from: MemoryOperand = {
          base: FROM_A,
          disp: row * this.product.a.row + at * this.product.a.column,
        };
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
      asm.add(FROM_A, unrolled * this.product.a.column);
      asm.add(FROM_B, unrolled * rowB);
      asm.subtract(RCX, 1);
      asm.jump("notZero", again);
    } else steps(unrolled);
    steps(left);
    if (behind) this.#addBefore(rows, vectors, tail, sum);
    if (last && this.#epilogue) {
      this.#epilogue.print(rows, vectors, tail, sum);
      if (tail > 0) setMask(this.printer, PANEL_TAIL, tail); // the epilogue's loops have one of their own
    } else this.#storeTile(rows, vectors, tail, sum);
    asm.add(ROWS_A, rows * this.product.a.row);
    asm.add(ROWS_C, rows * this.product.c.row);
  }
  /** C is fetched while the product is computed. */
  #prefetchTile(rows: number, vectors: number): void {
    const asm = this.#asm;
    for (let row = 0; row < rows; row++) {
      for (let at = 0; at < vectors * asm.vectorBytes; at += LINE) {
        asm.prefetchToWrite({ base: ROWS_C, disp: row * this.product.c.row + at });
      }
    }
  }
  /** Adds what C holds to a whole chain. */
  #addBefore(rows: number, vectors: number, tail: number, sum: (row: number, j: number) => number): void {
    const asm = this.#asm;
    for (let row = 0; row < rows; row++) {
      for (let j = 0; j < vectors; j++) {
        const before: MemoryOperand = { base: ROWS_C, disp: this.#at(row, j) };
        if (tail > 0 && j === vectors - 1) {
          this.#load(0, before, tail);
          asm.vector(VECTOR.vaddps, sum(row, j), sum(row, j), 0);
        } else asm.vector(VECTOR.vaddps, sum(row, j), sum(row, j), before);
      }
    }
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
    return row * this.product.c.row + j * this.#asm.vectorBytes;
  }
  #load(to: number, from: MemoryOperand, tail: number): void {
    loadLanes(this.printer, to, from, tail, PANEL_TAIL);
  }
  #store(to: MemoryOperand, from: number, tail: number): void {
    const asm = this.#asm;
    if (tail === 0) return asm.vector(VECTOR.storeUps, from, 0, to);
    if (asm.isa === "avx512") return asm.vector(VECTOR.storeUps, from, 0, to, { mask: PANEL_TAIL });
    asm.vector(VECTOR.vmovups, 0, 0, lanesMask(this.printer, tail));
    asm.vector(AVX2.storeMaskedPs, from, 0, to);
  }

  #pack(vectors: number, columns: number, depth: number): void {
    const asm = this.#asm;
    this.printer.scratch(PANEL, depth * vectors * asm.vectorBytes, PANEL_BYTES);
    asm.move(FROM_B, COLUMNS_B);
    asm.move(R11, PANEL);
    printPanel(this.printer, this.product.b, vectors, columns, depth);
  }
}

/** Tiles of this many rows, one below the other. */
interface Tiling {
  readonly rows: number;
  readonly times: number;
}

/**
 * The fewest tiles: a vector of B that was read serves as many rows as possible. A last tile of few rows would wait for
 * its sums, so it shares with the one before.
 */
function tilesOf(m: number, most: number): Tiling[] {
  const whole = Math.floor(m / most), left = m % most;
  if (left === 0) return [{ rows: most, times: whole }];
  if (whole === 0) return [{ rows: left, times: 1 }];
  if (2 * left > most) return [{ rows: most, times: whole }, { rows: left, times: 1 }];
  const shared = most + left, upper = Math.ceil(shared / 2), lower = shared - upper;
  const tilings = upper === lower
    ? [{ rows: upper, times: 2 }]
    : [{ rows: upper, times: 1 }, { rows: lower, times: 1 }];
  return whole === 1 ? tilings : [{ rows: most, times: whole - 1 }, ...tilings];
}
