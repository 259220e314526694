// Rows of an HDF5 dataset by its library, for all that is not read in place: slabs of rows, of which some are kept.
// May import its siblings, hdf5.
import { UserError } from "../../errors.ts";
import { followOtherFiles, openHdf5, reasonOf, refuseElsewhere } from "../hdf5_library.ts";
import { BadSample } from "../reading/reader.ts";
import { product } from "./chunk_grid.ts";
import type { LibraryRows, RowReader } from "./rows.ts";

/** Slabs that are kept at most, beside the newest. */
const KEPT_BYTES = 16 * 2 ** 20;

export function openLibraryRows(rows: LibraryRows): RowReader {
  const { file, dataset, shape, lead, width, together } = rows;
  if (rows.elsewhere) followOtherFiles(true); // in this thread
  const { slice, close } = openHdf5(file.path, dataset, width);
  const [first, ...rest] = shape;
  const bytes = product(shape.slice(lead)) * width;
  const inSlab = together * product(shape.slice(1, lead));
  const most = Math.max(1, Math.floor(KEPT_BYTES / (together * product(rest) * width)));
  const kept = new Map<number, Uint8Array>();
  const orBad = (read: () => Uint8Array): Uint8Array => {
    try {
      return read();
    } catch (cause) {
      if (cause instanceof UserError && cause.kind === "memory") throw cause;
      refuseElsewhere(`${file.path}: ${dataset}`, cause);
      throw new BadSample(
        file.path,
        `lies in a part of "${dataset}" that the HDF5 library can't read: ${reasonOf(cause)}`,
        { cause },
      );
    }
  };
  const read = (slab: number): Uint8Array => {
    const from = slab * together;
    const values = orBad(() =>
      slice([from, ...rest.map(() => 0)], [Math.min(together, first - from), ...rest])
    );
    // The library takes what is missing at the end of a file for zeros.
    if (Deno.statSync(file.path).size >= file.size) return values;
    throw new UserError(
      "data",
      `${file.path} became shorter while it was being read: is something else writing it?`,
    );
  };
  return {
    read(row, into) {
      const slab = Math.floor(row / inSlab);
      const values = kept.get(slab) ?? read(slab);
      kept.delete(slab); // and in again, as the newest
      kept.set(slab, values);
      if (kept.size > most) kept.delete(kept.keys().next().value!);
      const at = row % inSlab * bytes;
      into.set(values.subarray(at, at + bytes));
    },
    groupOf: inSlab === 1 ? undefined : (row) => Math.floor(row / inSlab),
    close,
  };
}
