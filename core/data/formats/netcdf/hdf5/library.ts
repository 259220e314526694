import type { Dataset, h5wasm as H5wasm } from "../../../../../deps/h5wasm.ts";
import { resolve } from "../../../../../deps/path.ts";
import { UserError } from "../../../../base/errors.ts";
import { formatBytes } from "../../../../base/format.ts";
import { BadSample, type FormatRows, type RowReader } from "../../../arrays/rows.ts";
import { product } from "../../../arrays/numbers.ts";
import { noteRows } from "../../../arrays/open_rows.ts";

// The HDF5 library is WebAssembly, loaded only when a file needs it. Only the build dist/node is in the
// executable (scripts/build): it reads files in place.

export type Hdf5Library = typeof H5wasm & { readonly module: Awaited<typeof H5wasm.ready> };

let loaded: Hdf5Library | null = null;
let loading: Promise<void> | null = null;

/** It must end, in this thread, before a file is opened. */
export const loadHdf5 = (): Promise<void> => loading ??= load();

async function load(): Promise<void> {
  const { h5wasm } = await import("../../../../../deps/h5wasm.ts");
  const module = await h5wasm.ready;
  module.activate_throwing_error_handler(); // without it each fault is printed, and some are only printed
  loaded = { ...h5wasm, module };
  guardFiles(module as unknown as { readonly FS: FileCalls });
}

// A dataset, or its bytes, may lie in another file, by any path. HDF5's library follows that, so this code
// decides which files it may open (--external-files).

interface FileCalls {
  open(path: string, flags: number | string, ...rest: unknown[]): unknown;
  readonly ErrnoError: new (code: number) => Error;
}

const WRITING = 3, DENIED = 2; // O_WRONLY and O_RDWR; EACCES as WebAssembly counts
const own = new Set<string>();
let outside = false;
/** The last refused file is kept until an error names it. */
let refused: string | null = null;

export function followOtherFiles(follow: boolean): void {
  outside = follow;
}

export const followsOtherFiles = (): boolean => outside;

function guardFiles({ FS }: { readonly FS: FileCalls }): void {
  const { open } = FS;
  FS.open = (path, flags, ...rest) => {
    // The library writes only notes of its own faults, to files that it has just made.
    const reads = typeof flags === "number" ? (flags & WRITING) === 0 : flags === "r";
    if (reads && !outside && !own.has(resolve(path))) {
      refused ??= path;
      throw new FS.ErrnoError(DENIED);
    }
    return open.call(FS, path, flags, ...rest);
  };
}

export function openFileOf(library: Pick<Hdf5Library, "File">, path: string) {
  own.add(resolve(path)); // the library asks for a relative path by its whole one
  try {
    return new library.File(path, "r");
  } finally {
    refused = null;
  }
}

/** It throws where a needed file was refused. */
function refuseElsewhere(what: string, cause: unknown): void {
  const other = refused;
  refused = null;
  if (other !== null) throw new UserError("data", `${what} ${elsewhere(other)}.`, { cause });
}

export const elsewhere = (path: string): string =>
  `lies in another file (${path}), and a file may name any: those that are meant are read with --external-files`;

export const isLoaded = (): boolean => loaded !== null;

export function hdf5Library(): Hdf5Library {
  if (!loaded) throw new Error("internal: loadHdf5 has not run");
  return loaded;
}

type DatasetPath = Pick<Dataset, "file_id" | "path">;

export function readSlice(
  what: string,
  dataset: DatasetPath,
  first: readonly number[],
  counts: readonly number[],
  width: number,
): Uint8Array<ArrayBuffer> {
  const { module } = hdf5Library();
  const bytes = counts.reduce((total, count) => total * count, width);
  const values = new Uint8Array(bytes);
  if (bytes === 0) return values;
  const address = module._malloc(bytes);
  if (address === 0) {
    throw new UserError(
      "memory",
      `${what} needs ${formatBytes(bytes)} of memory at once, more than the HDF5 library has: ` +
        "store it in smaller chunks (h5repack -l CHUNK=...).",
    );
  }
  try {
    const scalar = counts.length === 0;
    const status = module.get_dataset_data(
      dataset.file_id,
      dataset.path,
      scalar ? null : counts.map(BigInt),
      scalar ? null : first.map(BigInt),
      scalar ? null : counts.map(() => 1n),
      BigInt(address),
    );
    if (status < 0) throw new UserError("data", `${what} can't be read as HDF5. Is the file damaged?`);
    values.set(module.HEAPU8.subarray(address, address + bytes));
  } finally {
    module._free(address);
  }
  return values;
}

const SLAB = 32 * 2 ** 20;

/** Slabs of whole chunks keep the library's memory small, and no chunk is unpacked twice. */
export function readAll(what: string, dataset: Dataset, width: number): Uint8Array {
  const { shape, chunks } = dataset.metadata;
  const [rows, ...rest] = shape!;
  if (rows === undefined) return readSlice(what, dataset, [], [], width);
  const row = rest.reduce((total, size) => total * size, width);
  const values = new Uint8Array(rows * row);
  if (values.length === 0) return values;
  const unit = chunks?.[0] ?? 1;
  const together = Math.min(rows, unit * Math.max(1, Math.floor(SLAB / (row * unit))));
  for (let first = 0; first < rows; first += together) {
    const many = Math.min(together, rows - first);
    values.set(readSlice(what, dataset, [first, ...rest.map(() => 0)], [many, ...rest], width), first * row);
  }
  return values;
}

/** The library's faults are stack frames: the innermost has the cause. */
function reasonOf(cause: unknown): string {
  if (cause instanceof RangeError) return "its groups lie too deep in one another";
  const text = cause instanceof Error ? cause.message : String(cause);
  return [...text.matchAll(/\(\): (.+)/g)].at(-1)?.[1] ?? text.split("\n")[0];
}

export function attemptHdf5<R>(what: string, act: () => R): R {
  refused = null;
  try {
    const result = act();
    refused = null; // what was only looked for
    return result;
  } catch (cause) {
    if (cause instanceof UserError) throw cause;
    refuseElsewhere(what, cause);
    throw unreadableHdf5(what, reasonOf(cause), cause);
  }
}

export const unreadableHdf5 = (what: string, reason: string, cause?: unknown): UserError =>
  new UserError(
    "data",
    `${what} can't be read as HDF5: ${reason}. If h5dump can't either, the file is damaged: copy it again.`,
    { cause },
  );

function openHdf5(path: string, name: string, width: number) {
  const library = hdf5Library();
  const what = `${path}: ${name}`;
  const file = attemptHdf5(path, () => openFileOf(library, path));
  const place = { file_id: file.file_id, path: name };
  return {
    slice: (first: readonly number[], counts: readonly number[]) =>
      readSlice(what, place, first, counts, width),
    close: () => void file.close(),
  };
}

const KEPT_BYTES = 16 * 2 ** 20;

/** The library reads so many indices of the first dimension at once as are in a chunk. */
export interface LibraryRows extends FormatRows {
  readonly dataset: string;
  /** The rows may lie in other files (--external-files). */
  readonly elsewhere: boolean;
}

export const slabRows = noteRows<LibraryRows>(import.meta.url, {
  load: loadHdf5,
  open: (rows, _, __, share) => openLibraryRows(rows, share),
});

export function openLibraryRows(rows: LibraryRows, share = 1): RowReader {
  const { file, dataset, shape, lead, width, chunk: [together] } = rows;
  if (rows.elsewhere) followOtherFiles(true); // in this thread
  const { slice, close } = openHdf5(file.path, dataset, width);
  const [first, ...rest] = shape;
  const bytes = product(shape.slice(lead)) * width;
  const inSlab = together * product(shape.slice(1, lead));
  const most = Math.max(1, Math.floor(share * KEPT_BYTES / (together * product(rest) * width)));
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
    // The library reads zeros beyond the end of a short file.
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
      if (kept.size > most) {
        const [oldest] = kept.keys();
        kept.delete(oldest);
      }
      const at = row % inSlab * bytes;
      into.set(values.subarray(at, at + bytes));
    },
    groupOf: inSlab === 1 ? undefined : (row) => Math.floor(row / inSlab),
    close,
  };
}
