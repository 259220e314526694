// The file that predictions are written to, by how its name ends. May import errors, data's npz, its siblings.
import { dirname } from "../../deps/path.ts";
import { checkDisk, writing } from "../data/packed/faults.ts";
import { writeArrays } from "../data/packed/npz_file.ts";
import { UserError } from "../errors.ts";
import { isThere } from "../there.ts";
import { VERSION } from "../version.ts";
import { bytesOf, type Column, piecesOf } from "./columns.ts";
import { checkCsv, writeCsv } from "./csv.ts";
import { checkNetcdf, writeNetcdf } from "./netcdf.ts";

interface Writer {
  /** Refuses what such a file can't hold. */
  check(columns: readonly Column[]): void;
  write(path: string, columns: readonly Column[], command: string): void;
}

const WRITERS: Readonly<Record<string, Writer>> = {
  ".npz": { check: () => {}, write: (path, columns) => void writeArrays(path, columns.map(asArray)) },
  ".csv": { check: checkCsv, write: writeCsv },
  ".nc": {
    check: checkNetcdf,
    write: (path, columns, command) => writeNetcdf(path, columns, `hpctrain ${VERSION}: ${command}`),
  },
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
  if (isThere(path)) {
    throw new UserError("usage", `${path} exists already: name another file, or delete it first.`);
  }
  writing(path, () => Deno.mkdirSync(dirname(path), { recursive: true }));
}

/** Found out when the first predictions are there, and what all of them will take is known. */
export function checkRoomFor(path: string, columns: readonly Column[]): void {
  WRITERS[endingOf(path)!].check(columns);
  const bytes = columns.reduce((sum, column) => sum + bytesOf(column), 0);
  // Once as they come, and once in the file.
  checkDisk(
    `Predicting to ${path}`,
    dirname(path),
    2 * bytes,
    "Free some space, or name a file on another disk.",
  );
}

export function writePredictions(path: string, columns: readonly Column[], command: string): void {
  WRITERS[endingOf(path)!].write(path, columns, command);
}

const asArray = (column: Column) => ({
  ...column,
  *pieces() {
    for (const { buffer, byteOffset, byteLength } of piecesOf(column)) {
      yield new Uint8Array(buffer, byteOffset, byteLength);
    }
  },
});
