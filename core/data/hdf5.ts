// HDF5 files, and NetCDF-4 files, which are HDF5 inside: their datasets as variables. May import errors, arrays,
// hdf5_library, variables.
import type { Dataset, Entity, File, Metadata } from "h5wasm";
import { type DType, dtypeBytes } from "../../ffi/dtype.ts";
import { UserError } from "../errors.ts";
import { markOf } from "./arrays/file.ts";
import { hdf5Rows } from "./arrays/hdf5_rows.ts";
import { attempt, hdf5Library, type Library, readAll, readSlice } from "./hdf5_library.ts";
import type { Variable } from "./variables.ts";

const SIGNATURE = [0x89, 0x48, 0x44, 0x46, 0x0d, 0x0a, 0x1a, 0x0a];

/** Whether these first bytes of a file say HDF5. */
export const isHdf5 = (head: Uint8Array): boolean => SIGNATURE.every((byte, i) => head[i] === byte);

export interface Hdf5 {
  readonly variables: readonly Variable[];
  /** Written by the netCDF library, whose defaults hold then. */
  readonly isNetcdf: boolean;
}

/** Opens a file, which stays open while `use` runs. */
export function withHdf5<R>(path: string, use: (content: Hdf5) => R): R {
  const library = hdf5Library();
  const size = Deno.statSync(path).size;
  const file = attempt(path, () => new library.File(path, "r"));
  try {
    const result = use(attempt(path, () => contentOf(library, path, file)));
    // The library takes what is missing at the end of a file for zeros.
    if (Deno.statSync(path).size < size) {
      throw new UserError(
        "data",
        `${path} became shorter while it was being read: is something else writing it?`,
      );
    }
    return result;
  } finally {
    file.close();
  }
}

function contentOf(library: Library, path: string, file: File): Hdf5 {
  const { module } = library;
  // Each link once, without what lies behind a second link to the same group: a way round a circle ends here.
  const known = new Set(file.paths());
  const variables: Variable[] = [];
  let isNetcdf = module.get_attribute_names(file.file_id, "/").includes("_NCProperties");
  const visit = (prefix: string, names: readonly string[]) => {
    for (const name of names.map((name) => prefix + name)) {
      if (!known.has(name)) continue;
      const entity = file.get(name);
      if (entity instanceof library.Group) visit(`${name}/`, entity.keys());
      else if (entity instanceof library.Dataset) {
        const attributes = entity.attrs;
        isNetcdf ||= "_Netcdf4Dimid" in attributes || "_Netcdf4Coordinates" in attributes;
        if (textOf(attributes.NAME?.value).startsWith("This is a netCDF dimension but not a ")) continue;
        variables.push(variableOf(library, path, entity, name));
      } else if (!(entity instanceof library.Datatype)) variables.push(linkOf(name, entity));
    }
  };
  visit("", file.keys());
  return { variables, isNetcdf };
}

function variableOf(library: Library, path: string, dataset: Dataset, name: string): Variable {
  const { metadata, attrs } = dataset;
  const shape = metadata.shape ?? [];
  const dtype = dtypeOf(metadata);
  const isScale = textOf(attrs.CLASS?.value) === "DIMENSION_SCALE";
  const unusable = reasonAgainst(dataset, dtype);
  const what = `${path}: ${name}`;
  return {
    // netCDF's name for a variable that is called like a dimension it doesn't belong to.
    name: name.replace(/(^|\/)_nc4_non_coord_/, "$1"),
    shape,
    dimensions: shape.map((size, i) =>
      isScale && shape.length === 1
        ? name
        : dataset.get_attached_scales(i)[0]?.replace(/^\//, "") ?? `size ${size}`
    ),
    dtype,
    attributes: attributesOf(attrs),
    auxiliary: isScale,
    unusable,
    read: () => attempt(what, () => readAll(what, dataset, dtypeBytes(dtype!))),
    rows: (lead) =>
      attempt(what, () => hdf5Rows(describe(library, what, path, dataset, dtypeBytes(dtype!)), lead)),
  };
}

function describe({ module }: Library, what: string, path: string, dataset: Dataset, width: number) {
  const { metadata: { shape, chunks, littleEndian }, filters } = dataset;
  const reference = module.create_object_reference(dataset.file_id, dataset.path);
  return {
    file: markOf(path),
    name: dataset.path,
    shape: shape!,
    chunk: chunks,
    width,
    bigEndian: !littleEndian && width > 1,
    filters,
    address: Number(new DataView(Uint8Array.from(reference).buffer).getBigUint64(0, true)),
    slice: (first: readonly number[], counts: readonly number[]) =>
      readSlice(what, dataset, first, counts, width),
  };
}

const linkOf = (name: string, entity: Entity | null): Variable => ({
  name,
  shape: [],
  dimensions: [],
  dtype: null,
  attributes: new Map(),
  auxiliary: true,
  unusable: entity !== null && "filename" in entity
    ? `is a link into another file (${entity.filename}), which is not there`
    : "is a link to nothing, or no dataset",
  read: unusable,
  rows: unusable,
});

function unusable(): never {
  throw new Error("internal: something unusable is read");
}

const NUMERIC = /^(_FillValue|missing_value|valid_min|valid_max|valid_range|scale_factor|add_offset)$/;
const TEXT = /^(_Unsigned|coordinates|bounds|grid_mapping|units)$/;

function attributesOf(attrs: Dataset["attrs"]): Variable["attributes"] {
  const found = new Map<string, readonly number[] | string>();
  for (const [name, attribute] of Object.entries(attrs)) {
    if (TEXT.test(name)) found.set(name, textOf(attribute.value));
    else if (NUMERIC.test(name)) {
      const numbers = [attribute.value].flat().flatMap((part) =>
        ArrayBuffer.isView(part) ? [...part] : [part]
      );
      if (numbers.every((value) => typeof value === "number" || typeof value === "bigint")) {
        found.set(name, numbers.map(Number));
      }
    }
  }
  return found;
}

const textOf = (value: unknown): string => {
  const text = Array.isArray(value) ? value[0] : value;
  return typeof text === "string" ? text : "";
};

const INTEGER = 0, FLOAT = 1, TEXTS = 3, ENUM = 8;
const WORDS: Record<number, string> = {
  2: "times",
  4: "bit fields",
  5: "opaque values",
  6: "compound values",
  7: "references",
  9: "rows of unequal length",
  10: "arrays",
};

function dtypeOf({ type, size, signed, enum_type }: Metadata): DType | null {
  if (type === ENUM && size === 1 && enum_type?.members.FALSE === 0 && enum_type.nmembers === 2) {
    return "bool";
  }
  if (type === FLOAT) return ({ 2: "f16", 4: "f32", 8: "f64" } as const)[size] ?? null;
  if (type !== INTEGER && type !== ENUM) return null;
  const bits = { 1: 8, 2: 16, 4: 32, 8: 64 }[size];
  return bits ? `${signed ? "i" : "u"}${bits}` as DType : null;
}

/** gzip, shuffle, checksum, n-bit and scale-offset: what every build of the library has. */
const FILTERS = [1, 2, 3, 5, 6];

function reasonAgainst({ metadata, filters }: Dataset, dtype: DType | null): string | undefined {
  const { type, size, shape, virtual_sources } = metadata;
  if (type === TEXTS) return "holds text";
  if (!dtype) return `holds ${type === FLOAT ? `floats of ${8 * size} bits` : WORDS[type] ?? "no numbers"}`;
  if (!shape) return "is empty";
  // Where a source of it is missing, the library would make up fill values.
  if (virtual_sources?.length) return "is pieced together from other files, which is not supported";
  const filter = filters.find(({ id }) => !FILTERS.includes(id));
  return filter &&
    `is compressed with ${filter.name || `filter ${filter.id}`}, which can't be read here (gzip can: ` +
      "h5repack -f GZIP=4 OLD NEW)";
}
