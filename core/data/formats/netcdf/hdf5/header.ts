import type { OpenFile } from "../../../arrays/files.ts";
import { ByteSpan, checkSum, type FileView, unforeseen } from "./bytes.ts";

interface Superblock {
  readonly root: number;
  readonly file: FileView;
}

const SIGNATURE_BYTES = 8;

/** It reads files without a user block, with addresses and lengths of 8 bytes, and no writer at work. */
export function readSuperblock(file: Pick<OpenFile, "read">, size: number): Superblock {
  const whole = viewOf(file, size);
  const head = whole.at(0, Math.min(size, 96));
  head.skip(SIGNATURE_BYTES);
  const version = head.u8();
  const { end, root } = version <= 1
    ? old(head, version)
    : version <= 3
    ? recent(head)
    : unforeseen("version");
  if (end > size) unforeseen("the file is shorter than it says");
  return { root, file: viewOf(file, end) };
}

/** A structure takes at most this much memory, whatever a damaged length says. */
const MOST = 64 * 2 ** 20;

export function viewOf(file: Pick<OpenFile, "read">, size: number): FileView {
  return {
    size,
    at(address, length) {
      if (!(address >= 0 && length >= 0 && length <= MOST && address + length <= size)) {
        unforeseen(`${length} bytes at ${address}`);
      }
      const bytes = new Uint8Array(length);
      file.read(bytes, address);
      return new ByteSpan(bytes, address);
    },
  };
}

function old(head: ByteSpan, version: number) {
  if (head.u8() !== 0 || head.u8() !== 0) unforeseen("versions of what is in the file");
  head.skip(1);
  if (head.u8() !== 0) unforeseen("a version of shared headers");
  eights(head);
  head.skip(1 + 4); // groups' sizes, which bound nothing here
  if (head.u32() !== 0) unforeseen("the file is open for writing");
  if (version === 1) head.skip(4);
  based(head);
  head.skip(8); // free space
  const end = head.uint(8);
  if (head.address8() !== null) unforeseen("a driver's information");
  head.skip(8); // the root's name
  return { end, root: head.uint(8) };
}

function recent(head: ByteSpan) {
  eights(head);
  if (head.u8() !== 0) unforeseen("the file is open for writing");
  based(head);
  if (head.address8() !== null) unforeseen("an extension of the superblock");
  const found = { end: head.uint(8), root: head.uint(8) };
  checkSum(head);
  return found;
}

function eights(head: ByteSpan): void {
  if (head.u8() !== 8 || head.u8() !== 8) unforeseen("addresses of other sizes");
}

function based(head: ByteSpan): void {
  if (head.uint(8) !== 0) unforeseen("something before the HDF5");
}

export const SPACE = 1, LINK_INFO = 2, TYPE = 3, OLD_FILL = 4, FILL = 5, LINK = 6, LAYOUT = 8;

export const FILTERS = 11, ATTRIBUTE = 12, SYMBOLS = 17, ATTRIBUTE_INFO = 21;

const NIL = 0,
  GROUP_INFO = 10,
  COMMENT = 13,
  OLD_TIME = 14,
  CONTINUATION = 16,
  TIME = 18,
  TREE_SIZES = 19,
  COUNT = 22;

const MANY = [NIL, COMMENT, LINK, ATTRIBUTE, CONTINUATION];

const IDLE = [NIL, GROUP_INFO, COMMENT, OLD_TIME, CONTINUATION, TIME, TREE_SIZES, COUNT];

const HANDLED_MESSAGES = [
  ...IDLE,
  ...[SPACE, LINK_INFO, TYPE, OLD_FILL, FILL, LINK, LAYOUT, FILTERS, ATTRIBUTE, SYMBOLS, ATTRIBUTE_INFO],
];

/** Flags: the message is stored elsewhere; readers who do not know it must fail. */
const SHARED = 2, FAIL_UNKNOWN = 0x80;

const MOST_BLOCKS = 4096, MOST_BYTES = 16 * 2 ** 20;

export interface Messages {
  one(type: number): ByteSpan | null;
  all(type: number): readonly ByteSpan[];
}

interface Block {
  readonly span: ByteSpan;
}

interface Found {
  readonly type: number;
  readonly data: ByteSpan;
}

export function readHeader(file: FileView, address: number): Messages {
  const found = file.at(address, 4).bytes[0] === 1 ? readOld(file, address) : readRecent(file, address);
  const byType = new Map<number, ByteSpan[]>();
  for (const { type, data } of found) {
    const before = byType.get(type);
    if (before && !MANY.includes(type)) unforeseen("a message twice");
    if (before) before.push(data);
    else byType.set(type, [data]);
  }
  return {
    one: (type) => byType.get(type)?.[0] ?? null,
    all: (type) => byType.get(type) ?? [],
  };
}

function readOld(file: FileView, address: number): Found[] {
  const head = file.at(address, 16);
  head.skip(2);
  const count = head.u16();
  head.skip(4); // how many links there are to it
  const bytes = head.u32();
  let met = 0;
  const found = follow(
    { span: file.at(address + 16, bytes) },
    (at, length) => ({ span: file.at(at, length) }),
    (span) => {
      if (span.left === 0) return null;
      const type = span.u16(), size = span.u16(), flags = span.u8();
      span.skip(3);
      if (size % 8 !== 0) unforeseen("a message of an odd size");
      met++;
      return { type, flags, size };
    },
  );
  if (met !== count) unforeseen("another number of messages than it names");
  return found;
}

function readRecent(file: FileView, address: number): Found[] {
  const head = file.at(address, Math.min(34, file.size - address));
  head.sign("OHDR", 2);
  const flags = head.u8();
  if (flags & 0xc0) unforeseen("flags of a header");
  head.skip((flags & 0x20 ? 16 : 0) + (flags & 0x10 ? 4 : 0));
  const first = head.uint(1 << (flags & 3));
  const block = (at: number, before: number, length: number): Block => {
    const whole = file.at(at, before + length + 4);
    whole.skip(before);
    const span = whole.take(length);
    checkSum(whole);
    return { span };
  };
  const next = (at: number, length: number) => {
    if (length < 8) unforeseen("a short continuation");
    const whole = file.at(at, 4);
    if (String.fromCharCode(...whole.bytes) !== "OCHK") unforeseen("no OCHK");
    return block(at, 4, length - 8);
  };
  const ordered = (flags & 4) !== 0;
  return follow(block(address, head.position, first), next, (span) => {
    if (span.left < (ordered ? 6 : 4)) return null; // a gap
    const type = span.u8(), size = span.u16(), messageFlags = span.u8();
    if (ordered) span.skip(2);
    return { type, flags: messageFlags, size };
  });
}

function follow(
  first: Block,
  next: (address: number, length: number) => Block,
  head: (span: ByteSpan) => { type: number; flags: number; size: number } | null,
): Found[] {
  const blocks = [first], found: Found[] = [];
  let bytes = 0;
  for (const { span } of blocks) {
    bytes += span.left;
    if (blocks.length > MOST_BLOCKS || bytes > MOST_BYTES) unforeseen("a header without an end");
    for (let message; (message = head(span));) {
      const { type, flags, size } = message;
      if (!HANDLED_MESSAGES.includes(type) || flags & FAIL_UNKNOWN) {
        unforeseen(`messages of the type ${type}`);
      }
      if (flags & SHARED && !IDLE.includes(type)) unforeseen("a message that stands elsewhere");
      const data = span.take(size);
      if (type === CONTINUATION) blocks.push(next(data.uint(8), data.uint(8)));
      else found.push({ type, data });
    }
  }
  return found;
}
