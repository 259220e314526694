// How a dataset is stored: its layout, filters and fill value, as its header's messages have them. May import its
// siblings.
import { type Span, textOfName, unforeseen } from "./bytes.ts";
import { FILL, FILTERS, LAYOUT, type Messages, OLD_FILL } from "./header.ts";

/** Addresses in the file; null where nothing was stored yet. */
export type Layout =
  | { readonly kind: "plain"; readonly at: number | null; readonly bytes: number }
  | {
    readonly kind: "chunks";
    readonly at: number | null;
    readonly chunk: readonly number[];
    /** Of an element. */
    readonly width: number;
    readonly index: "tree" | "one" | "implicit" | "array" | "tree2";
    /** Of the one chunk, where it is packed. */
    readonly one?: { readonly size: number; readonly mask: number };
  };

const COMPACT = 0, CONTIGUOUS = 1, CHUNKED = 2;

/** Of version 3, which most files have, and 4 and 5, of files for HDF5 1.10 or 2.0 and later alone. */
export function readLayout(messages: Messages): Layout {
  const span = messages.one(LAYOUT) ?? unforeseen("a dataset without a layout");
  const version = span.u8(), kind = span.u8();
  if (version < 3 || version > 5) unforeseen("a version of layouts");
  switch (kind) {
    case COMPACT: {
      const bytes = span.u16();
      return { kind: "plain", at: span.take(bytes).address, bytes };
    }
    case CONTIGUOUS:
      return { kind: "plain", at: span.address8(), bytes: span.uint(8) };
    case CHUNKED:
      return version === 3 ? oldChunks(span) : chunks(span);
  }
  return unforeseen("a kind of layout");
}

function oldChunks(span: Span): Layout {
  const rank = span.u8(), at = span.address8();
  return { kind: "chunks", at, index: "tree", ...sizes(span, rank, 4) };
}

function chunks(span: Span): Layout {
  const flags = span.u8(), rank = span.u8();
  // Chunks that reach over the edge are not packed, where the first flag is set.
  if (flags & ~2) unforeseen("flags of chunks");
  const found = { kind: "chunks", ...sizes(span, rank, span.u8()) } as const;
  const packed = (flags & 2) !== 0, index = span.u8();
  if (packed && index !== 1) unforeseen("flags of chunks");
  switch (index) {
    case 1: {
      const one = packed ? { size: span.uint(8), mask: span.u32() } : undefined;
      return { ...found, index: "one", one, at: span.address8() };
    }
    case 2:
      return { ...found, index: "implicit", at: span.address8() };
    case 3:
      span.skip(1);
      return { ...found, index: "array", at: span.address8() };
    case 5:
      span.skip(6);
      return { ...found, index: "tree2", at: span.address8() };
  }
  return unforeseen("an index of chunks");
}

/** The last is that of an element. */
function sizes(span: Span, rank: number, bytes: number): { chunk: readonly number[]; width: number } {
  if (rank < 2 || rank > 33 || bytes < 1 || bytes > 8) unforeseen("dimensions of chunks");
  const all = Array.from({ length: rank }, () => span.uint(bytes));
  if (all.some((size) => size === 0 || size >= 2 ** 32)) unforeseen("dimensions of chunks");
  return { chunk: all.slice(0, -1), width: all.at(-1)! };
}

export interface Filter {
  readonly id: number;
  readonly name: string;
  readonly cd_values: readonly number[];
}

const MOST_FILTERS = 32, OWN_NAMES = 256;
/** Of filters that need no name in the file, the one that can't be read here. */
const NAMES: Readonly<Record<number, string>> = { 4: "szip" };

export function readFilters(messages: Messages): Filter[] {
  const span = messages.one(FILTERS);
  if (!span) return [];
  const version = span.u8(), count = span.u8();
  if ((version !== 1 && version !== 2) || count > MOST_FILTERS) unforeseen("a version of filters");
  if (version === 1) span.skip(6);
  return Array.from({ length: count }, () => {
    const id = span.u16();
    const named = version === 1 || id >= OWN_NAMES ? span.u16() : 0;
    span.skip(2);
    const values = span.u16();
    const bytes = span.take(version === 1 ? Math.ceil(named / 8) * 8 : named).bytes;
    const cd_values = Array.from({ length: values }, () => span.u32());
    if (version === 1 && values % 2 === 1) span.skip(4);
    const end = bytes.indexOf(0);
    return { id, name: textOfName(end < 0 ? bytes : bytes.slice(0, end)) || (NAMES[id] ?? ""), cd_values };
  });
}

const NEVER = 1, UNSET = 16, SET = 32;

/** One element, as it is stored; null where what stands in places that were never written is not known. */
export function readFill(messages: Messages, width: number): Uint8Array | null {
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
