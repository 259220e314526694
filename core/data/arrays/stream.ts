// Columns that are read a sample at a time. May import its siblings, columns (types), reading, ffi.
import { type DType, dtypeBytes } from "../../../ffi/dtype.ts";
import { borrowBytes } from "../../../ffi/make.ts";
import type { Tensor } from "../../../ffi/tensor.ts";
import { channelsAreLast, channelsNote, joinedShape } from "../column_shapes.ts";
import { storedType } from "../column_tensors.ts";
import type { Column, Table } from "../columns.ts";
import { type ThreadedParts, threadedSource } from "../reading/threaded_source.ts";
import type { Source } from "../source.ts";
import { gridOf, product } from "./chunk_grid.ts";
import { readAllRows } from "./file_rows.ts";
import type { ArraysSpec } from "./reader.ts";
import type { FileRows, Part } from "./rows.ts";

export interface Streamed {
  readonly path: string;
  readonly parts: readonly Part[];
  /** One sample's input, as it is in a batch. */
  readonly stored: DType;
  readonly shape: readonly number[];
  readonly notes: readonly string[];
}

/** How the features are read a sample at a time; in place of that, why they can't be. */
export function streamColumns(table: Table, features: readonly Column[], flat = false): Streamed | string {
  const shape = joinedShape(table, features, flat);
  const parts: Part[] = [], notes: string[] = [];
  for (const { name, shape, stream } of features) {
    const rows = stream?.rows() ?? "is text, which has to be read from the beginning";
    if (typeof rows === "string") return `the ${table.noun} "${name}" ${rows}`;
    const { raw, rule } = stream!;
    const channelsLast = channelsAreLast(shape) ? shape.slice(1) : null;
    if (channelsLast) notes.push(channelsNote(name, shape));
    parts.push({ name, rows, count: product(shape.slice(1)), raw, rule, channelsLast });
  }
  const usual = storedType(features);
  // Halves have no arithmetic on the host: they are whole floats from the beginning.
  const stored = usual === "f16" ? "f32" : usual;
  return { path: table.path, parts: merged(parts), stored, shape, notes: [...notes, ...chunkNotes(parts)] };
}

/** Columns that lie side by side in the rows of one table are read at once. */
function merged(parts: readonly Part[]): Part[] {
  const found: Part[] = [];
  for (const part of parts) {
    const before = found.at(-1);
    if (!before || !adjoin(before, part)) {
      found.push(part);
      continue;
    }
    const rows = before.rows as FileRows;
    found[found.length - 1] = {
      ...before,
      rows: { ...rows, bytes: rows.bytes + (part.rows as FileRows).bytes },
      count: before.count + part.count,
    };
  }
  return found;
}

function adjoin({ rows: a, ...one }: Part, { rows: b, ...other }: Part): boolean {
  return a.layout === "file" && b.layout === "file" && a.file.path === b.file.path &&
    a.begin + a.bytes === b.begin && a.step === b.step && !a.blocks && !b.blocks &&
    one.raw === other.raw && !one.rule && !other.rule && !one.channelsLast && !other.channelsLast;
}

function chunkNotes(parts: readonly Part[]): string[] {
  return parts.flatMap((part) => {
    const together = togetherIn(part);
    return together === 1 ? [] : [
      `${part.name} is packed in chunks of ${together} samples: for one, all of them are unpacked (hpctrain pack ` +
      "makes a copy that is read faster)",
    ];
  });
}

/** Samples that are unpacked when one is read. */
function togetherIn({ rows }: Part): number {
  return rows.layout === "chunks" ? gridOf(rows).rowsInChunk : rows.layout === "library" ? rows.together : 1;
}

/** The same column, but nothing else of its file is read for it. */
export function readAlone(column: Column): Column {
  const { stream, shape } = column;
  const rows = stream && stream.rule === null ? stream.rows() : "";
  if (typeof rows === "string" || rows.layout !== "file" || rows.bytes === rows.step) return column;
  return { ...column, read: () => readAllRows(rows, shape[0], dtypeBytes(stream!.raw)) };
}

type Facts = Omit<ThreadedParts, "length" | "indices" | "reader" | "stored" | "target">;

/** A source of some rows. `targets` are those of all rows. */
export function streamedSource(
  { path, parts, stored, shape }: Streamed,
  { targets, ...facts }: Facts & { readonly targets: Tensor },
): (rows: Int32Array) => Source {
  const shared = new Uint8Array(new SharedArrayBuffer(targets.byteLength));
  shared.set(borrowBytes(targets));
  const reader: ArraysSpec = {
    kind: parts.some(({ rows }) => rows.layout === "library") ? "hdf5" : "arrays",
    grouped: parts.some((part) => togetherIn(part) > 1),
    path,
    parts,
    stored,
    shape,
    targets: shared,
    targetBytes: targets.byteLength / targets.shape[0],
  };
  return (rows) =>
    threadedSource({
      ...facts,
      length: rows.length,
      indices: rows,
      reader,
      stored: { name: "features", shape, dtype: stored },
      target: { name: "targets", shape: targets.shape.slice(1), dtype: targets.dtype },
    });
}
