// Heaps of HDF5: the local one, of an old group's names, and the global one, of texts and lists of any length.
// May import its siblings.
import { type FileView, Span, unforeseen } from "./bytes.ts";

/** The names that a group's entries point into. */
export function readLocalHeap(file: FileView, address: number): (offset: number) => Uint8Array<ArrayBuffer> {
  const head = file.at(address, 32);
  head.sign("HEAP", 0);
  head.skip(3);
  const size = head.uint(8);
  head.skip(8); // what is free
  const data = file.at(head.uint(8), size);
  return (offset) => {
    const from = new Span(data.bytes, data.address);
    from.skip(offset);
    return from.name();
  };
}

/** Reads an item of a collection; collections are read once. */
export function globalHeap(file: FileView): (address: number, index: number) => Uint8Array<ArrayBuffer> {
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
