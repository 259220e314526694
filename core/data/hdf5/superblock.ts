// The first bytes of an HDF5 file: where its root is, and where it ends. May import its siblings, arrays' file.
import type { OpenFile } from "../arrays/file.ts";
import { type FileView, type Span, unforeseen, viewOf } from "./bytes.ts";
import { checkSum } from "./checksum.ts";

export interface Superblock {
  /** Of the root group's object header. */
  readonly root: number;
  /** The file up to where HDF5 says that it ends. */
  readonly file: FileView;
}

const SIGNATURE_BYTES = 8;

/** Of files with nothing before the HDF5 in them, with addresses and lengths of 8 bytes, that nobody writes. */
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

function old(head: Span, version: number) {
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

function recent(head: Span) {
  eights(head);
  if (head.u8() !== 0) unforeseen("the file is open for writing");
  based(head);
  if (head.address8() !== null) unforeseen("an extension of the superblock");
  const found = { end: head.uint(8), root: head.uint(8) };
  checkSum(head);
  return found;
}

function eights(head: Span): void {
  if (head.u8() !== 8 || head.u8() !== 8) unforeseen("addresses of other sizes");
}

function based(head: Span): void {
  if (head.uint(8) !== 0) unforeseen("something before the HDF5");
}
