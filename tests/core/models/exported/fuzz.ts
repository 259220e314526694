// Exported programs, damaged: bytes of the file, and what its JSON says behind right checksums. Test helper.
import { FileBytes } from "../../../../core/base/file_bytes.ts";
import { memoryStorage } from "../../../../core/checkpoint/value.ts";
import { openZip } from "../../../../core/base/zip.ts";
import { zipWriter } from "../../../../core/checkpoint/zip_writer.ts";

// deno-lint-ignore no-explicit-any
type Any = any;

/** Numbers that are the same in every run. */
export function dice(seed: number): (below: number) => number {
  let state = seed >>> 0;
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

/** A cut, a few changed bytes, or both. */
export function damagedBytes(bytes: Uint8Array, roll: (below: number) => number): Uint8Array {
  const copy = bytes.slice(0, roll(3) === 0 ? roll(bytes.length) : bytes.length);
  for (let i = roll(4); i >= 0 && copy.length > 0; i--) copy[roll(copy.length)] = roll(256);
  return copy;
}

/** All entries of the zip at `path`. */
export function entriesOf(path: string): Map<string, Uint8Array> {
  const file = new FileBytes(path);
  try {
    const zip = openZip(file);
    return new Map([...zip.entries].map(([name, entry]) => [name, zip.read(entry)]));
  } finally {
    file.close();
  }
}

export function writeEntries(path: string, entries: ReadonlyMap<string, Uint8Array>): void {
  const file = Deno.openSync(path, { write: true, create: true, truncate: true });
  try {
    const zip = zipWriter(file);
    for (const [name, bytes] of entries) zip.add(name, memoryStorage(bytes));
    zip.finish();
  } finally {
    file.close();
  }
}

const VALUES: readonly Any[] = [null, true, -1, 0, 1, 3, 2 ** 40, 1e300, "", "x", [], {}, [1], { as_int: 7 }];

/** One place of a JSON tree with something else in it: removed, replaced, doubled, or taken from elsewhere. */
export function damagedTree(root: Any, roll: (below: number) => number): Any {
  const copy = structuredClone(root);
  for (let i = roll(2); i >= 0; i--) {
    const { holder, key } = someplace(copy, roll);
    const way = roll(5);
    if (way === 0 && Array.isArray(holder)) holder.splice(Number(key), 1);
    else if (way === 0) delete holder[key];
    else if (way === 1) holder[key] = VALUES[roll(VALUES.length)];
    else if (way === 2) {
      const other = someplace(copy, roll);
      holder[key] = structuredClone(other.holder[other.key]);
    } else if (way === 3 && typeof holder[key] === "number") holder[key] += roll(9) - 4;
    else if (way === 3 && typeof holder[key] === "string") {
      holder[key] = holder[key].slice(0, roll(holder[key].length + 1));
    } else if (Array.isArray(holder)) holder.push(structuredClone(holder[Number(key)]));
    else holder[key] = !holder[key];
  }
  return copy;
}

function someplace(root: Any, roll: (below: number) => number): { holder: Any; key: string } {
  let holder = root, key = "";
  for (;;) {
    const keys = Object.keys(holder);
    key = keys[roll(keys.length)];
    const inner = holder[key];
    const leaf = typeof inner !== "object" || inner === null || Object.keys(inner).length === 0;
    if (leaf || roll(7) === 0) return { holder, key };
    holder = inner;
  }
}
