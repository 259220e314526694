// Attributes of an object: numbers and texts, and which scales a dataset's dimensions have. May import its siblings.
import { type FileView, Span, textOfName, unforeseen } from "./bytes.ts";
import { readDense } from "./dense.ts";
import { ATTRIBUTE, ATTRIBUTE_INFO, type Messages } from "./header.ts";
import { globalHeap } from "./heaps.ts";
import { elements, readSpace } from "./space.ts";
import { ENUM, FLOAT, INTEGER, readType, ROWS, TEXT, type Type } from "./type.ts";

export interface Attribute {
  readonly type: Type;
  /** Null where it holds nothing. */
  readonly shape: readonly number[] | null;
  readonly data: Span;
}

export type Attributes = ReadonlyMap<string, Attribute>;

const BY_NAME = 8;
const MOST = 65536;

export function readAttributes(file: FileView, messages: Messages): Attributes {
  const found = new Map<string, Attribute>();
  const add = (span: Span) => {
    const [name, attribute] = readAttribute(span);
    if (found.has(name) || found.size >= MOST) unforeseen("an attribute twice");
    found.set(name, attribute);
  };
  messages.all(ATTRIBUTE).forEach(add);
  const info = messages.one(ATTRIBUTE_INFO);
  if (!info) return found;
  if (info.u8() !== 0) unforeseen("a version of attributes");
  if (info.u8() & 1) info.skip(2);
  const heap = info.address8(), names = info.address8();
  if (heap === null) return found;
  if (names === null || found.size > 0) unforeseen("attributes in two places");
  for (const { object, record } of readDense(file, heap, names, BY_NAME, (record) => record.take(8))) {
    if (record.u8() !== 0) unforeseen("an attribute that is shared");
    add(object);
  }
  return found;
}

function readAttribute(span: Span): [string, Attribute] {
  const version = span.u8(), flags = span.u8();
  if (version < 1 || version > 3 || (version > 1 && flags !== 0)) unforeseen("a version of attributes");
  const sizes = [span.u16(), span.u16(), span.u16()];
  if (version === 3 && span.u8() > 1) unforeseen("a character set");
  const [name, typed, spaced] = sizes.map((size) => {
    const part = span.take(size);
    if (version === 1) span.skip((8 - size % 8) % 8);
    return part;
  });
  const type = readType(typed), { shape } = readSpace(spaced);
  const bytes = shape === null ? 0 : elements(shape) * type.size;
  return [textOfName(name.name()), { type, shape, data: span.take(bytes) }];
}

/** Reads attributes' values; longer ones are in the heaps of the file. */
export function valuesIn(file: FileView) {
  const heap = globalHeap(file);
  const inHeap = (span: Span, width: number) => {
    const count = span.u32(), address = span.uint(8), index = span.u32();
    if (count === 0) return null;
    const bytes = heap(address, index);
    return count * width <= bytes.length
      ? bytes.subarray(0, count * width)
      : unforeseen("a short item of a heap");
  };
  return {
    /** The first text, "" where there is none. */
    text({ type, shape, data }: Attribute): string {
      if (type.kind !== TEXT || shape === null || elements(shape) === 0) return "";
      const all = type.variable ? inHeap(data, 1) ?? new Uint8Array(0) : data.take(type.size).bytes;
      const end = all.indexOf(0), bytes = end < 0 ? all : all.slice(0, end);
      if (type.utf8) return textOfName(bytes);
      // Some write other letters than ASCII's and don't say so: taken as the library's interface takes them.
      return new TextDecoder(type.variable ? "utf-16le" : "ascii").decode(
        type.variable ? widened(bytes) : bytes,
      );
    },
    /** All its numbers; null for what is none. */
    numbers({ type, shape, data }: Attribute): number[] | null {
      if (type.kind === TEXT || shape === null) return null;
      if (![INTEGER, FLOAT, ENUM].includes(type.kind) || !type.plain) {
        unforeseen("an attribute of another type");
      }
      return Array.from({ length: elements(shape) }, () => number(data.take(type.size), type));
    },
    /** For each dimension the object headers of its scales. */
    scales({ type, shape, data }: Attribute): number[][] {
      if (type.kind !== ROWS || type.size !== 16 || shape?.length !== 1) {
        return unforeseen("a list of dimensions");
      }
      return Array.from({ length: shape[0] }, () => {
        const bytes = inHeap(data, 8) ?? new Uint8Array(0), span = new Span(bytes.slice(), 0);
        return Array.from({ length: bytes.length / 8 }, () => span.uint(8));
      });
    },
  };
}

/** Letters of one byte as letters of two. */
const widened = (bytes: Uint8Array) => Uint16Array.from(bytes);

export type Values = ReturnType<typeof valuesIn>;

function number({ bytes }: Span, { kind, size, signed, bigEndian }: Type): number {
  const view = new DataView(bytes.buffer, bytes.byteOffset, size), little = !bigEndian;
  if (kind === FLOAT) {
    return size === 8 ? view.getFloat64(0, little) : size === 4 ? view.getFloat32(0, little) : odd();
  }
  switch (size) {
    case 1:
      return signed ? view.getInt8(0) : view.getUint8(0);
    case 2:
      return signed ? view.getInt16(0, little) : view.getUint16(0, little);
    case 4:
      return signed ? view.getInt32(0, little) : view.getUint32(0, little);
    case 8:
      return Number(signed ? view.getBigInt64(0, little) : view.getBigUint64(0, little));
  }
  return odd();
}

const odd = (): never => unforeseen("numbers of an odd size");
