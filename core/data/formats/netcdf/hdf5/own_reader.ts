// Our own reader follows the HDF5 file format, so most files need no library. It is strict: whatever it does
// not foresee leaves the whole file to HDF5's library.
import * as types from "./datatype.ts";
import type { Hdf5 } from "./datatype.ts";
import { checkFreeMemory } from "../../../../base/memory.ts";
import { dtypeBytes } from "../../../../../ffi/dtype.ts";
import { UserError } from "../../../../base/errors.ts";
import { markOf, withFiles } from "../../../arrays/files.ts";
import type { FileMark } from "../../../arrays/rows.ts";
import { readWhole } from "./chunk_rows.ts";
import type { Notes } from "./header_notes.ts";
import { unreadableHdf5 } from "./library.ts";
import { unreachable, type Variable } from "../../../arrays/table.ts";
import { type FileView, Unforeseen, unforeseen } from "./bytes.ts";
import {
  FILL,
  LINK_INFO,
  type Messages,
  OLD_FILL,
  readHeader,
  readSuperblock,
  SPACE,
  SYMBOLS,
  TYPE,
} from "./header.ts";
import { readFilters, readLayout, type RowsAt, storageOf } from "./storage.ts";
import { type Attributes, readAttributes, readLinks, valuesIn } from "./objects.ts";

interface Known {
  readonly mark: FileMark;
  readonly content: Hdf5 | null;
  /** Chunks in its tables, which take 16 bytes each. */
  readonly cells: number;
}

/** Files of one data set are read once in turn, and then again. */
const MOST_KNOWN = 4096, MOST_KNOWN_CELLS = 2 ** 23;

const known = new Map<string, Known>();

let knownCells = 0;

function forget(path: string): void {
  knownCells -= known.get(path)?.cells ?? 0;
  known.delete(path);
}

const isSame = (a: FileMark, b: FileMark) => a.size === b.size && a.changed === b.changed;

/** It was read before, and nothing has changed since. */
export function isKnown(path: string): boolean {
  const before = known.get(path);
  return before !== undefined && before.content !== null && isSame(before.mark, markOf(path));
}

/** Each state of a file is read once; null leaves it to HDF5's library. Pieces in `notes` are not read from the file. */
export function readOwn(path: string, notes: Notes | null = null): Hdf5 | null {
  const mark = markOf(path), before = known.get(path);
  if (before && isSame(before.mark, mark)) return before.content;
  const { content, cells } = hdf5Content(mark, notes);
  forget(path);
  known.set(path, { mark, content, cells });
  knownCells += cells;
  while (known.size > 1 && (known.size > MOST_KNOWN || knownCells > MOST_KNOWN_CELLS)) {
    forget(known.keys().next().value!);
  }
  return content;
}

export function hdf5Content(mark: FileMark, notes: Notes | null): Pick<Known, "content" | "cells"> {
  try {
    // pread would open libc, which waits while libtorch loads in another thread.
    return withFiles((open) => {
      const read = (into: Uint8Array, at: number) => {
        if (notes?.read(at, into)) return;
        open(mark.path).readInto(at, into);
        notes?.note(at, into);
      };
      const { root, file } = readSuperblock({ read }, mark.size);
      const opened = { mark, file, notes, values: valuesIn(file), cells: 0 };
      return { content: readTree(opened, root), cells: opened.cells };
    });
  } catch (error) {
    if (error instanceof Unforeseen || error instanceof UserError) return { content: null, cells: 0 };
    throw error;
  }
}

interface Opened {
  readonly mark: FileMark;
  readonly file: FileView;
  readonly values: AttributeValues;
  readonly notes: Notes | null;
  cells: number;
}

const isGroup = (messages: Messages): boolean =>
  messages.one(SYMBOLS) !== null || messages.one(LINK_INFO) !== null;

type AttributeValues = ReturnType<typeof valuesIn>;

/** Names of dimensions may come from datasets that are read later. */
interface Found {
  readonly name: string;
  readonly isScale: boolean;
  readonly isBare: boolean;
  variable(pathsOf: Map<number, Found[]>): Variable;
}

/** The library reads chunk tables only of chosen datasets, so files beyond these limits are left to it. */
const MOST_DEPTH = 64, MOST_OBJECTS = 65536, MOST_CELLS = 2 ** 22;

function readTree(opened: Opened, root: number): Hdf5 {
  const { file } = opened, all: Found[] = [], groups = new Set<number>();
  const pathsOf = new Map<number, Found[]>();
  let isNetcdf = false;
  const visit = (prefix: string, address: number, messages: Messages, depth: number) => {
    // The library decides which path of a group with several counts.
    if (groups.has(address) || depth > MOST_DEPTH) unforeseen("a group twice");
    groups.add(address);
    for (const { name, address } of readLinks(file, messages)) {
      const child = readHeader(file, address), path = prefix + name;
      if (isGroup(child)) visit(`${path}/`, address, child, depth + 1);
      else if (child.one(SPACE) !== null) {
        const attributes = readAttributes(file, child);
        isNetcdf ||= types.NETCDFS.some((name) => attributes.has(name));
        const found = readDataset(opened, path, child, attributes);
        all.push(found);
        pathsOf.set(address, [...pathsOf.get(address) ?? [], found]);
      } else if (child.one(TYPE) === null) unforeseen("an object of another kind");
      if (all.length + groups.size > MOST_OBJECTS) unforeseen("very many objects");
    }
  };
  const messages = readHeader(file, root);
  if (!isGroup(messages)) unforeseen("a root that is no group");
  isNetcdf = readAttributes(file, messages).has(types.NETCDFS_ROOT);
  visit("", root, messages, 0);
  const variables = all.filter(({ isBare }) => !isBare).map(({ variable }) => variable(pathsOf));
  return { variables, isNetcdf };
}

/** Coordinates of each file are compared with those of the others at every start. */
const SMALL_BYTES = 128 * 2 ** 10;

function readDataset(opened: Opened, name: string, messages: Messages, attributes: Attributes): Found {
  const { mark, file, values, notes } = opened;
  const type = types.readType(messages.one(TYPE) ?? unforeseen("a dataset without a type"));
  const space = types.readSpace(messages.one(SPACE) ?? unforeseen("a dataset without a space"));
  const filters = readFilters(messages), layout = readLayout(messages);
  const text = (key: string) => {
    const attribute = attributes.get(key);
    return attribute ? values.text(attribute) : "";
  };
  const isScale = text("CLASS") === "DIMENSION_SCALE", isBare = types.isBareDimension(text("NAME"));
  const { kind, size, signed, bigEndian } = type;
  const facts = { kind, size, signed, names: type.names, shape: space.shape, filters, virtual: false };
  const unusable = types.reasonAgainst(facts), dtype = types.dtypeOf(facts);
  if (dtype && !type.plain && [types.INTEGER, types.FLOAT, types.ENUM].includes(kind)) {
    unforeseen("numbers of an odd kind");
  }
  const shape = space.shape ?? [];
  const stored = { file: mark, shape, fixed: space.fixed, width: size, bigEndian, filters };
  if (layout.kind === "chunks") {
    opened.cells += types.elements(shape.map((size, d) => Math.ceil(size / layout.chunk[d])));
    if (!(opened.cells <= MOST_CELLS)) unforeseen("very many chunks");
  }
  const rows = isBare || unusable !== undefined
    ? null
    : storageOf(file, layout, stored, () => readFill(messages, size));
  const list = attributes.get("DIMENSION_LIST");
  const scales = list && !(isScale && shape.length === 1) ? values.scales(list) : [];
  const about = attributesOf(attributes, values), bytes = types.elements(shape) * size;
  const isSmall = shape.length === 1 && bytes <= SMALL_BYTES;
  return {
    ...{ name, isScale, isBare },
    variable: (pathsOf) => ({
      name: types.plainName(name),
      shape,
      dimensions: isScale && shape.length === 1
        ? [name]
        : shape.map((size, i) => scaleOf(pathsOf, scales[i]) ?? `size ${size}`),
      dtype,
      attributes: about,
      auxiliary: isScale,
      unusable,
      read: rows && dtype
        ? () => {
          const all = () => readAll(`${mark.path}: ${name}`, rows, dtypeBytes(dtype), bytes);
          return notes && isSmall ? notes.values(name, all) : all();
        }
        : unreachable,
      rows: rows ?? unreachable,
    }),
  };
}

const NEVER = 1, UNSET = 16, SET = 32;

/** Null means that the content of unwritten places is not known. */
function readFill(messages: Messages, width: number): Uint8Array | null {
  const span = messages.one(FILL);
  if (!span) return messages.one(OLD_FILL) ? unforeseen("an old fill value") : null;
  const value = (bytes: number) =>
    bytes === 0
      ? new Uint8Array(width)
      : bytes === width
      ? span.take(bytes).bytes.slice()
      : unforeseen("a fill value");
  const version = span.u8();
  if (version === 3) {
    const flags = span.u8();
    if (flags & 0xc0 || flags & UNSET || (flags >> 2 & 3) === NEVER) return null;
    return value(flags & SET ? span.u32() : 0);
  }
  if (version !== 1 && version !== 2) unforeseen("a version of fill values");
  span.skip(1);
  const when = span.u8(), defined = span.u8();
  if (when === NEVER) return null;
  if (version === 2 && defined === 0) return value(0);
  const bytes = span.u32();
  return bytes >= 2 ** 31 ? null : value(bytes);
}

function scaleOf(pathsOf: Map<number, Found[]>, scales: readonly number[] | undefined): string | undefined {
  if (!scales || scales.length === 0) return undefined;
  const found = scales.map((address) => pathsOf.get(address) ?? []);
  if (found.some((named) => named.length !== 1 || !named[0].isScale)) {
    unforeseen("a scale that is none, or has several names");
  }
  return found[0][0].name;
}

function attributesOf(attributes: Attributes, values: AttributeValues): Variable["attributes"] {
  const found = new Map<string, readonly number[] | string>();
  for (const [name, attribute] of attributes) {
    if (types.TEXTS.test(name)) found.set(name, values.text(attribute));
    else if (types.NUMBER_ATTRIBUTES.test(name)) {
      const numbers = values.numbers(attribute);
      if (numbers) found.set(name, numbers);
    } else if (!types.RESERVED_ATTRIBUTES.test(name)) {
      const value = values.described(attribute);
      if (value !== null) found.set(name, value);
    }
  }
  return found;
}

function readAll(what: string, rows: RowsAt, width: number, bytes: number): Uint8Array {
  checkFreeMemory(what, bytes, null, "Choose fewer with --features.");
  const { values, wrong } = readWhole(rows(0), width);
  if (wrong !== null) throw unreadableHdf5(what, wrong);
  return values;
}
