// B-trees of version 2: their records, in order. May import its siblings.
import { type FileView, type Span, unforeseen } from "./bytes.ts";
import { checkSum } from "./checksum.ts";

const MOST_DEPTH = 16, MOST_RECORDS = 2 ** 24;
/** Letters, version and type before the records of a node, and the checksum after them. */
const FRAME = 10;

/** Gives `each` the records of a tree of this type; `bytes` is the size of one. */
export function readTree2(file: FileView, address: number, type: number, each: (record: Span) => void): void {
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

/** What a node of each level holds at most, and the bytes of the numbers beside a child's address. */
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

/** Bytes that numbers up to this one take. */
export const bytesFor = (most: number): number => Math.floor(Math.log2(Math.max(1, most)) / 8) + 1;
