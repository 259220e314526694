// The file that predictions are written to, by how its name ends. May import errors, data's npz, its siblings.
import { writeArrays } from "../data/packed/npz_file.ts";
import { UserError } from "../errors.ts";
import { VERSION } from "../version.ts";
import type { Column } from "./columns.ts";
import { writeCsv } from "./csv.ts";
import { writeNetcdf } from "./netcdf.ts";

const WRITERS: Readonly<Record<string, (path: string, columns: readonly Column[], command: string) => void>> =
  {
    ".npz": (path, columns) => void writeArrays(path, columns.map(asArray)),
    ".csv": writeCsv,
    ".nc": (path, columns, command) => writeNetcdf(path, columns, `hpctrain ${VERSION}: ${command}`),
  };

const endingOf = (path: string) => Object.keys(WRITERS).find((ending) => path.endsWith(ending));

/** Found out before anything is computed. */
export function checkOut(path: string): void {
  if (endingOf(path) === undefined) {
    throw new UserError(
      "usage",
      `--out ${path}: the file's name should end in ${Object.keys(WRITERS).join(", ")}.`,
    );
  }
  try {
    Deno.statSync(path);
  } catch {
    return; // not there, as it should be
  }
  throw new UserError("usage", `${path} exists already: name another file, or delete it first.`);
}

export function writePredictions(path: string, columns: readonly Column[], command: string): void {
  WRITERS[endingOf(path)!](path, columns, command);
}

const asArray = ({ name, dtype, shape, values }: Column) => ({
  name,
  dtype,
  shape,
  *pieces() {
    yield new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
  },
});
