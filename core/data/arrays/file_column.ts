// The file that each sample of joined files is of: --split file and --validate-on file=NAME divide by it.
import { basename } from "../../../deps/path.ts";
import type { Variable } from "./table.ts";

export const FILE_COLUMN = "file";

interface Counted {
  readonly path: string;
  readonly samples: number;
}

/** Files of one name are told apart by their folders. */
export function fileVariable(files: readonly Counted[], dimension: string | null): Variable {
  const names = files.map(({ path }) => basename(path));
  const labels = new Set(names).size === names.length ? names : files.map(({ path }) => path);
  const numbers = Int32Array.from(files.flatMap(({ samples }, i) => Array<number>(samples).fill(i)));
  const bytes = new Uint8Array(numbers.buffer);
  return {
    name: FILE_COLUMN,
    shape: [numbers.length],
    dimensions: [dimension ?? `size ${numbers.length}`],
    dtype: "i32",
    attributes: new Map(),
    auxiliary: true,
    labels,
    read: () => bytes.slice(),
    rows: (lead) => ({
      layout: "held",
      path: files[0].path,
      values: bytes,
      bytes: lead === 0 ? bytes.length : 4,
    }),
  };
}

/** A variable of the data's own that has the name is what users mean. */
export const withFile = <C extends { readonly name: string }>(
  columns: readonly C[],
  file: C | null,
): readonly C[] =>
  file === null || columns.some(({ name }) => name === FILE_COLUMN) ? columns : [...columns, file];
