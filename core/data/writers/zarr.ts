// A Zarr store of version 2 with consolidated metadata, which zarr-python 2 and 3, xarray and NetCDF's own library
// read. It holds what a NetCDF file would: named dimensions, attributes and variables.
import { deflateSync } from "node:zlib";
import { dirname, join } from "../../../deps/path.ts";
import { syncFolder, temporaryFor, writeAll } from "../../base/atomic.ts";
import { writing } from "../../base/new_file.ts";
import { product } from "../arrays/numbers.ts";
import {
  ARRAYS,
  type AttributeValue,
  type ClassicAttributes,
  type ClassicFile,
  type ClassicType,
  type ClassicVariable,
  type NetcdfNumbers,
} from "./netcdf.ts";

const TYPES: Readonly<Record<ClassicType, string>> = {
  i8: "|i1",
  i16: "<i2",
  i32: "<i4",
  f32: "<f4",
  f64: "<f8",
};

/** A chunk has one sample, or as many small ones as take so many bytes. */
const CHUNK = 1 << 18;
/** Its first level is three times as fast as the usual one, and floats hardly get smaller by more. */
const LEVEL = 1;

type Json = string | number | null | readonly Json[] | { readonly [key: string]: Json };

/** The folder is there as a whole, or not at all. */
export function writeZarr(path: string, content: ClassicFile): void {
  writing(path, () => {
    const folder = temporaryFor(path);
    try {
      Deno.mkdirSync(folder, { recursive: true });
      writeStore(folder, content);
      Deno.renameSync(folder, path);
    } catch (error) {
      removeFolder(folder);
      throw error;
    }
    syncFolder(dirname(path));
  });
}

function writeStore(folder: string, { dimensions, attributes, variables }: ClassicFile): void {
  const sizes = new Map(dimensions.map(({ name, size }) => [name, size]));
  const metadata: Record<string, Json> = { ".zgroup": { zarr_format: 2 }, ".zattrs": jsonOf(attributes) };
  for (const variable of variables) {
    const { name, attributes: { _FillValue: fill, ...own } } = variable;
    const shape = variable.dimensions.map((name) => sizes.get(name)!);
    const fillValue = fill === undefined ? null : numberOf(fill);
    const chunks = chunksOf(shape, variable.type);
    metadata[`${name}/.zarray`] = {
      ...{ zarr_format: 2, shape, chunks, dtype: TYPES[variable.type], order: "C", filters: null },
      ...{ compressor: { id: "zlib", level: LEVEL }, dimension_separator: "." },
      fill_value: typeof fillValue === "number" ? finite(fillValue) : fillValue,
    };
    metadata[`${name}/.zattrs`] = { ...jsonOf(own), _ARRAY_DIMENSIONS: variable.dimensions };
    Deno.mkdirSync(join(folder, name));
    writeChunks(join(folder, name), variable, shape, chunks, fillValue ?? 0);
  }
  for (const [key, value] of Object.entries(metadata)) writeFile(join(folder, key), textOf(value));
  // Last of all, because readers look for it first.
  writeFile(join(folder, ".zmetadata"), textOf({ zarr_consolidated_format: 1, metadata }));
}

/** Chunks are whole along all dimensions but the first. */
function chunksOf(shape: readonly number[], type: ClassicType): number[] {
  if (shape.length === 0) return [];
  const [samples, ...rest] = shape;
  const bytes = product(rest) * Number(TYPES[type].at(-1));
  return [Math.max(1, Math.min(samples, Math.floor(CHUNK / Math.max(1, bytes)))), ...rest];
}

/** The last chunk is filled up: all chunks of an array have one size. */
function writeChunks(
  folder: string,
  { type, pieces }: ClassicVariable,
  shape: readonly number[],
  chunks: readonly number[],
  fill: number,
): void {
  const chunk: NetcdfNumbers = new ARRAYS[type](product(chunks)),
    others = chunks.slice(1).map(() => ".0").join("");
  let number = 0, held = 0;
  const write = () => {
    chunk.fill(fill, held);
    const bytes = new Uint8Array(chunk.buffer, chunk.byteOffset, chunk.byteLength);
    writeFile(
      join(folder, shape.length === 0 ? "0" : `${number}${others}`),
      deflateSync(bytes, { level: LEVEL }),
    );
    number++;
    held = 0;
  };
  for (const piece of pieces()) {
    for (let from = 0; from < piece.length;) {
      const count = Math.min(chunk.length - held, piece.length - from);
      chunk.set(piece.subarray(from, from + count), held);
      from += count;
      held += count;
      if (held === chunk.length) write();
    }
  }
  if (held > 0) write();
}

const jsonOf = (attributes: ClassicAttributes): { [key: string]: Json } =>
  Object.fromEntries(Object.entries(attributes).map(([name, value]) => [name, plain(value)]));

const plain = (value: AttributeValue): Json => {
  if (typeof value === "string") return value;
  const numbers = Array.from(new ARRAYS[value.type](value.values), finite);
  return numbers.length === 1 ? numbers[0] : numbers;
};

const numberOf = (value: AttributeValue): number =>
  typeof value === "string" ? NaN : new ARRAYS[value.type](value.values)[0];

/** JSON has no such numbers: Zarr has these words for them. */
const finite = (value: number): Json =>
  Number.isFinite(value) ? value : Number.isNaN(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity";

const textOf = (value: Json): Uint8Array => new TextEncoder().encode(JSON.stringify(value, null, 2));

function writeFile(path: string, bytes: Uint8Array): void {
  const file = Deno.openSync(path, { write: true, createNew: true });
  try {
    writeAll(file, bytes); // without a sync, which a store of many chunks would wait for again and again
  } finally {
    file.close();
  }
}

function removeFolder(folder: string): void {
  try {
    Deno.removeSync(folder, { recursive: true });
  } catch {
    // It was never made, or is gone: the first error matters.
  }
}
