// Chunks of a Zarr array are files of their own, or parts of a shard's file with an index of its own.
import { UserError } from "../../../base/errors.ts";
import { type ChunkBytes, gunzip, MOST_RATIO, repeat, swapBytes, word } from "../../codecs/bytes.ts";
import { type Chunks, openRowsOfChunks, readAllChunks } from "../../arrays/chunks.ts";
import type { FormatRows, ReadsRows } from "../../arrays/rows.ts";
import { product } from "../../arrays/numbers.ts";
import { type StoreFiles, tooLarge } from "./server.ts";
import { openStoreFiles } from "./store_files.ts";
import { noteRows } from "../../arrays/open_rows.ts";
import { openInflate } from "../../../../ffi/codecs.ts";
import { openBlosc, unpackLz4, unpackZstd, unshuffle } from "../../codecs/blosc.ts";

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

export interface Codec {
  readonly id: CodecName;
  /** `shuffle` has the bytes of an element. */
  readonly width: number;
}

interface Coding {
  /** In the order of writing. */
  readonly codecs: readonly Codec[];
  /** Dimension i of the stored chunk is this dimension of the array; null leaves them as they are. */
  readonly order: readonly number[] | null;
  readonly swapped: boolean;
}

/** It fills `into`; the result says what is wrong, if anything. */
type Unpack = (packed: ChunkBytes, into: ChunkBytes, width: number) => string | null;

const WRONG = "can't be unpacked";

const UNPACK = {
  gzip: () => (packed, into) => gunzip(packed, into) ? null : WRONG,
  zlib: () => {
    const inflate = openInflate();
    return (packed, into) => inflate(packed, into) ? null : WRONG;
  },
  zstd: () => (packed, into) => unpackZstd(packed, into) ? null : WRONG,
  lz4: () => (packed, into) => {
    if (packed.length < 4) return "is cut off";
    const bytes = word(packed, 0);
    if (bytes !== into.length) return `unpacks to ${bytes} bytes, and ${into.length} belong there`;
    return unpackLz4(packed.subarray(4), into) ? null : WRONG;
  },
  blosc: openBlosc,
  shuffle: () => (packed, into, width) => {
    if (packed.length !== into.length) return sizes(packed.length, into.length);
    unshuffle(packed, into, width);
    return null;
  },
  crc32c: null,
} satisfies Record<string, (() => Unpack) | null>;

export type CodecName = keyof typeof UNPACK;

export const CODEC_NAMES = Object.keys(UNPACK) as CodecName[];

/** A chunk has one of these at most, so the size of what that gives is known beforehand. */
export const PACKERS: readonly CodecName[] = ["gzip", "zlib", "zstd", "lz4", "blosc"];

const sizes = (found: number, expected: number) => `has ${found} bytes, and ${expected} belong there`;

function openChunkDecoder(
  { codecs, order, swapped }: Coding,
  chunk: readonly number[],
  width: number,
): (stored: ChunkBytes, into: ChunkBytes) => string | null {
  const due = codecs.toReversed().map(({ id, width }) => ({ id, width, unpack: UNPACK[id]?.() as Unpack }));
  const rearrange = order && openRearrange(chunk, order, width);
  const spare: [ChunkBytes, ChunkBytes] = [new Uint8Array(0), new Uint8Array(0)];
  let turn = 0;
  const scratch = (bytes: number): ChunkBytes => {
    turn = 1 - turn;
    if (spare[turn].length < bytes) spare[turn] = new Uint8Array(bytes);
    return spare[turn].subarray(0, bytes);
  };
  return (stored, into) => {
    let now = stored;
    for (const [i, { id, width, unpack }] of due.entries()) {
      if (id === "crc32c") {
        const end = now.length - SUM_BYTES;
        if (end < 0 || crc32c(now.subarray(0, end)) !== word(now, end)) return "fails its checksum";
        now = now.subarray(0, end);
        continue;
      }
      // Sums that were written before this codec are still part of what it gives.
      const sums = due.slice(i + 1).filter(({ id }) => id === "crc32c").length * SUM_BYTES;
      const out = i === due.length - 1 && !rearrange ? into : scratch(into.length + sums);
      const wrong = unpack(now, out, width);
      if (wrong) return wrong;
      now = out;
    }
    if (now.length !== into.length) return sizes(now.length, into.length);
    if (rearrange) rearrange(now, into);
    else if (now !== into) into.set(now);
    if (swapped) swapBytes(into, width);
    return null;
  };
}

/** Element by element: only arrays in Fortran's order or transposed ones come here. */
function openRearrange(chunk: readonly number[], order: readonly number[], width: number) {
  const rank = chunk.length, stored = order.map((d) => chunk[d]);
  const far = chunk.map(() => 0); // the bytes between neighbours along a dimension of the array
  order.forEach((d, i) => far[d] = product(stored.slice(i + 1)) * width);
  return (from: Uint8Array, into: Uint8Array): void => {
    let to = 0;
    const visit = (d: number, at: number): void => {
      if (d < rank - 1) {
        for (let i = 0; i < chunk[d]; i++) visit(d + 1, at + i * far[d]);
        return;
      }
      for (let i = 0, source = at; i < chunk[d]; i++, source += far[d], to += width) {
        for (let byte = 0; byte < width; byte++) into[to + byte] = from[source + byte];
      }
    };
    visit(0, 0);
  };
}

const SUM_BYTES = 4, POLYNOMIAL = 0x82f63b78;

const TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  for (let bit = 0; bit < 8; bit++) byte = byte & 1 ? byte >>> 1 ^ POLYNOMIAL : byte >>> 1;
  return byte;
});

function crc32c(bytes: Uint8Array): number {
  let sum = ~0;
  for (let i = 0; i < bytes.length; i++) sum = TABLE[(sum ^ bytes[i]) & 255] ^ sum >>> 8;
  return ~sum >>> 0;
}
