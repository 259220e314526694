// Variables of NetCDF and HDF5 files become samples. NetCDF-4 files are HDF5 inside, so both are read here.
import { UserError } from "../../../base/errors.ts";
import type { DataReader } from "../../format.ts";
import { type Kind, NETCDF_ENDINGS } from "./format.ts";
import { markOf, withFiles } from "../../arrays/files.ts";
import { filesIn } from "../../arrays/paths.ts";
import { isHdf5, loadHdf5For, withHdf5 } from "./hdf5/hdf5.ts";
import { headerNotes } from "./hdf5/header_notes.ts";
import { isKnown } from "./hdf5/own_reader.ts";
import { followOtherFiles } from "./hdf5/library.ts";
import {
  type Content,
  joinedContent,
  variableColumns,
  type VariablesFile,
  variablesReader,
  withAuxiliary,
} from "../../tables/gridded.ts";
import { type DType, dtypeBytes } from "../../../../ffi/dtype.ts";
import type { FileBytes } from "../../../base/file_bytes.ts";
import { formatPlural } from "../../../base/format.ts";
import { swapBytes } from "../../codecs/bytes.ts";
import type { Variable } from "../../arrays/table.ts";
import { typedView } from "../../arrays/numbers.ts";

const readerOf = (kind: Kind): DataReader =>
  variablesReader((path, use, along) => withVariables(kind, path, use, along), (data) => {
    followOtherFiles(data.external_files);
    return loadFor(kind, data.data_path);
  });

export const netcdfReaders = { netcdf: readerOf("netcdf"), hdf5: readerOf("hdf5") };

async function loadFor(kind: Kind, path: string): Promise<void> {
  const many = filesIn(path, NETCDF_ENDINGS[kind]), notes = many ? headerNotes(path) : null;
  for (const file of many ?? [path]) {
    try {
      if (!Deno.statSync(file).isFile) continue;
    } catch {
      continue; // opening it says why it can't be read
    }
    const own = notes?.of(file); // there are some of HDF5 files alone
    if (own?.isEmpty === false || bytesOf(file) === "hdf5") await loadHdf5For(file, own);
  }
}

type Variables = Omit<VariablesFile, "path">;

/** The file stays open while `use` runs; its reader must be loaded. */
function withVariables<R>(kind: Kind, path: string, use: (content: Content) => R, along = ""): R {
  const files = filesIn(path, NETCDF_ENDINGS[kind]);
  if (files) return use(joined(kind, path, files, along));
  return withFile(kind, path, ({ variables, isNetcdf }) =>
    use({
      path,
      kind: isNetcdf ? "NetCDF file" : "HDF5 file",
      noun: nounOf(kind, isNetcdf),
      isNetcdf,
      columns: variableColumns(variables, isNetcdf),
      notes: [],
    }));
}

const nounOf = (kind: Kind, isNetcdf: boolean) => isNetcdf || kind === "netcdf" ? "variable" : "dataset";

function joined(kind: Kind, path: string, files: readonly string[], along: string): Content {
  if (files.length === 0) {
    const endings = NETCDF_ENDINGS[kind].join(", ");
    throw new UserError("data", `The folder ${path} has no file in it that ends in ${endings}.`);
  }
  const found = files.map((file) => ({ path: file, ...detached(kind, file) }));
  const isNetcdf = found.every(({ isNetcdf }) => isNetcdf);
  const about = { kind: `${isNetcdf ? "NetCDF" : "HDF5"} files`, noun: nounOf(kind, isNetcdf) };
  const content = joinedContent(path, found, { ...about, along });
  headerNotes(path).keep();
  return content;
}

/** Variables open their file when they are read: hundreds of files must not be open at once. */
function detached(kind: Kind, path: string): Variables {
  return withFile(kind, path, ({ variables, isNetcdf }) => ({
    isNetcdf,
    variables: withAuxiliary(variables).map((variable, i) => ({
      ...variable,
      read: () => withFile(kind, path, ({ variables }) => variables[i].read()),
      rows: (lead: number) => withFile(kind, path, ({ variables }) => variables[i].rows(lead)),
    })),
  }));
}

function withFile<R>(kind: Kind, path: string, use: (found: Variables) => R): R {
  switch (bytesOf(path)) {
    case "classic":
      if (kind === "hdf5") {
        throw new UserError("data", `${path} is a classic NetCDF file, not HDF5: use --data-type netcdf.`);
      }
      return withFiles((open) => use({ variables: classicVariables(open(path)), isNetcdf: true }));
    case "hdf5":
      return withHdf5(path, use);
  }
  const name = kind === "hdf5" ? "HDF5" : "NetCDF";
  throw new UserError(
    "data",
    `${path} is no ${name} file: its first bytes are neither those of HDF5 nor "CDF". ` +
      "Check that it was copied as a whole, or name the kind of data with --data-type.",
  );
}

/** The first bytes say which it is. */
function bytesOf(path: string): "classic" | "hdf5" | null {
  if (isKnown(path)) return "hdf5";
  return withFiles((open) => {
    const file = open(path);
    // A user block before HDF5 takes 512 bytes, or twice, four times, ... as many.
    for (let at = 0; at + 8 <= file.size; at = at === 0 ? 512 : at * 2) {
      const head = file.read(at, 8);
      if (isHdf5(head)) return "hdf5";
      if (at === 0 && String.fromCharCode(...head.subarray(0, 3)) === "CDF") return "classic";
    }
    return null;
  });
}

const TYPES: Record<number, DType | "text"> = {
  1: "i8",
  2: "text",
  3: "i16",
  4: "i32",
  5: "f32",
  6: "f64",
  7: "u8",
  8: "u16",
  9: "u32",
  10: "i64",
  11: "u64",
};

const DIMENSIONS = 10, VARIABLES = 11, ATTRIBUTES = 12;

const STREAMING = 0xffffffff;

interface Dimension {
  readonly name: string;
  readonly size: number;
}

interface Entry {
  readonly name: string;
  readonly dimensions: readonly Dimension[];
  readonly attributes: Map<string, readonly number[] | string>;
  readonly type: DType | "text";
  readonly begin: number;
  readonly bytes: number;
  readonly isRecord: boolean;
}

interface Header {
  /** Null means that the writer left it open: the file's size decides. */
  readonly records: number | null;
  readonly entries: readonly Entry[];
  readonly end: number;
}

function classicVariables(file: FileBytes): Variable[] {
  const { path, size } = file;
  const { records: declared, entries, end } = readHeader(file);
  const recorded = entries.filter((entry) => entry.isRecord);
  // Each variable's part of a record is padded to 4 bytes, unless it is the only one.
  const stride = recorded.length === 1
    ? recorded[0].bytes
    : recorded.reduce((sum, { bytes }) => sum + padded(bytes), 0);
  const firstRecord = Math.min(...recorded.map((entry) => entry.begin));
  const records = declared ?? (stride > 0 ? Math.floor((size - firstRecord) / stride) : 0);
  return entries.map((entry) => {
    const { name, dimensions, attributes, type, begin, bytes, isRecord } = entry;
    const parts = isRecord ? records : 1;
    const last = parts === 0 || bytes === 0 ? begin : begin + (parts - 1) * stride * Number(isRecord) + bytes;
    return {
      name,
      shape: dimensions.map((dimension) => dimension.size || (isRecord ? records : 0)),
      dimensions: dimensions.map((dimension) => dimension.name),
      dtype: type === "text" ? null : type,
      attributes,
      auxiliary: dimensions.some((dimension) => dimension.name === name),
      unusable: type === "text" ? "holds text" : undefined,
      read() {
        if (last > size || begin < end) throw truncated(path, last, size, `the variable "${name}"`);
        const values = new Uint8Array(parts * bytes);
        if (isRecord && bytes > 0) readRecords(file, values, { begin, bytes, stride });
        else file.readInto(begin, values);
        if (type !== "text") swapBytes(values, dtypeBytes(type));
        return values;
      },
      rows(lead) {
        if (last > size || begin < end) throw truncated(path, last, size, `the variable "${name}"`);
        const width = type === "text" ? 1 : dtypeBytes(type);
        const row = dimensions.slice(lead).reduce((total, dimension) => total * dimension.size, width);
        return {
          layout: "file",
          file: markOf(path),
          begin,
          bytes: row,
          step: row,
          blocks: isRecord ? { rows: bytes / row, step: stride } : undefined,
          swapped: width > 1,
        };
      },
    };
  });
}

function readHeader(file: FileBytes): Header {
  const { path, size } = file;
  // Most headers fit the first guess; each next guess is four times as long.
  for (let length = Math.min(size, 1 << 16);; length = Math.min(size, length * 4)) {
    try {
      return parseHeader(path, file.read(0, length));
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      if (length === size) {
        throw new UserError(
          "data",
          `${path} is truncated or damaged: its NetCDF header goes on after the ${
            formatPlural(size, "byte")
          } that are there. Copy it again from where it came from.`,
        );
      }
    }
  }
}

/** Reads past the end of `bytes` throw a RangeError: DataView's own, or ours. */
function parseHeader(path: string, bytes: Uint8Array): Header {
  const data = new DataView(bytes.buffer);
  const version = bytes[3];
  if (![1, 2, 5].includes(version)) {
    throw new UserError(
      "data",
      `${path} is NetCDF of the version ${version}, unknown here: known are 1, 2 and 5, and NetCDF-4.`,
    );
  }
  let at = 4;
  const u32 = () => data.getUint32((at += 4) - 4);
  const u64 = () => Number(data.getBigUint64((at += 8) - 8));
  const count = version === 5 ? u64 : u32;
  const offset = version === 1 ? u32 : u64;
  const take = (length: number) => {
    if (at + length > bytes.length) throw new RangeError("internal: past the end of what was read");
    const part = bytes.slice(at, at + length);
    at += padded(length);
    return part;
  };
  const name = () => new TextDecoder().decode(take(count()));
  const list = <T>(tag: number, what: string, item: () => T): T[] => {
    const found = u32(), length = count();
    if (found !== tag && (found !== 0 || length !== 0)) throw damaged(path, `where its ${what} should be`);
    // An entry has at least 8 bytes: a damaged count must not fill the memory.
    if (at + 8 * length > bytes.length) throw new RangeError("internal: past the end of what was read");
    return Array.from({ length }, item);
  };
  const type = () => TYPES[u32()] ?? fail(damaged(path, "where a data type should be"));
  const attribute = (): [string, number[] | string] => {
    const key = name(), kind = type(), length = count();
    const raw = take(length * (kind === "text" ? 1 : dtypeBytes(kind)));
    if (kind === "text") return [key, new TextDecoder().decode(raw).replace(/\0+$/, "")];
    swapBytes(raw, dtypeBytes(kind));
    return [key, Array.from(typedView(raw, kind), Number)];
  };
  const attributes = () => new Map(list(ATTRIBUTES, "attributes", attribute));

  const declared = count();
  const records = declared === STREAMING || declared >= 2 ** 63 ? null : declared;
  const dimensions = list(DIMENSIONS, "dimensions", () => ({ name: name(), size: count() }));
  attributes();
  const entries = list(VARIABLES, "variables", (): Entry => {
    const key = name();
    const ids = Array.from({ length: Math.min(count(), 1024) }, count);
    const own = ids.map((id) => dimensions[id] ?? fail(damaged(path, `in the dimensions of "${key}"`)));
    const about = attributes(), kind = type();
    count(); // vsize: what follows from the shape, and doesn't hold large sizes
    const isRecord = own[0]?.size === 0;
    const values = own.slice(isRecord ? 1 : 0).reduce((total, { size }) => total * size, 1);
    const size = values * (kind === "text" ? 1 : dtypeBytes(kind));
    return {
      name: key,
      dimensions: own,
      attributes: about,
      type: kind,
      begin: offset(),
      bytes: size,
      isRecord,
    };
  });
  return { records, entries, end: at };
}

interface Records {
  readonly begin: number;
  readonly bytes: number;
  readonly stride: number;
}

const BLOCK = 8 * 2 ** 20;

/** Blocks of records are read whole: a read for each small part would cost more than the bytes between. */
function readRecords(file: FileBytes, into: Uint8Array, { begin, bytes, stride }: Records): void {
  const records = into.length / bytes;
  const together = bytes === stride ? records : bytes >= 65536 ? 1 : Math.max(1, Math.floor(BLOCK / stride));
  for (let first = 0; first < records; first += together) {
    const many = Math.min(together, records - first);
    const at = begin + first * stride;
    if (together === 1 || bytes === stride) {
      file.readInto(at, into.subarray(first * bytes, (first + many) * bytes));
      continue;
    }
    const block = file.read(at, (many - 1) * stride + bytes);
    for (let i = 0; i < many; i++) {
      into.set(block.subarray(i * stride, i * stride + bytes), (first + i) * bytes);
    }
  }
}

const padded = (length: number) => Math.ceil(length / 4) * 4;

function fail(error: Error): never {
  throw error;
}

const damaged = (path: string, where: string) =>
  new UserError(
    "data",
    `${path} is damaged: its NetCDF header has something else ${where}. Copy it again from where it came from.`,
  );

const truncated = (path: string, expected: number, found: number, what: string) =>
  new UserError(
    "data",
    `${path} is truncated: ${expected} bytes expected for ${what}, ${found} found. ` +
      "Copy it again from where it came from.",
  );
