// Groups have links; objects have attributes: numbers, texts and the scales of dimensions.
import * as types from "./datatype.ts";
import type { Type } from "./datatype.ts";
import { readDense } from "./dense.ts";
import { ATTRIBUTE, ATTRIBUTE_INFO, LINK, LINK_INFO, type Messages, SYMBOLS } from "./header.ts";
import { ByteSpan, type FileView, textOfName, Unforeseen, unforeseen } from "./bytes.ts";

interface Link {
  readonly name: string;
  readonly address: number;
}

interface Named extends Link {
  readonly bytes: Uint8Array;
  readonly order: number;
}

const MOST_LINKS = 65536;

/** The order is the library's: by creation where the group tracks it, else by name. */
export function readLinks(file: FileView, messages: Messages): Link[] {
  const symbols = messages.one(SYMBOLS), info = messages.one(LINK_INFO);
  if (symbols && info) unforeseen("a group of two kinds");
  const { links, ordered } = symbols
    ? { links: readSymbols(file, symbols), ordered: false }
    : recent(file, messages, info ?? unforeseen("a group without links"));
  if (links.length > MOST_LINKS) unforeseen("a group with too many links");
  links.sort((a, b) => ordered ? a.order - b.order : compareBytes(a.bytes, b.bytes));
  for (const [i, link] of links.entries()) {
    if (link.name === "" || link.name === "." || link.name.includes("/")) unforeseen("a link's name");
    if (i > 0 && ordered && links[i - 1].order === link.order) unforeseen("two links of one order");
  }
  if (new Set(links.map(({ name }) => name)).size < links.length) unforeseen("a name twice in a group");
  return links;
}

function compareBytes(a: Uint8Array, b: Uint8Array): number {
  const length = Math.min(a.length, b.length);
  for (let i = 0; i < length; i++) if (a[i] !== b[i]) return a[i] - b[i];
  return a.length - b.length;
}

const BY_NAME = 5;

function recent(file: FileView, messages: Messages, info: ByteSpan): { links: Named[]; ordered: boolean } {
  if (info.u8() !== 0) unforeseen("a version of groups");
  const flags = info.u8();
  if (flags & 1) info.skip(8);
  const heap = info.address8(), names = info.address8();
  const links = messages.all(LINK).map(readLink);
  if (heap !== null) {
    if (names === null || links.length > 0) unforeseen("links in two places");
    const id = (record: ByteSpan) => {
      record.skip(4); // a hash of the name
      return record.take(7);
    };
    links.push(...readDense(file, heap, names, BY_NAME, id).map(({ object }) => readLink(object)));
  }
  return { links, ordered: (flags & 2) !== 0 };
}

function readLink(span: ByteSpan): Named {
  if (span.u8() !== 1) unforeseen("a version of links");
  const flags = span.u8();
  if (flags & 0xe0 || (flags & 8 && span.u8() !== 0)) unforeseen("a link that is no object's");
  const order = flags & 4 ? span.uint(8) : -1;
  if (flags & 16 && span.u8() > 1) unforeseen("a character set");
  const { bytes } = span.take(span.uint(1 << (flags & 3)));
  if (bytes.includes(0)) unforeseen("a link's name");
  return { name: textOfName(bytes), bytes, order, address: span.uint(8) };
}

function readSymbols(file: FileView, message: ByteSpan): Named[] {
  const tree = message.uint(8), nameAt = readLocalHeap(file, message.uint(8));
  const links: Named[] = [];
  let left = 4096; // nodes
  const visit = (address: number, below: number) => {
    if (--left < 0) unforeseen("a tree without an end");
    const head = file.at(address, 24);
    head.sign("TREE", 0);
    const level = head.u8(), count = head.u16();
    if (level >= below) unforeseen("the levels of a tree");
    const entries = file.at(address + 24, 16 * count + 8);
    for (let i = 0; i < count; i++) {
      entries.skip(8);
      const child = entries.uint(8);
      if (level > 0) visit(child, level);
      else links.push(...readNode(file, child, nameAt));
    }
  };
  visit(tree, 32);
  // Links out of order could be listed but not found.
  links.forEach(({ bytes }, i) => {
    if (i > 0 && compareBytes(links[i - 1].bytes, bytes) >= 0) unforeseen("links out of order");
  });
  return links;
}

function readLocalHeap(file: FileView, address: number): (offset: number) => Uint8Array<ArrayBuffer> {
  const head = file.at(address, 32);
  head.sign("HEAP", 0);
  head.skip(3);
  const size = head.uint(8);
  head.skip(8); // what is free
  const data = file.at(head.uint(8), size);
  return (offset) => {
    const from = new ByteSpan(data.bytes, data.address);
    from.skip(offset);
    return from.name();
  };
}

function globalHeap(file: FileView): (address: number, index: number) => Uint8Array<ArrayBuffer> {
  const collections = new Map<number, Map<number, Uint8Array<ArrayBuffer>>>();
  return (address, index) => {
    const items = collections.get(address) ?? readCollection(file, address);
    collections.set(address, items);
    return items.get(index) ?? unforeseen("an item of a heap that is not there");
  };
}

function readCollection(file: FileView, address: number): Map<number, Uint8Array<ArrayBuffer>> {
  const head = file.at(address, 16);
  head.sign("GCOL", 1);
  head.skip(3);
  const size = head.uint(8);
  if (size < 16) unforeseen("the size of a heap");
  const all = file.at(address + 16, size - 16), items = new Map<number, Uint8Array<ArrayBuffer>>();
  while (all.left >= 16) {
    const index = all.u16();
    all.skip(6);
    const bytes = all.uint(8);
    if (index === 0) break; // the rest is free
    if (items.has(index)) unforeseen("an item of a heap twice");
    items.set(index, all.take(bytes).bytes);
    all.skip(Math.min(all.left, (8 - bytes % 8) % 8));
  }
  return items;
}

function readNode(
  file: FileView,
  address: number,
  nameAt: (offset: number) => Uint8Array<ArrayBuffer>,
): Named[] {
  const head = file.at(address, 8);
  head.sign("SNOD", 1);
  head.skip(1);
  const count = head.u16(), entries = file.at(address + 8, 40 * count);
  return Array.from({ length: count }, () => {
    const bytes = nameAt(entries.uint(8)), at = entries.uint(8), cached = entries.u32();
    entries.skip(4 + 16);
    if (cached > 1) unforeseen("a link that is no object's");
    return { name: textOfName(bytes), bytes, order: -1, address: at };
  });
}

interface Attribute {
  readonly type: Type;
  readonly shape: readonly number[] | null;
  readonly data: ByteSpan;
}

export type Attributes = ReadonlyMap<string, Attribute>;

const ATTRIBUTES_BY_NAME = 8;

const MOST = 65536;

export function readAttributes(file: FileView, messages: Messages): Attributes {
  const found = new Map<string, Attribute>();
  const add = (span: ByteSpan) => {
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
  for (
    const { object, record } of readDense(file, heap, names, ATTRIBUTES_BY_NAME, (record) => record.take(8))
  ) {
    if (record.u8() !== 0) unforeseen("an attribute that is shared");
    add(object);
  }
  return found;
}

function readAttribute(span: ByteSpan): [string, Attribute] {
  const version = span.u8(), flags = span.u8();
  if (version < 1 || version > 3 || (version > 1 && flags !== 0)) unforeseen("a version of attributes");
  const sizes = [span.u16(), span.u16(), span.u16()];
  if (version === 3 && span.u8() > 1) unforeseen("a character set");
  const [name, typed, spaced] = sizes.map((size) => {
    const part = span.take(size);
    if (version === 1) span.skip((8 - size % 8) % 8);
    return part;
  });
  const type = types.readType(typed), { shape } = types.readSpace(spaced);
  const bytes = shape === null ? 0 : types.elements(shape) * type.size;
  return [textOfName(name.name()), { type, shape, data: span.take(bytes) }];
}

export function valuesIn(file: FileView) {
  const heap = globalHeap(file);
  const inHeap = (span: ByteSpan, width: number) => {
    const count = span.u32(), address = span.uint(8), index = span.u32();
    if (count === 0) return null;
    const bytes = heap(address, index);
    return count * width <= bytes.length
      ? bytes.subarray(0, count * width)
      : unforeseen("a short item of a heap");
  };
  return {
    text({ type, shape, data }: Attribute): string {
      if (type.kind !== types.TEXT || shape === null || types.elements(shape) === 0) return "";
      const all = type.variable ? inHeap(data, 1) ?? new Uint8Array(0) : data.take(type.size).bytes;
      const end = all.indexOf(0), bytes = end < 0 ? all : all.slice(0, end);
      if (type.utf8) return textOfName(bytes);
      // Some writers do not declare letters beyond ASCII; they are read as in the library's interface.
      return new TextDecoder(type.variable ? "utf-16le" : "ascii").decode(
        type.variable ? widened(bytes) : bytes,
      );
    },
    numbers({ type, shape, data }: Attribute): number[] | null {
      if (type.kind === types.TEXT || shape === null) return null;
      if (![types.INTEGER, types.FLOAT, types.ENUM].includes(type.kind) || !type.plain) {
        unforeseen("an attribute of another type");
      }
      return Array.from({ length: types.elements(shape) }, () => number(data.take(type.size), type));
    },
    /** Null for what only describes, but is of a type that nobody needs here. */
    described({ type, shape, data }: Attribute): string | number[] | null {
      if (shape === null) return null;
      const count = types.elements(shape), { kind, size, plain } = type;
      try {
        if (kind === types.TEXT) return count === 1 ? this.text({ type, shape, data }) : null;
        const read = (kind === types.INTEGER && size <= 8) ||
          (kind === types.FLOAT && (size === 4 || size === 8));
        return read && plain && count <= types.MOST_NUMBERS ? this.numbers({ type, shape, data }) : null;
      } catch (error) {
        if (error instanceof Unforeseen) return null;
        throw error;
      }
    },
    scales({ type, shape, data }: Attribute): number[][] {
      if (type.kind !== types.ROWS || type.size !== 16 || shape?.length !== 1) {
        return unforeseen("a list of dimensions");
      }
      return Array.from({ length: shape[0] }, () => {
        const bytes = inHeap(data, 8) ?? new Uint8Array(0), span = new ByteSpan(bytes.slice(), 0);
        return Array.from({ length: bytes.length / 8 }, () => span.uint(8));
      });
    },
  };
}

/** One-byte letters become two-byte ones. */
const widened = (bytes: Uint8Array) => Uint16Array.from(bytes);

function number({ bytes }: ByteSpan, { kind, size, signed, bigEndian }: Type): number {
  const view = new DataView(bytes.buffer, bytes.byteOffset, size), little = !bigEndian;
  if (kind === types.FLOAT) {
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
