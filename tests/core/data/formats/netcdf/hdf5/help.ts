// HDF5 files by our own reader beside the library's reading of them. Test helper.
import { assertEquals } from "@std/assert";
import { byLibrary } from "../../../../../../core/data/formats/netcdf/hdf5/hdf5.ts";
import type { Hdf5 } from "../../../../../../core/data/formats/netcdf/hdf5/datatype.ts";
import type { Variable } from "../../../../../../core/data/arrays/table.ts";
import { UserError } from "../../../../../../core/base/errors.ts";

/** All that is told of variables but their values. */
export const described = (variables: readonly Variable[]) =>
  variables.map(({ attributes, read: _, rows: __, ...facts }) => ({
    ...facts,
    unusable: facts.unusable ?? null,
    attributes: Object.fromEntries([...attributes].sort(([a], [b]) => a < b ? -1 : 1)),
  }));

/** A damaged size asks for more than a test has time for. */
const MOST = 2 ** 20;

/** The values; null where they can't be read, which is said in a sentence. */
export function valuesOf({ unusable, shape, read }: Variable): Uint8Array | null {
  if (unusable || shape.reduce((total, size) => total * size, 1) > MOST) return null;
  try {
    return read();
  } catch (error) {
    if (error instanceof UserError) return null;
    throw error;
  }
}

/** Asserts that the library finds the same where it can read; whether it could open the file. */
export function sameByLibrary(path: string, own: Hdf5): boolean {
  const values = own.variables.map(valuesOf); // before the library may refuse
  let opened = false;
  try {
    byLibrary(path, (theirs) => {
      opened = true;
      assertEquals(own.isNetcdf, theirs.isNetcdf);
      assertEquals(described(own.variables), described(theirs.variables));
      theirs.variables.forEach((variable, i) => {
        const expected = values[i] && valuesOf(variable);
        if (!expected) return;
        assertEquals(values[i]!.length, expected.length, variable.name);
        const at = expected.findIndex((byte, k) => byte !== values[i]![k]);
        assertEquals(at, -1, `${path}: ${variable.name} differs from byte ${at} on`);
      });
    });
  } catch (error) {
    if (opened || !(error instanceof UserError)) throw error;
  }
  return opened;
}
