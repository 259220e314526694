// Chunks of a Zarr array are files of their own, or parts of a shard's file with an index of its own.
import { UserError } from "../../../base/errors.ts";
import { type ChunkBytes, MOST_RATIO, repeat, word } from "../../codecs/bytes.ts";
import { type Chunks, openRowsOfChunks, readAllChunks } from "../../arrays/chunks.ts";
import type { FormatRows, ReadsRows } from "../../arrays/rows.ts";
import { product } from "../../arrays/numbers.ts";
import { type CodecName, type Coding, crc32c, openChunkDecoder } from "./codecs.ts";
import { type StoreFiles, tooLarge } from "./server.ts";
import { openStoreFiles } from "./store_files.ts";
import { noteRows } from "../../arrays/open_rows.ts";

/** Several chunks in one file; the index, of a place and a size for each, stands at its end or beginning. */
export interface ChunkShard {
  /** The chunks along each dimension. */
  readonly chunks: readonly number[];
  readonly indexFirst: boolean;
  readonly checked: boolean;
}

/** A thread reads an array by this plain data. */
export interface StoredArray {
  readonly shape: readonly number[];
  /** Each chunk is packed by itself: of a shard it is the inner chunk. */
  readonly chunk: readonly number[];
  readonly width: number;
  /** A chunk's file is the folder, the prefix, and the chunk's place with the separator in between. */
  readonly prefix: string;
  readonly separator: string;
  readonly shard: ChunkShard | null;
  readonly coding: Coding;
  /** The element of chunks that were never written, in this machine's byte order. */
  readonly fill: Uint8Array;
}

/** The file's path is the array's, its size and time are those of its metadata. */
export interface StoreRows extends StoredArray, FormatRows {
  readonly store: string;
  /** Keys inside of the store: what is in front of the chunks' own, and the metadata. */
  readonly inside: string;
  readonly metadata: string;
}

/** A chunk that packs badly grows by less. */
const MORE = 65536;

export const storeRows = noteRows<StoreRows>(import.meta.url, {
  open: (rows, name, _, share) => openStoreRows(rows, name, share),
});

function openStoreRows(rows: StoreRows, name: string, share: number): ReadsRows {
  const files = openStoreFiles(rows.store);
  const { size, changed } = files.markOf(rows.metadata);
  if (size !== rows.file.size || changed !== rows.file.changed) {
    files.close();
    throw new UserError(
      "data",
      `${rows.file.path} was changed after training began: is something else writing it? Go on with the last ` +
        "checkpoint when it is whole.",
    );
  }
  const read = openRowsOfChunks(rows, chunksOf(rows, files), rows.file.path, name, share);
  return { ...read, close: files.close };
}

export function readStore(rows: StoreRows): Uint8Array {
  const files = openStoreFiles(rows.store);
  try {
    const { values, wrong } = readAllChunks(rows, chunksOf(rows, files));
    if (wrong === null) return values;
    throw new UserError(
      "data",
      `${rows.file.path}: a chunk is damaged: ${wrong}. Copy the store again from where it came from.`,
    );
  } finally {
    files.close();
  }
}

function chunksOf(rows: StoreRows, files: StoreFiles): Chunks {
  const { shape, chunk, width, coding, fill, shard } = rows;
  const decode = openChunkDecoder(coding, chunk, width),
    { read, sizeOf } = shard ? openShards(rows, shard, files) : openChunkFiles(rows, files);
  const grid = shape.map((size, d) => Math.ceil(size / chunk[d]));
  const place = grid.map(() => 0);
  const placeOf = (cell: number) => {
    for (let d = grid.length - 1, rest = cell; d >= 0; d--) {
      place[d] = rest % grid[d];
      rest = Math.floor(rest / grid[d]);
    }
    return place;
  };
  const expect = files.expect && !shard
    ? (cells: readonly number[]) =>
      files.expect!(
        cells.slice(0, AHEAD_BYTES / mostOf(rows)).map((cell) => rows.inside + keyOf(rows, placeOf(cell))),
        mostOf(rows),
      )
    : undefined;
  const ratio = coding.codecs.reduce((most, { id }) => Math.max(most, RATIOS[id]), MOST_RATIO.none as number);
  return {
    fill: null,
    isWritten: () => true,
    expect,
    storedOf(cell) {
      const bytes = sizeOf(placeOf(cell));
      return bytes === null ? null : { bytes, ratio };
    },
    load(cell, into) {
      const stored = read(placeOf(cell));
      if (typeof stored === "string") return stored;
      if (stored === null) repeat(fill, into, 0, into.length);
      else {
        const wrong = decode(stored.bytes, into);
        if (wrong) return `${stored.key} (${stored.bytes.length} bytes) ${wrong}`;
      }
      return null;
    },
  };
}

const RATIOS: Readonly<Record<CodecName, number>> = {
  ...{ gzip: MOST_RATIO.deflate, zlib: MOST_RATIO.deflate, zstd: MOST_RATIO.zstd, lz4: MOST_RATIO.lz4 },
  ...{ blosc: MOST_RATIO.zstd, shuffle: MOST_RATIO.none, crc32c: MOST_RATIO.none },
};

interface StoredChunk {
  readonly key: string;
  /** Valid until the next chunk is read. */
  readonly bytes: ChunkBytes;
}

/** Null means a chunk that was never written; a string says what is wrong. */
type ReadChunk = (place: readonly number[]) => StoredChunk | string | null;

interface StoredChunks {
  readonly read: ReadChunk;
  /** Null where nobody knows, or there is none. */
  sizeOf(place: readonly number[]): number | null;
}

const keyOf = ({ prefix, separator, shape }: StoredArray, place: readonly number[]): string =>
  shape.length > 0 ? prefix + place.join(separator) : prefix === "" ? "0" : prefix.slice(0, -1);

/** Answers that wait take no more. */
const AHEAD_BYTES = 64 * 2 ** 20;

const mostOf = ({ chunk, width }: StoreRows): number => 2 * product(chunk) * width + MORE;

function openChunkFiles(rows: StoreRows, files: StoreFiles): StoredChunks {
  const most = mostOf(rows);
  return {
    read(place) {
      const key = keyOf(rows, place), bytes = files.whole(rows.inside + key, most);
      return bytes === null ? null : typeof bytes === "string" ? `${key} ${bytes}` : { key, bytes };
    },
    sizeOf: (place) => files.sizeOf(rows.inside + keyOf(rows, place)),
  };
}

/** An index has the offset and the size of each chunk, as two numbers of 64 bits. */
const ENTRY = 16, SUM = 4, NOWHERE = 0xffffffff;
/** Neighbours are read one after the other, so a few indices are enough. */
const KEPT_INDICES = 64;

function openShards(rows: StoreRows, shard: ChunkShard, files: StoreFiles): StoredChunks {
  const { chunks, checked, indexFirst } = shard;
  const entries = product(chunks), indexBytes = entries * ENTRY + (checked ? SUM : 0);
  const most = mostOf(rows);
  const indices = new Map<string, Uint8Array | null>();
  const indexOf = (key: string): Uint8Array | string | null => {
    const known = indices.get(key);
    if (known !== undefined) return known;
    const stored = files.part(rows.inside + key, indexFirst ? 0 : -indexBytes, indexBytes);
    if (typeof stored === "string") return `${key} ${stored}`;
    const index = stored && stored.slice(), end = entries * ENTRY;
    if (index && index.length < indexBytes) {
      return `${key} is cut off: its index alone has ${indexBytes} bytes`;
    }
    if (index && checked && crc32c(index.subarray(0, end)) !== word(index, end)) {
      return `${key} has an index that fails its checksum`;
    }
    if (indices.size >= KEPT_INDICES) indices.delete(indices.keys().next().value!);
    indices.set(key, index);
    return index;
  };
  const entryOf = (place: readonly number[]) => {
    const key = keyOf(rows, place.map((at, d) => Math.floor(at / chunks[d])));
    const index = indexOf(key);
    if (index === null || typeof index === "string") return index;
    const number = place.reduce((sum, at, d) => sum * chunks[d] + at % chunks[d], 0);
    const [low, high, size, sizeHigh] = [0, 4, 8, 12].map((at) => word(index, number * ENTRY + at));
    if (low === NOWHERE && high === NOWHERE) return null;
    return {
      key,
      part: `chunk ${number} of ${key}`,
      at: high * 2 ** 32 + low,
      size: sizeHigh * 2 ** 32 + size,
    };
  };
  return {
    read(place) {
      const entry = entryOf(place);
      if (entry === null || typeof entry === "string") return entry;
      const { key, part, at, size } = entry;
      if (size > most) return `${part} ${tooLarge(most)}`;
      const bytes = files.part(rows.inside + key, at, size);
      if (bytes === null) return null;
      if (typeof bytes === "string") return `${part} ${bytes}`;
      return bytes.length < size ? `${part} is cut off` : { key: part, bytes };
    },
    sizeOf(place) {
      const entry = entryOf(place);
      return entry === null || typeof entry === "string" ? null : entry.size;
    },
  };
}
