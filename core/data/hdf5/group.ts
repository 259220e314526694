// The links of a group, in each of the ways that groups are stored. May import its siblings.
import { compareBytes, type FileView, type Span, textOfName, unforeseen } from "./bytes.ts";
import { readDense } from "./dense.ts";
import { LINK, LINK_INFO, type Messages, SYMBOLS } from "./header.ts";
import { readLocalHeap } from "./heaps.ts";

export interface Link {
  readonly name: string;
  /** Of an object header. */
  readonly address: number;
}

interface Named extends Link {
  readonly bytes: Uint8Array;
  readonly order: number;
}

export const isGroup = (messages: Messages): boolean =>
  messages.one(SYMBOLS) !== null || messages.one(LINK_INFO) !== null;

const MOST_LINKS = 65536;

/** In the order that the library tells them in: of their making where the group knows it, else by name. */
export function readLinks(file: FileView, messages: Messages): Link[] {
  const symbols = messages.one(SYMBOLS), info = messages.one(LINK_INFO);
  if (symbols && info) unforeseen("a group of two kinds");
  const { links, ordered } = symbols
    ? { links: readSymbols(file, symbols), ordered: false }
    : recent(file, messages, info!);
  if (links.length > MOST_LINKS) unforeseen("a group with too many links");
  links.sort((a, b) => ordered ? a.order - b.order : compareBytes(a.bytes, b.bytes));
  for (const [i, link] of links.entries()) {
    if (link.name === "" || link.name === "." || link.name.includes("/")) unforeseen("a link's name");
    if (i > 0 && ordered && links[i - 1].order === link.order) unforeseen("two links of one order");
  }
  if (new Set(links.map(({ name }) => name)).size < links.length) unforeseen("a name twice in a group");
  return links;
}

const BY_NAME = 5;

function recent(file: FileView, messages: Messages, info: Span): { links: Named[]; ordered: boolean } {
  if (info.u8() !== 0) unforeseen("a version of groups");
  const flags = info.u8();
  if (flags & 1) info.skip(8);
  const heap = info.address8(), names = info.address8();
  const links = messages.all(LINK).map(readLink);
  if (heap !== null) {
    if (names === null || links.length > 0) unforeseen("links in two places");
    const id = (record: Span) => {
      record.skip(4); // a hash of the name
      return record.take(7);
    };
    links.push(...readDense(file, heap, names, BY_NAME, id).map(({ object }) => readLink(object)));
  }
  return { links, ordered: (flags & 2) !== 0 };
}

function readLink(span: Span): Named {
  if (span.u8() !== 1) unforeseen("a version of links");
  const flags = span.u8();
  // Links to names, in this file or in others, are the library's.
  if (flags & 0xe0 || (flags & 8 && span.u8() !== 0)) unforeseen("a link that is no object's");
  const order = flags & 4 ? span.uint(8) : -1;
  if (flags & 16 && span.u8() > 1) unforeseen("a character set");
  const { bytes } = span.take(span.uint(1 << (flags & 3)));
  if (bytes.includes(0)) unforeseen("a link's name");
  return { name: textOfName(bytes), bytes, order, address: span.uint(8) };
}

function readSymbols(file: FileView, message: Span): Named[] {
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
  // Out of order they could be listed, but not be found.
  links.forEach(({ bytes }, i) => {
    if (i > 0 && compareBytes(links[i - 1].bytes, bytes) >= 0) unforeseen("links out of order");
  });
  return links;
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
