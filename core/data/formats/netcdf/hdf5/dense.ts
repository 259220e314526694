// Objects with many links or attributes keep them in version 2 B-trees and fractal heaps.
import { type ByteSpan, checkSum, type FileView, lookup3, unforeseen } from "./bytes.ts";

const MOST_DEPTH = 16, MOST_RECORDS = 2 ** 24;
/** A node frames its records with letters, version, type and a checksum. */
const FRAME = 10;

export function readTree2(
  file: FileView,
  address: number,
  type: number,
  each: (record: ByteSpan) => void,
): void {
  const head = file.at(address, 38);
  head.sign("BTHD", 0);
  if (head.u8() !== type) unforeseen("a tree of another type");
  const nodeBytes = head.u32(), bytes = head.u16(), depth = head.u16();
  head.skip(2); // when nodes are split and merged
  const root = head.address8(), inRoot = head.u16(), total = head.uint(8);
  checkSum(head);
  if (depth > MOST_DEPTH || bytes === 0 || total > MOST_RECORDS) unforeseen("a tree's size");
  if (nodeBytes > 2 ** 20) unforeseen("a node's size");
  if (root === null) return total === 0 ? undefined : unforeseen("a tree without a root");
  const sizes = pointers(nodeBytes, bytes, depth);
  let met = 0;
  const visit = (at: number, count: number, level: number) => {
    const { most, childBytes, totalBytes } = sizes[level];
    if (count > most) unforeseen("a node with too many records");
    const size = FRAME + count * bytes + (level > 0 ? (count + 1) * (8 + childBytes + totalBytes) : 0);
    const node = file.at(at, size);
    node.sign(level > 0 ? "BTIN" : "BTLF", 0);
    if (node.u8() !== type) unforeseen("a node of another type");
    const records = Array.from({ length: count }, () => node.take(bytes));
    const children = Array.from({ length: level > 0 ? count + 1 : 0 }, () => {
      const child = { at: node.uint(8), count: node.uint(childBytes) };
      node.skip(totalBytes);
      return child;
    });
    checkSum(node);
    if ((met += count) > total) unforeseen("a tree with more records than it says");
    for (let i = 0; i <= count; i++) {
      if (level > 0) visit(children[i].at, children[i].count, level - 1);
      if (i < count) each(records[i]);
    }
  };
  visit(root, inRoot, depth);
  if (met !== total) unforeseen("a tree with fewer records than it says");
}

/** Each level has the most records of a node, and the bytes of the numbers beside a child's address. */
function pointers(nodeBytes: number, bytes: number, depth: number) {
  const leaf = Math.floor((nodeBytes - FRAME) / bytes);
  const childBytes = bytesFor(leaf);
  const levels = [{ most: leaf, childBytes, totalBytes: 0, below: leaf }];
  for (let level = 1; level <= depth; level++) {
    const totalBytes = level > 1 ? bytesFor(levels[level - 1].below) : 0;
    const pointer = 8 + childBytes + totalBytes;
    const most = Math.floor((nodeBytes - FRAME - pointer) / (bytes + pointer));
    levels.push({ most, childBytes, totalBytes, below: (most + 1) * levels[level - 1].below + most });
  }
  return levels;
}

const bytesFor = (most: number): number => Math.floor(Math.log2(Math.max(1, most)) / 8) + 1;

interface Heap {
  readonly offsetBytes: number;
  readonly lengthBytes: number;
  readonly header: number;
  readonly width: number;
  readonly start: number;
  readonly directRows: number;
  readonly summed: boolean;
  readonly root: number;
  /** 0 means that the root is a direct block. */
  readonly rows: number;
}

export function readDense(
  file: FileView,
  heapAddress: number,
  treeAddress: number,
  type: number,
  idOf: (record: ByteSpan) => ByteSpan,
): { object: ByteSpan; record: ByteSpan }[] {
  const item = openHeap(file, heapAddress);
  const found: { object: ByteSpan; record: ByteSpan }[] = [];
  readTree2(file, treeAddress, type, (record) => {
    const object = item(idOf(record));
    found.push({ object, record });
  });
  return found;
}

function openHeap(file: FileView, address: number): (id: ByteSpan) => ByteSpan {
  const heap = readHead(file, address);
  const blocks = new Map<number, { span: ByteSpan; from: number }>();
  return (id) => {
    if (id.u8() !== 0) return unforeseen("an item that is huge or tiny");
    const offset = id.uint(heap.offsetBytes), length = id.uint(heap.lengthBytes);
    const place = heapBlockOf(file, heap, offset);
    const block = blocks.get(place.at) ?? readBlock(file, heap, place);
    blocks.set(place.at, block);
    const inside = offset - block.from;
    const { bytes } = block.span;
    if (inside < headBytes(heap) || inside + length > bytes.length) unforeseen("an item outside its block");
    const again = file.at(block.span.address + inside, length);
    return again;
  };
}

function readHead(file: FileView, header: number): Heap {
  const head = file.at(header, 146);
  head.sign("FRHP", 0);
  head.skip(2); // bytes of an item's name
  if (head.u16() !== 0) unforeseen("a heap that is packed");
  const flags = head.u8();
  const largest = head.u32();
  head.skip(8 + 8 + 8 + 8 + 8 + 8 + 8 + 8 + 8 + 8 + 8 + 8);
  const width = head.u16(), start = head.uint(8), most = head.uint(8), bits = head.u16();
  head.skip(2);
  const root = head.uint(8), rows = head.u16();
  checkSum(head);
  const isPower = (value: number) => value > 0 && value <= 2 ** 26 && Number.isInteger(Math.log2(value));
  if (!isPower(width) || !isPower(start) || !isPower(most) || start > most || bits > 48 || rows > 64) {
    unforeseen("a heap's sizes");
  }
  return {
    ...{
      offsetBytes: Math.ceil(bits / 8),
      lengthBytes: bytesFor(Math.min(largest, most)),
      header,
      width,
      start,
    },
    ...{ directRows: Math.log2(most) - Math.log2(start) + 2, summed: (flags & 2) !== 0, root, rows },
  };
}

const headBytes = ({ offsetBytes, summed }: Heap) => 5 + 8 + offsetBytes + (summed ? 4 : 0);

interface HeapBlock {
  readonly at: number;
  readonly bytes: number;
  readonly from: number;
}

function heapBlockOf(file: FileView, heap: Heap, offset: number): HeapBlock {
  const { start, width, directRows } = heap;
  if (heap.rows === 0) return { at: heap.root, bytes: start, from: 0 };
  const sizeOf = (row: number) => row === 0 ? start : start * 2 ** (row - 1);
  const firstOf = (row: number) => row === 0 ? 0 : start * width * 2 ** (row - 1);
  let at = heap.root, rows = heap.rows, from = 0;
  for (let deep = 0; deep < 8; deep++) {
    const inside = offset - from;
    const row = inside < start * width ? 0 : Math.floor(Math.log2(inside / (start * width))) + 1;
    if (row >= rows) unforeseen("an item beyond its heap");
    const column = Math.floor((inside - firstOf(row)) / sizeOf(row));
    const child = childOf(file, heap, { at, rows, from }, row * width + column);
    from += firstOf(row) + column * sizeOf(row);
    if (row < directRows) return { at: child, bytes: sizeOf(row), from };
    at = child;
    rows = Math.log2(sizeOf(row)) - Math.log2(start * width) + 1;
  }
  return unforeseen("a heap that is too deep");
}

function childOf(
  file: FileView,
  { header, offsetBytes, width }: Heap,
  block: { at: number; rows: number; from: number },
  index: number,
): number {
  const span = file.at(block.at, 5 + 8 + offsetBytes + 8 * width * block.rows + 4);
  span.sign("FHIB", 0);
  if (span.uint(8) !== header || span.uint(offsetBytes) !== block.from) unforeseen("another heap's block");
  const children = Array.from({ length: width * block.rows }, () => span.address8());
  checkSum(span);
  return children[index] ?? unforeseen("a block that is not there");
}

function readBlock(
  file: FileView,
  heap: Heap,
  { at, bytes, from }: HeapBlock,
): { span: ByteSpan; from: number } {
  const span = file.at(at, bytes);
  span.sign("FHDB", 0);
  if (span.uint(8) !== heap.header || span.uint(heap.offsetBytes) !== from) {
    unforeseen("another heap's block");
  }
  if (heap.summed) {
    const where = span.position, sum = span.u32(), copy = span.bytes.slice();
    copy.fill(0, where, where + 4);
    if (lookup3(copy) !== sum) unforeseen("a structure fails its checksum");
  }
  return { span, from };
}
