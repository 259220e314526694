// Panels of a product's B: [k][columns of the panel] side by side, the columns filled up with zeros to whole vectors.
import { type Assembler, R11, RAX, RCX, RDI } from "./assembler.ts";
import { AVX2, AVX512, type MemoryOperand, VECTOR } from "./encodings.ts";
import type { Printer } from "./printer.ts";

/** The mask registers of a panel's last columns, and of what passes. */
export const PANEL_TAIL = 1;
const PART = 2;
const FROM = RDI, TO = R11;

/** Bytes from one row and one column to the next. */
interface PanelStrides {
  readonly row: number;
  readonly column: number;
}

/** The first `lanes` numbers of a vector, zeros behind them; 0 for all. Register 3 is free with AVX2. */
export function loadLanes(
  printer: Printer,
  to: number,
  from: MemoryOperand,
  lanes: number,
  mask: number,
): void {
  const { asm } = printer;
  if (lanes === 0 || lanes === asm.lanes) return asm.vector(VECTOR.vmovups, to, 0, from);
  if (asm.isa === "avx512") return asm.vector(VECTOR.vmovups, to, 0, from, { mask, zero: true });
  asm.vector(VECTOR.vmovups, to, 0, lanesMask(printer, lanes));
  asm.vector(AVX2.vmaskmovps, to, to, from);
}
export const lanesMask = (printer: Printer, lanes: number): MemoryOperand =>
  printer.lanes((i) => i < lanes ? 0xffffffff : 0);

export function setMask({ asm }: Printer, mask: number, lanes: number): void {
  if (asm.isa !== "avx512") return;
  asm.moveNumber(RAX, 2 ** lanes - 1);
  asm.setMask(mask, RAX);
}

/** Gathers B's rows, which begin at RDI, at R11; both are changed, and RAX and RCX. */
export function printPanel(
  printer: Printer,
  b: PanelStrides,
  vectors: number,
  columns: number,
  depth: number,
): void {
  const panel = new Panel(printer, b, vectors, columns, depth);
  if (b.column === 4) panel.byRows();
  else if (b.row === 4) panel.byColumns();
  else panel.byNumbers();
}

class Panel {
  readonly #rowBytes: number;

  constructor(
    readonly printer: Printer,
    readonly b: PanelStrides,
    readonly vectors: number,
    readonly columns: number,
    readonly depth: number,
  ) {
    this.#rowBytes = vectors * printer.asm.vectorBytes;
  }

  byRows(): void {
    const { asm } = this.printer, tail = this.columns % asm.lanes;
    this.#times(this.depth, () => {
      for (let j = 0; j < this.vectors; j++) {
        const last = j === this.vectors - 1, at = j * asm.vectorBytes;
        loadLanes(this.printer, j, { base: FROM, disp: at }, last ? tail : 0, PANEL_TAIL);
        asm.vector(VECTOR.storeUps, j, 0, { base: TO, disp: at });
      }
      this.#advance(this.b.row, 1);
    });
  }
  /** Squares of columns that each lie side by side are turned. */
  byColumns(): void {
    const { lanes } = this.printer.asm, rest = this.depth % lanes;
    this.#times(Math.floor(this.depth / lanes), () => this.#squares(lanes));
    if (rest === 0) return;
    setMask(this.printer, PART, rest);
    this.#squares(rest);
  }
  #squares(deep: number): void {
    const { asm } = this.printer, { lanes } = asm;
    for (let j = 0; j < this.vectors; j++) {
      const rows = Math.min(lanes, this.columns - j * lanes);
      for (let i = 0; i < lanes; i++) {
        const from: MemoryOperand = { base: FROM, disp: (j * lanes + i) * this.b.column };
        if (i < rows) loadLanes(this.printer, i, from, deep, PART);
        else asm.vector(VECTOR.vpxor, i, i, i);
      }
      const turned = asm.isa === "avx512" ? turn16(asm) : turn8(asm);
      for (let i = 0; i < deep; i++) {
        const disp = i * this.#rowBytes + j * asm.vectorBytes;
        asm.vector(VECTOR.storeUps, turned[i], 0, { base: TO, disp });
      }
    }
    this.#advance(deep * 4, deep);
  }
  /** One number after the other. */
  byNumbers(): void {
    const { asm } = this.printer;
    this.#times(this.depth, () => {
      for (let i = 0; i < this.vectors * asm.lanes; i++) {
        if (i < this.columns) asm.load32(RAX, { base: FROM, disp: i * this.b.column });
        else asm.moveNumber(RAX, 0);
        asm.store32({ base: TO, disp: 4 * i }, RAX);
      }
      this.#advance(this.b.row, 1);
    });
  }

  #advance(bytes: number, rows: number): void {
    const { asm } = this.printer;
    asm.add(FROM, bytes);
    asm.add(TO, rows * this.#rowBytes);
  }
  #times(count: number, body: () => void): void {
    const { asm } = this.printer;
    if (count === 0) return;
    if (count === 1) return body();
    const again = asm.label();
    asm.moveNumber(RCX, count);
    asm.bind(again);
    body();
    asm.subtract(RCX, 1);
    asm.jump("notZero", again);
  }
}

// Squares of numbers in vector registers, turned so that columns become rows.

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
