// HDF5 and NetCDF-4 files have the same structure. Our own reader tries first; HDF5's library reads what that
// does not foresee.
import * as h5 from "./library.ts";
import * as types from "./datatype.ts";
import { UserError } from "../../../../base/errors.ts";
import { Unforeseen } from "./bytes.ts";
import { readHeader, readSuperblock } from "./header.ts";
import { readLayout, storageOf } from "./storage.ts";
import { type Hdf5Library, type LibraryRows, slabRows } from "./library.ts";
import { type ChunkRows, openChunkRows } from "./chunk_rows.ts";
import type { FileMark, FileRows, Rows } from "../../../arrays/rows.ts";
import { product } from "../../../arrays/numbers.ts";
import { swapBytes } from "../../../codecs/bytes.ts";
import { markOf, type OpenFile, openFile, openFileRows } from "../../../arrays/files.ts";
import type { Dataset, Entity, File } from "../../../../../deps/h5wasm.ts";
import { dtypeBytes } from "../../../../../ffi/dtype.ts";
import type { Variable } from "../../../arrays/table.ts";
import type { DatatypeFacts, Hdf5 } from "./datatype.ts";
import type { Notes } from "./header_notes.ts";
import { readOwn } from "./own_reader.ts";

interface DatasetStorage {
  readonly file: FileMark;
  readonly name: string;
  readonly shape: readonly number[];
  readonly chunk: readonly number[] | null;
  readonly width: number;
  readonly bigEndian: boolean;
  readonly filters: readonly { readonly id: number; readonly cd_values: readonly number[] }[];
  /** Addresses count from the beginning of the HDF5 part of the file. */
  readonly address: number;
  slice(first: readonly number[], counts: readonly number[]): Uint8Array;
}

function hdf5Rows(dataset: DatasetStorage, lead: number): Rows {
  const library = libraryRows(dataset, lead);
  const file = openFile(dataset.file);
  try {
    const own = ownRows(dataset, lead, file);
    return agrees(own, dataset, lead, file) ? own : library;
  } catch (error) {
    // The library reads a wrong address better, or says what is wrong.
    if (error instanceof Unforeseen || error instanceof UserError) return library;
    throw error;
  } finally {
    file.close();
  }
}

function ownRows(dataset: DatasetStorage, lead: number, file: OpenFile): FileRows | ChunkRows {
  const { file: view } = readSuperblock(file, dataset.file.size);
  const layout = readLayout(readHeader(view, dataset.address));
  return storageOf(view, layout, dataset, (table, chunk) => fillOf(dataset, table.addresses, chunk))(lead);
}

function fillOf(
  { shape, width, bigEndian, slice }: DatasetStorage,
  addresses: Float64Array,
  chunk: readonly number[],
): Uint8Array {
  let cell = addresses.indexOf(-1);
  const grid = shape.map((size, d) => Math.ceil(size / chunk[d]));
  const first = shape.map(() => 0);
  for (let d = shape.length - 1; d >= 0; d--) {
    first[d] = cell % grid[d] * chunk[d];
    cell = Math.floor(cell / grid[d]);
  }
  const element = slice(first, shape.map(() => 1));
  if (bigEndian) swapBytes(element, width);
  return element;
}

/** The first, middle and last row must equal what the library reads, or both fail. */
function agrees(
  rows: FileRows | ChunkRows,
  { name, shape, width, slice }: DatasetStorage,
  lead: number,
  file: OpenFile,
): boolean {
  const { read } = rows.layout === "file" ? openFileRows(rows, width, file) : openChunkRows(rows, name, file);
  const count = product(shape.slice(0, lead)), rest = shape.slice(lead);
  return [0, Math.floor(count / 2), count - 1].every((row) => {
    const found = new Uint8Array(product(rest) * width);
    const first = rest.map(() => 0);
    for (let d = lead - 1, left = row; d >= 0; d--) {
      first.unshift(left % shape[d]);
      left = Math.floor(left / shape[d]);
    }
    const ours = orNull(() => (read(row, found), found));
    const theirs = orNull(() => slice(first, shape.map((size, d) => d < lead ? 1 : size)));
    return ours === null || theirs === null ? ours === theirs : theirs.every((byte, i) => byte === ours[i]);
  });
}

function orNull<T>(read: () => T): T | null {
  try {
    return read();
  } catch {
    return null;
  }
}

/** The library opens a dataset anew for each slice, so rows that share chunks are read at once. */
const SLAB = 16 * 2 ** 20;

function libraryRows({ file, name, shape, chunk, width }: DatasetStorage, lead: number): LibraryRows {
  const one = product(shape.slice(1)) * width;
  const unit = Math.min(chunk?.[0] ?? 1, shape[0]);
  return {
    layout: "format",
    module: slabRows,
    access: "alone",
    file,
    dataset: name,
    shape,
    chunk: [Math.max(1, Math.min(unit, Math.floor(SLAB / one))), ...shape.slice(1)],
    lead,
    width,
    elsewhere: h5.followsOtherFiles(),
  };
}

export function byLibrary<R>(path: string, use: (content: Hdf5) => R): R {
  const library = h5.hdf5Library();
  const size = Deno.statSync(path).size;
  const file = h5.attemptHdf5(path, () => h5.openFileOf(library, path));
  try {
    const result = use(h5.attemptHdf5(path, () => contentOf(library, path, file)));
    // The library reads zeros beyond the end of a short file.
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

function contentOf(library: Hdf5Library, path: string, file: File): Hdf5 {
  const { module } = library;
  // Each link is followed once: a second link to a group may close a circle.
  const known = new Set(file.paths());
  const variables: Variable[] = [];
  let isNetcdf = module.get_attribute_names(file.file_id, "/").includes(types.NETCDFS_ROOT);
  const visit = (prefix: string, names: readonly string[]) => {
    for (const name of names.map((name) => prefix + name)) {
      if (!known.has(name)) continue;
      const entity = file.get(name);
      if (entity instanceof library.Group) visit(`${name}/`, entity.keys());
      else if (entity instanceof library.Dataset) {
        const attributes = entity.attrs;
        isNetcdf ||= types.NETCDFS.some((name) => name in attributes);
        if (types.isBareDimension(textOf(attributes.NAME?.value))) continue;
        variables.push(variableOf(library, path, entity, name));
      } else if (!(entity instanceof library.Datatype)) variables.push(linkOf(name, entity));
    }
  };
  visit("", file.keys());
  return { variables, isNetcdf };
}

function variableOf(library: Hdf5Library, path: string, dataset: Dataset, name: string): Variable {
  const { attrs } = dataset;
  const facts = factsOf(dataset);
  const shape = facts.shape ?? [];
  const dtype = types.dtypeOf(facts);
  const isScale = textOf(attrs.CLASS?.value) === "DIMENSION_SCALE";
  const unusable = types.reasonAgainst(facts);
  const what = `${path}: ${name}`;
  return {
    name: types.plainName(name),
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
    read: () => h5.attemptHdf5(what, () => h5.readAll(what, dataset, dtypeBytes(dtype!))),
    rows: (lead) =>
      h5.attemptHdf5(what, () => hdf5Rows(describe(library, what, path, dataset, dtypeBytes(dtype!)), lead)),
  };
}

function describe({ module }: Hdf5Library, what: string, path: string, dataset: Dataset, width: number) {
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
      h5.readSlice(what, dataset, first, counts, width),
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
    ? h5.followsOtherFiles()
      ? `is a link into another file (${entity.filename}), which is not there`
      : h5.elsewhere(String(entity.filename))
    : "is a link to nothing, or no dataset",
  read: unusable,
  rows: unusable,
});

function unusable(): never {
  throw new Error("internal: something unusable is read");
}

function attributesOf(attrs: Dataset["attrs"]): Variable["attributes"] {
  const found = new Map<string, readonly number[] | string>();
  for (const [name, attribute] of Object.entries(attrs)) {
    if (types.TEXTS.test(name)) found.set(name, textOf(attribute.value));
    else if (types.NUMBER_ATTRIBUTES.test(name)) {
      const numbers = [attribute.value].flat().flatMap((part) =>
        ArrayBuffer.isView(part) ? [...part] : [part]
      );
      if (numbers.every((value) => typeof value === "number" || typeof value === "bigint")) {
        found.set(name, numbers.map(Number));
      }
    } else if (!types.RESERVED_ATTRIBUTES.test(name)) {
      const value = described(attribute);
      if (value !== null) found.set(name, value);
    }
  }
  return found;
}

/** As our own reader has it: one text, or some numbers. */
function described(attribute: Dataset["attrs"][string]): string | number[] | null {
  const { metadata: { type, size, shape } } = attribute;
  if (!shape) return null;
  const count = product(shape);
  if (type === types.TEXT) return count === 1 ? textOf(attribute.value) : null;
  const read = (type === types.INTEGER && size <= 8) || (type === types.FLOAT && (size === 4 || size === 8));
  if (!read || count > types.MOST_NUMBERS) return null;
  const { value } = attribute;
  return ArrayBuffer.isView(value)
    ? Array.from(value as unknown as ArrayLike<number>, Number)
    : [Number(value)];
}

const textOf = (value: unknown): string => {
  const text = Array.isArray(value) ? value[0] : value;
  return typeof text === "string" ? text : "";
};

function factsOf({ metadata, filters }: Dataset): DatatypeFacts {
  const { type, size, signed, shape, enum_type, virtual_sources } = metadata;
  return {
    ...{ kind: type, size, signed, shape, filters },
    names: enum_type ? new Map(Object.entries(enum_type.members)) : null,
    virtual: (virtual_sources?.length ?? 0) > 0,
  };
}

export type { Hdf5 };

const SIGNATURE = [0x89, 0x48, 0x44, 0x46, 0x0d, 0x0a, 0x1a, 0x0a];

export const isHdf5 = (head: Uint8Array): boolean => SIGNATURE.every((byte, i) => head[i] === byte);

/** It must end before the file is opened; it loads HDF5's library only for files that need it. */
export async function loadHdf5For(path: string, notes?: Notes): Promise<void> {
  if (readOwn(path, notes) === null) await h5.loadHdf5();
}

export function withHdf5<R>(path: string, use: (content: Hdf5) => R): R {
  const own = readOwn(path);
  if (own) return use(own);
  if (h5.isLoaded()) return byLibrary(path, use);
  throw new UserError("data", `${path} was changed while it was being opened: is something else writing it?`);
}
