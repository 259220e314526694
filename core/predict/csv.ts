// Predictions as a table of text, one line a sample. May import checkpoint's atomic writes, errors, columns.
import { writeAll, writeAtomically } from "../checkpoint/atomic.ts";
import { UserError } from "../errors.ts";
import type { Column } from "./columns.ts";

/** More columns than a spreadsheet or a person reads. */
const MOST_COLUMNS = 16_384;
const LINES = 1000;

export function writeCsv(path: string, columns: readonly Column[]): void {
  const cells = columns.flatMap(cellsOf);
  if (cells.length > MOST_COLUMNS) {
    throw new UserError(
      "usage",
      `A csv of these predictions would have ${cells.length} columns: give --out FILE.npz or FILE.nc, which hold maps as they are.`,
    );
  }
  const encoder = new TextEncoder(), samples = columns[0].shape[0];
  writeAtomically(path, (file) => {
    writeAll(file, encoder.encode(cells.map(({ head }) => escaped(head)).join(",") + "\n"));
    for (let from = 0; from < samples; from += LINES) {
      let text = "";
      for (let i = from; i < Math.min(samples, from + LINES); i++) {
        text += cells.map(({ at }) => at(i)).join(",") + "\n";
      }
      writeAll(file, encoder.encode(text));
    }
  });
}

interface Cell {
  readonly head: string;
  at(sample: number): string;
}

function cellsOf({ name, shape, values, names }: Column): Cell[] {
  const each = shape.slice(1).reduce((product, size) => product * size, 1);
  const word = (value: number) => values instanceof Int32Array ? names?.[value] : undefined;
  return Array.from({ length: each }, (_, k) => ({
    head: each === 1 ? name : `${name}_${values instanceof Float32Array && names?.[k] || k}`,
    at: (i) => {
      const value = values[i * each + k];
      return escaped(word(value) ?? shortest(value));
    },
  }));
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
