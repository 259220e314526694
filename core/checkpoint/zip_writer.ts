// Writes a zip as torch.save does: stored, data aligned to 64 bytes, 64-bit where needed. It goes to the disk
// while it is written, and is read back by the CRC-32 of each part.
import { crc32 } from "node:zlib";
import { type WriteBehind, writeBehind } from "../../ffi/libc.ts";
import { writeAll } from "../base/atomic.ts";
import { damagedCheckpoint } from "../base/file_bytes.ts";
import { CHUNK_BYTES, EXTRA64, MAX16, MAX32, RECORD } from "../base/zip.ts";
import type { Storage } from "./value.ts";

/** torch.save pads with this extra field ("FB"), so that data can be aligned for mmap. */
const EXTRA_PADDING = 0x4246;

interface Part {
  readonly name: string;
  readonly at: number;
  size: number;
  crc: number;
  seen: boolean;
}

/** The disk is asked to begin early from this size on. */
const LARGE_BYTES = 32 << 20;

export class WrittenFile {
  readonly #file: Deno.FsFile;
  readonly #parts: Part[] = [];
  #behind: WriteBehind | null = null;
  #at = 0;

  constructor(file: Deno.FsFile) {
    this.#file = file;
  }

  get at(): number {
    return this.#at;
  }

  expect(path: string, bytes: number): void {
    if (bytes >= LARGE_BYTES) this.#behind = writeBehind(path, bytes);
  }

  begin(name: string): void {
    this.#parts.push({ name, at: this.#at, size: 0, crc: 0, seen: false });
  }

  /** Returns the CRC-32 of the part so far. */
  put(bytes: Uint8Array): number {
    const part = this.#parts[this.#parts.length - 1];
    part.crc = crc32(bytes, part.crc);
    writeAll(this.#file, bytes);
    part.size += bytes.length;
    this.#at += bytes.length;
    this.#behind?.until(this.#at);
    return part.crc;
  }

  replace(at: number, bytes: Uint8Array): void {
    const part = this.#parts.findLast((part) => part.at === at)!;
    if (part.size !== bytes.length) throw new Error(`internal: ${part.name} has ${part.size} bytes`);
    Object.assign(part, { crc: crc32(bytes), seen: false });
    this.#file.seekSync(at, Deno.SeekMode.Start);
    writeAll(this.#file, bytes);
    this.#file.seekSync(this.#at, Deno.SeekMode.Start);
  }

  /** Compares the file with what was written, as far as that was not done before. */
  readBack(path: string): void {
    const buffer = new Uint8Array(CHUNK_BYTES);
    for (const part of this.#parts) {
      if (part.seen) continue;
      if (part.crc !== this.#crcOf(part, buffer)) {
        throw damagedCheckpoint(
          path,
          `${part.name} was read back with other bytes than were written: is the disk or the memory failing?`,
        );
      }
      part.seen = true;
    }
    this.#file.seekSync(this.#at, Deno.SeekMode.Start);
  }

  #crcOf({ at, size }: Part, buffer: Uint8Array): number | undefined {
    this.#file.seekSync(at, Deno.SeekMode.Start);
    let crc = 0;
    for (let left = size; left > 0;) {
      const count = this.#file.readSync(buffer.subarray(0, left));
      if (count === null) return undefined;
      crc = crc32(buffer.subarray(0, count), crc);
      left -= count;
    }
    return crc;
  }

  [Symbol.dispose](): void {
    this.#behind?.close();
  }
}

interface ZipWriter {
  add(name: string, content: Storage): void;
  finish(): void;
}

interface Written {
  name: Uint8Array;
  size: number;
  crc: number;
  offset: number;
}

const ALIGNMENT = 64;

const VERSION_64 = 45; // This zip version knows 64-bit sizes.

const DATE_1980 = 0x21; // There is no clock in the file: the same tensors give the same bytes.

/** The 64-bit fields are used from the size `wideAt` on: a test lowers it. */
export function zipWriter(file: Deno.FsFile, wideAt = MAX32): ZipWriter {
  return zipWriterTo(new WrittenFile(file), wideAt);
}

export function zipWriterTo(out: WrittenFile, wideAt = MAX32): ZipWriter {
  const written: Written[] = [];
  return {
    add(name, content) {
      const entry: Written = {
        name: new TextEncoder().encode(name),
        size: content.byteLength,
        crc: 0,
        offset: out.at,
      };
      out.begin(`the header of ${name}`);
      out.put(localHeader(entry, wideAt));
      out.begin(name);
      for (let from = 0; from < entry.size; from += CHUNK_BYTES) {
        entry.crc = out.put(content.read(from, Math.min(CHUNK_BYTES, entry.size - from)));
      }
      // The checksum stands before the data and is known after it.
      out.replace(entry.offset, localHeader(entry, wideAt));
      written.push(entry);
    },
    finish() {
      const offset = out.at;
      out.begin("the zip directory");
      for (const entry of written) out.put(centralHeader(entry, wideAt));
      out.put(endRecords(written.length, out.at - offset, offset, wideAt));
    },
  };
}

function localHeader(entry: Written, wideAt: number): Uint8Array {
  const wide = entry.size >= wideAt;
  const fixed = RECORD.local.bytes + entry.name.length + (wide ? 20 : 0);
  // A padding field is at least its own 4-byte header.
  const padding = 4 + (ALIGNMENT - (entry.offset + fixed + 4) % ALIGNMENT) % ALIGNMENT;
  const bytes = new Uint8Array(fixed + padding).fill(0x5a); // "Z", as torch pads
  const view = new DataView(bytes.buffer);
  view.setUint32(0, RECORD.local.signature, true);
  common(view, 4, entry, wide);
  view.setUint16(26, entry.name.length, true);
  view.setUint16(28, bytes.length - RECORD.local.bytes - entry.name.length, true);
  bytes.set(entry.name, RECORD.local.bytes);
  let extra = RECORD.local.bytes + entry.name.length;
  if (wide) {
    wideField(view, extra, [entry.size, entry.size]);
    extra += 20;
  }
  view.setUint16(extra, EXTRA_PADDING, true);
  view.setUint16(extra + 2, padding - 4, true);
  return bytes;
}

function centralHeader(entry: Written, wideAt: number): Uint8Array {
  const wide = entry.size >= wideAt;
  const far = entry.offset >= wideAt;
  const values = [...(wide ? [entry.size, entry.size] : []), ...(far ? [entry.offset] : [])];
  const extraBytes = values.length > 0 ? 4 + 8 * values.length : 0;
  const bytes = new Uint8Array(RECORD.central.bytes + entry.name.length + extraBytes);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, RECORD.central.signature, true);
  view.setUint16(4, VERSION_64, true);
  common(view, 6, entry, wide);
  view.setUint16(28, entry.name.length, true);
  view.setUint16(30, extraBytes, true);
  view.setUint32(42, far ? MAX32 : entry.offset, true);
  bytes.set(entry.name, RECORD.central.bytes);
  if (values.length > 0) wideField(view, RECORD.central.bytes + entry.name.length, values);
  return bytes;
}

/** Both headers hold the fields from "version needed" to "size" in the same order. */
function common(view: DataView, at: number, entry: Written, wide: boolean): void {
  view.setUint16(at, VERSION_64, true);
  view.setUint16(at + 2, 0x800, true); // names are UTF-8
  view.setUint16(at + 4, 0, true);
  view.setUint16(at + 6, 0, true);
  view.setUint16(at + 8, DATE_1980, true);
  view.setUint32(at + 10, entry.crc, true);
  view.setUint32(at + 14, wide ? MAX32 : entry.size, true);
  view.setUint32(at + 18, wide ? MAX32 : entry.size, true);
}

function wideField(view: DataView, at: number, values: number[]): void {
  view.setUint16(at, EXTRA64, true);
  view.setUint16(at + 2, 8 * values.length, true);
  values.forEach((value, i) => view.setBigUint64(at + 4 + 8 * i, BigInt(value), true));
}

function endRecords(count: number, bytes: number, offset: number, wideAt: number): Uint8Array {
  const wide = count >= MAX16 || bytes >= wideAt || offset >= wideAt;
  const out = new Uint8Array((wide ? RECORD.end64.bytes + RECORD.locator64.bytes : 0) + RECORD.end.bytes);
  const view = new DataView(out.buffer);
  let at = 0;
  if (wide) {
    view.setUint32(0, RECORD.end64.signature, true);
    view.setBigUint64(4, BigInt(RECORD.end64.bytes - 12), true);
    view.setUint16(12, VERSION_64, true);
    view.setUint16(14, VERSION_64, true);
    [count, count, bytes, offset].forEach((value, i) => view.setBigUint64(24 + 8 * i, BigInt(value), true));
    view.setUint32(RECORD.end64.bytes, RECORD.locator64.signature, true);
    view.setBigUint64(RECORD.end64.bytes + 8, BigInt(offset + bytes), true);
    view.setUint32(RECORD.end64.bytes + 16, 1, true);
    at = RECORD.end64.bytes + RECORD.locator64.bytes;
  }
  view.setUint32(at, RECORD.end.signature, true);
  view.setUint16(at + 8, wide ? MAX16 : count, true);
  view.setUint16(at + 10, wide ? MAX16 : count, true);
  view.setUint32(at + 12, wide ? MAX32 : bytes, true);
  view.setUint32(at + 16, wide ? MAX32 : offset, true);
  return out;
}
