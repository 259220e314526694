// Predictions as a table of text, one line a sample. May import checkpoint's atomic writes, errors, columns.
import { writeAll, writeAtomically } from "../checkpoint/atomic.ts";
import { UserError } from "../errors.ts";
import { type Column, elementsOf } from "./columns.ts";

/** More columns than a spreadsheet or a person reads. */
const MOST_COLUMNS = 16_384;
/** Held as text at a time. */
const CELLS = 1 << 16;

export function checkCsv(columns: readonly Column[]): void {
  const cells = columns.reduce((sum, column) => sum + elementsOf(column), 0);
  if (cells <= MOST_COLUMNS) return;
  throw new UserError(
    "usage",
    `A csv of these predictions would have ${cells} columns: give --out FILE.npz or FILE.nc, which hold maps as they are.`,
  );
}

export function writeCsv(path: string, columns: readonly Column[]): void {
  const heads = columns.flatMap(headsOf);
  const lines = Math.max(1, Math.floor(CELLS / heads.length));
  const encoder = new TextEncoder(), samples = columns[0].shape[0];
  writeAtomically(path, (file) => {
    writeAll(file, encoder.encode(heads.map(escaped).join(",") + "\n"));
    for (let from = 0; from < samples; from += lines) {
      const count = Math.min(lines, samples - from);
      const cells = columns.map((column) => cellsOf(column, from, count));
      let text = "";
      for (let i = 0; i < count; i++) text += cells.flatMap((at) => at(i)).join(",") + "\n";
      writeAll(file, encoder.encode(text));
    }
  });
}

function headsOf(column: Column): string[] {
  const { name, names, dtype } = column, each = elementsOf(column);
  return Array.from(
    { length: each },
    (_, k) => each === 1 ? name : `${name}_${dtype === "f32" && names?.[k] || k}`,
  );
}

/** The cells of a sample, by its place among those read. */
function cellsOf(column: Column, from: number, count: number): (i: number) => string[] {
  const values = column.read(from, count), each = elementsOf(column);
  const word = (value: number) => column.dtype === "i32" ? column.names?.[value] : undefined;
  return (i) =>
    Array.from(
      { length: each },
      (_, k) => escaped(word(values[i * each + k]) ?? shortest(values[i * each + k])),
    );
}

/** The shortest text that is this f32 again; nan as Python and spreadsheets read it. */
function shortest(value: number): string {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "nan" : value > 0 ? "inf" : "-inf";
  for (let digits = 6; digits < 9; digits++) {
    const text = Number(value.toPrecision(digits));
    if (Math.fround(text) === value) return String(text);
  }
  return String(value);
}

const escaped = (text: string): string => /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
