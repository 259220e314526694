// Where an HDF5 dataset's values are: its object header, read as the file format has it, and nothing else of the file.
// Null for whatever is not foreseen here: the library then reads it. May import its siblings.
import type { OpenFile } from "./file.ts";

/** Addresses in the file. */
export type Layout =
  | { readonly kind: "contiguous"; readonly at: number }
  | {
    readonly kind: "chunks";
    readonly at: number;
    readonly index: "tree" | "one" | "implicit" | "array";
    /** Of the one chunk, where it is packed. */
    readonly one?: { readonly size: number; readonly mask: number };
  };

const LAYOUT = 8, CONTINUATION = 16;
const SHARED = 2; // a flag of a message: it is elsewhere

/** `at` is the address of the dataset's object header. */
export function readLayout(file: OpenFile, at: number): Layout | null {
  for (const { type, flags, data } of messages(file, at)) {
    if (type === LAYOUT) return flags & SHARED ? null : parseLayout(data);
  }
  return null;
}

interface Message {
  readonly type: number;
  readonly flags: number;
  readonly data: DataView;
}

export function viewAt(file: OpenFile, at: number, length: number): DataView {
  const bytes = new Uint8Array(length);
  file.read(bytes, at);
  return new DataView(bytes.buffer);
}

/** A number of 8 bytes; an address of all ones is none: -1. */
export function long(view: DataView, at: number): number {
  const value = view.getBigUint64(at, true);
  return value === 0xffffffffffffffffn ? -1 : Number(value);
}

/** A number of up to 7 bytes in fact. */
export function short(view: DataView, at: number, bytes: number): number {
  let value = 0;
  for (let i = bytes; i-- > 0;) value = value * 256 + view.getUint8(at + i);
  return value;
}

const sign = (view: DataView): string => String.fromCharCode(...[0, 1, 2, 3].map((i) => view.getUint8(i)));

function messages(file: OpenFile, at: number): Message[] {
  const found: Message[] = [];
  const head = viewAt(file, at, 16);
  const isNew = sign(head) === "OHDR";
  const flags = isNew ? head.getUint8(5) : 0;
  // Blocks of messages: [address, bytes], more of them as continuations are met.
  const blocks: [number, number][] = [];
  if (isNew) {
    const sizeAt = 6 + (flags & 0x20 ? 16 : 0) + (flags & 0x10 ? 4 : 0);
    const sizeBytes = 1 << (flags & 3);
    const length = short(viewAt(file, at + sizeAt, sizeBytes), 0, sizeBytes);
    blocks.push([at + sizeAt + sizeBytes, length]);
  } else {
    if (head.getUint8(0) !== 1) return [];
    blocks.push([at + 16, head.getUint32(8, true)]);
  }
  const headBytes = isNew ? (flags & 4 ? 6 : 4) : 8;
  for (const [from, length] of blocks) {
    if (blocks.length > 1000) return [];
    const block = viewAt(file, from, length);
    for (let i = 0; i + headBytes <= length;) {
      const type = isNew ? block.getUint8(i) : block.getUint16(i, true);
      const size = block.getUint16(i + (isNew ? 1 : 2), true);
      const messageFlags = block.getUint8(i + (isNew ? 3 : 4));
      i += headBytes;
      if (i + size > length) break;
      const data = new DataView(block.buffer, i, size);
      if (type === CONTINUATION) {
        const [next, bytes] = [long(data, 0), long(data, 8)];
        blocks.push(isNew ? [next + 4, bytes - 8] : [next, bytes]); // without its signature and its checksum
      } else found.push({ type, flags: messageFlags, data });
      i += size;
    }
  }
  return found;
}

/** Of version 3, which most files have, and 4 and 5, of files for HDF5 1.10 or 2.0 and later alone. */
function parseLayout(data: DataView): Layout | null {
  const version = data.getUint8(0), kind = data.getUint8(1);
  if (version < 3 || version > 5) return null;
  if (kind === 1) {
    const at = long(data, 2);
    return at < 0 ? null : { kind: "contiguous", at };
  }
  if (kind !== 2) return null;
  if (version === 3) {
    const at = long(data, 3);
    return at < 0 ? null : { kind: "chunks", at, index: "tree" };
  }
  const flags = data.getUint8(2), rank = data.getUint8(3), width = data.getUint8(4);
  if (flags & 1) return null; // chunks that reach over the edge are not packed
  const indexAt = 5 + rank * width;
  const rest = indexAt + 1;
  switch (data.getUint8(indexAt)) {
    case 1: {
      const one = flags & 2 ? { size: long(data, rest), mask: data.getUint32(rest + 8, true) } : undefined;
      return known({ kind: "chunks", at: long(data, rest + (one ? 12 : 0)), index: "one", one });
    }
    case 2:
      return known({ kind: "chunks", at: long(data, rest), index: "implicit" });
    case 3:
      return known({ kind: "chunks", at: long(data, rest + 1), index: "array" });
  }
  return null;
}

const known = (layout: Layout): Layout | null => layout.at < 0 ? null : layout;
