// What variables of HDF5 files are to us: their types, and why some can't be used. May import variables (types), ffi's
// data types.
import type { DType } from "../../../ffi/dtype.ts";
import type { Variable } from "../variables.ts";
import { ENUM, FLOAT, INTEGER, TEXT } from "./type.ts";

export interface Hdf5 {
  readonly variables: readonly Variable[];
  /** Written by the netCDF library, whose defaults hold then. */
  readonly isNetcdf: boolean;
}

/** As HDF5's library and our own reader tell it. */
export interface Facts {
  readonly kind: number;
  readonly size: number;
  readonly signed: boolean;
  /** Of an enumeration of bytes. */
  readonly names: ReadonlyMap<string, number> | null;
  /** Null where it holds nothing. */
  readonly shape: readonly number[] | null;
  /** Pieced together from other datasets. */
  readonly virtual: boolean;
  readonly filters: readonly { readonly id: number; readonly name: string }[];
}

const WORDS: Record<number, string> = {
  2: "times",
  4: "bit fields",
  5: "opaque values",
  6: "compound values",
  7: "references",
  9: "rows of unequal length",
  10: "arrays",
};

export function dtypeOf(
  { kind, size, signed, names }: Pick<Facts, "kind" | "size" | "signed" | "names">,
): DType | null {
  if (kind === ENUM && size === 1 && names?.get("FALSE") === 0 && names.size === 2) return "bool";
  if (kind === FLOAT) return ({ 2: "f16", 4: "f32", 8: "f64" } as const)[size] ?? null;
  if (kind !== INTEGER && kind !== ENUM) return null;
  const bits = { 1: 8, 2: 16, 4: 32, 8: 64 }[size];
  return bits ? `${signed ? "i" : "u"}${bits}` as DType : null;
}

/** gzip, shuffle, checksum, n-bit and scale-offset: what every build of the library has. */
const FILTERS = [1, 2, 3, 5, 6];

export function reasonAgainst(facts: Facts): string | undefined {
  const { kind, size, shape, virtual, filters } = facts;
  if (kind === TEXT) return "holds text";
  if (!dtypeOf(facts)) {
    return `holds ${kind === FLOAT ? `floats of ${8 * size} bits` : WORDS[kind] ?? "no numbers"}`;
  }
  if (!shape) return "is empty";
  // Where a source of it is missing, the library would make up fill values.
  if (virtual) return "is pieced together from other files, which is not supported";
  const filter = filters.find(({ id }) => !FILTERS.includes(id));
  return filter &&
    `is compressed with ${filter.name || `filter ${filter.id}`}, which can't be read here (gzip can: ` +
      "h5repack -f GZIP=4 OLD NEW)";
}

export const NUMBERS = /^(_FillValue|missing_value|valid_min|valid_max|valid_range|scale_factor|add_offset)$/;
export const TEXTS = /^(_Unsigned|coordinates|bounds|grid_mapping|units)$/;

/** Their names say that netCDF wrote the file. */
export const NETCDFS = ["_Netcdf4Dimid", "_Netcdf4Coordinates"], NETCDFS_ROOT = "_NCProperties";

/** The NAME of a dataset that is there for a dimension's length alone. */
export const isBareDimension = (name: string): boolean =>
  name.startsWith("This is a netCDF dimension but not a ");

/** netCDF's name for a variable that is called like a dimension it doesn't belong to. */
export const plainName = (name: string): string => name.replace(/(^|\/)_nc4_non_coord_/, "$1");
