// Panels of a product's B: [k][columns of the panel] side by side, the columns filled up with zeros to whole vectors.
import { R11, RAX, RCX, RDI } from "./assembler.ts";
import { AVX2, type MemoryOperand, VECTOR } from "./encodings.ts";
import type { Printer } from "./printer.ts";
import { turn16, turn8 } from "./turn.ts";

/** The mask registers of a panel's last columns, and of what passes. */
export const PANEL_TAIL = 1;
const PART = 2;
const FROM = RDI, TO = R11;

/** Bytes from one row and one column to the next. */
export interface PanelStrides {
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
