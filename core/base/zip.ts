// A zip file's directory and entries are read by position, and contradictions are refused. The writer shares
// the format's numbers.
import { createHash } from "node:crypto";
import { constants, crc32, inflateRawSync } from "node:zlib";
import { damagedCheckpoint, type FileBytes } from "./file_bytes.ts";

/** The records of the format: how each begins, and its fixed part's bytes. */
export const RECORD = {
  local: { signature: 0x04034b50, bytes: 30 },
  central: { signature: 0x02014b50, bytes: 46 },
  end: { signature: 0x06054b50, bytes: 22 },
  end64: { signature: 0x06064b50, bytes: 56 },
  locator64: { signature: 0x07064b50, bytes: 20 },
} as const;

export const EXTRA64 = 0x0001;

export const MAX16 = 0xffff;

export const MAX32 = 0xffffffff;

export const STORED = 0;

const DEFLATED = 8;

const FLAG_ENCRYPTED = 1;

/** A chunk stays in the processor's cache between checksum and write. */
export const CHUNK_BYTES = 256 << 10;

export interface ZipEntry {
  readonly name: string;
  readonly size: number;
  readonly packedSize: number;
  readonly method: number;
  readonly crc: number;
  readonly headerOffset: number;
  /** The data ends before this offset: the start of the next entry or the directory. */
  readonly limit: number;
}

export interface ZipReader {
  readonly entries: ReadonlyMap<string, ZipEntry>;
  /** Only reading the whole entry compares the checksum. */
  read(entry: ZipEntry, offset?: number, length?: number): Uint8Array<ArrayBuffer>;
  /** Nothing of it is handed on before all of the entry was compared with its checksum, at the first read. */
  content(entry: ZipEntry): ZipContent;
  /** It reads the beginning without unpacking the rest or comparing a checksum. */
  peek(entry: ZipEntry, length: number): Uint8Array<ArrayBuffer>;
  startOf(entry: ZipEntry): number;
  /** It compares the checksum in small pieces, and the SHA-256 where one is given. */
  verify(entry: ZipEntry, sha256?: string): void;
}

interface ZipContent {
  readonly byteLength: number;
  read(offset: number, length: number): Uint8Array<ArrayBuffer>;
}

// Deflate reaches 1032:1, weights about 1.1:1. An entry above this ratio is a bomb or not worth the risk.
const MAX_RATIO = 200;

const SMALL_BYTES = 1 << 20;

// Each entry of the directory takes this much memory, and no directory may take more than the second.
const ENTRY_MEMORY = 400;

const SMALL_DIRECTORY = 20 << 20;

export function isZip(file: FileBytes): boolean {
  return file.size >= 4 && viewOf(file.read(0, 4)).getUint32(0, true) === RECORD.local.signature;
}

interface ZipOptions {
  /** Programs that write an entry again leave the old one, and the last one counts. */
  readonly again?: boolean;
  /** Says what an entry with a wrong checksum is for the user; "" where its name is all there is to say. */
  readonly meaning?: (entry: ZipEntry) => string;
}

export function openZip(file: FileBytes, { again = false, meaning = () => "" }: ZipOptions = {}): ZipReader {
  const entries = readDirectory(file, again);
  // The start takes a read of the entry's own header, so it is found on first use.
  const starts = new Map<ZipEntry, number>();
  const startOf = (entry: ZipEntry): number => {
    let start = starts.get(entry);
    if (start === undefined) starts.set(entry, start = dataStart(file, entry));
    return start;
  };
  const inflate = (entry: ZipEntry): Uint8Array<ArrayBuffer> => {
    const packed = file.read(startOf(entry), entry.packedSize);
    try {
      // One byte above the promised size shows that the promise was wrong.
      const bytes = inflateRawSync(packed, { maxOutputLength: entry.size + 1 });
      if (bytes.byteLength === entry.size) {
        return new Uint8Array(bytes.buffer as ArrayBuffer, bytes.byteOffset, entry.size);
      }
    } catch {
      // Both faults get the same sentence below.
    }
    throw damagedCheckpoint(file.path, `the compressed entry ${show(entry.name)} is corrupt`);
  };
  const wrong = (entry: ZipEntry, what: string) => {
    const found = meaning(entry), where = show(entry.name) + (found === "" ? "" : ` (${found})`);
    return damagedCheckpoint(
      file.path,
      `the ${what} of ${where} is wrong: the file was damaged after it was written`,
    );
  };
  const checksum = (entry: ZipEntry, crc: number) => {
    if (crc !== entry.crc) throw wrong(entry, "checksum");
  };
  const zip: ZipReader = {
    entries,
    startOf,
    content(entry) {
      let right = entry.method !== STORED; // A compressed entry is unpacked and compared as a whole.
      const read = (offset: number, length: number) => {
        if (!right && length < entry.size) zip.verify(entry);
        const bytes = zip.read(entry, offset, length);
        right = true;
        return bytes;
      };
      return { byteLength: entry.size, read };
    },
    read(entry, offset = 0, length = entry.size - offset) {
      if (entry.method === STORED && length < entry.size) return file.read(startOf(entry) + offset, length);
      const whole = entry.method === STORED ? file.read(startOf(entry), entry.size) : inflate(entry);
      checksum(entry, crc32(whole));
      return length === entry.size ? whole : whole.slice(offset, offset + length);
    },
    peek(entry, length) {
      const count = Math.min(length, entry.size);
      if (entry.method === STORED) return file.read(startOf(entry), count);
      // Incompressible data grows by less than this.
      const packed = file.read(startOf(entry), Math.min(entry.packedSize, count + 1024));
      try {
        const bytes = inflateRawSync(packed, { finishFlush: constants.Z_SYNC_FLUSH });
        return new Uint8Array(bytes).subarray(0, count);
      } catch {
        throw damagedCheckpoint(file.path, `the compressed entry ${show(entry.name)} is corrupt`);
      }
    },
    verify(entry, sha256) {
      const hash = sha256 === undefined ? null : createHash("sha256");
      const digest = () => {
        if (hash && hash.digest("hex") !== sha256) throw wrong(entry, "SHA-256");
      };
      if (entry.method !== STORED) {
        const bytes = inflate(entry);
        checksum(entry, crc32(bytes));
        hash?.update(bytes);
        return digest();
      }
      const start = startOf(entry);
      const chunk = new Uint8Array(Math.min(CHUNK_BYTES, entry.size));
      let crc = 0;
      for (let at = 0; at < entry.size; at += chunk.length) {
        const part = chunk.subarray(0, entry.size - at);
        file.readInto(start + at, part);
        crc = crc32(part, crc);
        hash?.update(part);
      }
      checksum(entry, crc);
      digest();
    },
  };
  return zip;
}

function readDirectory(file: FileBytes, again: boolean): Map<string, ZipEntry> {
  const end = findDirectory(file);
  if (end.offset + end.bytes > file.size) {
    throw damagedCheckpoint(file.path, "its zip directory lies outside the file");
  }
  if (end.count * RECORD.central.bytes > end.bytes) {
    throw damagedCheckpoint(file.path, "its zip directory is too small for its entries");
  }
  if (end.count * ENTRY_MEMORY > Math.max(SMALL_DIRECTORY, 1.25 * file.size)) {
    throw damagedCheckpoint(
      file.path,
      `its zip directory has ${end.count} entries, too many for a file of its size`,
    );
  }
  const directory = file.read(end.offset, end.bytes);
  const view = viewOf(directory);
  const found: (Omit<ZipEntry, "limit"> & { least: number })[] = [];
  let at = 0;
  for (let i = 0; i < end.count; i++) {
    if (
      at + RECORD.central.bytes > directory.length || view.getUint32(at, true) !== RECORD.central.signature
    ) {
      throw damagedCheckpoint(file.path, `entry ${i + 1} of its zip directory is corrupt`);
    }
    const nameBytes = view.getUint16(at + 28, true);
    const extraBytes = view.getUint16(at + 30, true);
    const next = at + RECORD.central.bytes + nameBytes + extraBytes + view.getUint16(at + 32, true);
    if (next > directory.length) {
      throw damagedCheckpoint(file.path, `entry ${i + 1} of its zip directory is cut off`);
    }
    found.push(readEntry(file, directory, view, at, nameBytes, extraBytes));
    at = next;
  }
  return withoutOverlaps(file, found, end.offset, again);
}

function readEntry(
  file: FileBytes,
  directory: Uint8Array,
  view: DataView,
  at: number,
  nameBytes: number,
  extraBytes: number,
) {
  const nameAt = at + RECORD.central.bytes;
  const name = new TextDecoder().decode(directory.subarray(nameAt, nameAt + nameBytes));
  const flags = view.getUint16(at + 8, true);
  const method = view.getUint16(at + 10, true);
  if (flags & FLAG_ENCRYPTED) {
    throw damagedCheckpoint(
      file.path,
      `the entry ${show(name)} is encrypted; unpack it with its password first`,
    );
  }
  if (method !== STORED && method !== DEFLATED) {
    throw damagedCheckpoint(
      file.path,
      `the entry ${show(name)} is compressed by method ${method}; only stored and deflate can be read`,
    );
  }
  let [packedSize, size, headerOffset] = [
    view.getUint32(at + 20, true),
    view.getUint32(at + 24, true),
    view.getUint32(at + 42, true),
  ];
  if (size === MAX32 || packedSize === MAX32 || headerOffset === MAX32) {
    // The 64-bit field holds only the numbers that did not fit, in this order.
    let wide = findExtra64(view, nameAt + nameBytes, extraBytes);
    const take = (fallback: number): number => {
      if (fallback !== MAX32) return fallback;
      if (wide.byteLength < 8) {
        throw damagedCheckpoint(file.path, `the 64-bit sizes of the entry ${show(name)} are missing`);
      }
      const value = Number(wide.getBigUint64(0, true));
      wide = new DataView(wide.buffer, wide.byteOffset + 8, wide.byteLength - 8);
      return value;
    };
    size = take(size);
    packedSize = take(packedSize);
    headerOffset = take(headerOffset);
  }
  if (method === STORED && size !== packedSize) {
    throw damagedCheckpoint(file.path, `the sizes of the entry ${show(name)} contradict each other`);
  }
  if (size > SMALL_BYTES && size / MAX_RATIO > packedSize) {
    throw damagedCheckpoint(
      file.path,
      `the entry ${
        show(name)
      } would unpack ${packedSize} bytes into ${size}; repack the zip without compression if that is right`,
    );
  }
  const least = RECORD.local.bytes + nameBytes + packedSize;
  return { name, size, packedSize, method, crc: view.getUint32(at + 16, true), headerOffset, least };
}

function findExtra64(view: DataView, from: number, length: number): DataView {
  for (let at = from; at + 4 <= from + length;) {
    const bytes = view.getUint16(at + 2, true);
    if (at + 4 + bytes > from + length) break;
    if (view.getUint16(at, true) === EXTRA64) {
      return new DataView(view.buffer, view.byteOffset + at + 4, bytes);
    }
    at += 4 + bytes;
  }
  return new DataView(new ArrayBuffer(0));
}

function withoutOverlaps(
  file: FileBytes,
  found: (Omit<ZipEntry, "limit"> & { least: number })[],
  end: number,
  again: boolean,
): Map<string, ZipEntry> {
  const order = found.toSorted((a, b) => a.headerOffset - b.headerOffset);
  const entries = new Map<string, ZipEntry>();
  order.forEach(({ least, ...entry }, i) => {
    const limit = order[i + 1]?.headerOffset ?? end;
    if (entry.headerOffset + least > limit) {
      throw damagedCheckpoint(
        file.path,
        `the entry ${show(entry.name)} overlaps what follows it: the file is corrupt or was cut short`,
      );
    }
    if (!again && entries.has(entry.name)) {
      throw damagedCheckpoint(file.path, `holds two entries named ${show(entry.name)}`);
    }
    entries.set(entry.name, { ...entry, limit });
  });
  return entries;
}

function findDirectory(file: FileBytes): { offset: number; bytes: number; count: number } {
  const tailBytes = Math.min(file.size, RECORD.end.bytes + MAX16);
  const tailAt = file.size - tailBytes;
  const view = viewOf(file.read(tailAt, tailBytes));
  let at = tailBytes - RECORD.end.bytes;
  while (
    at >= 0 &&
    !(view.getUint32(at, true) === RECORD.end.signature &&
      at + RECORD.end.bytes + view.getUint16(at + 20, true) <= tailBytes)
  ) at--;
  if (at < 0) {
    throw damagedCheckpoint(
      file.path,
      "is a truncated zip: its directory, which is written last, is missing. Copy it again, or take an older one",
    );
  }
  const small = {
    count: view.getUint16(at + 10, true),
    bytes: view.getUint32(at + 12, true),
    offset: view.getUint32(at + 16, true),
  };
  if (small.count !== MAX16 && small.bytes !== MAX32 && small.offset !== MAX32) return small;
  const locatorAt = at - RECORD.locator64.bytes;
  if (locatorAt < 0 || view.getUint32(locatorAt, true) !== RECORD.locator64.signature) return small;
  const end64 = viewOf(file.read(Number(view.getBigUint64(locatorAt + 8, true)), RECORD.end64.bytes));
  if (end64.getUint32(0, true) !== RECORD.end64.signature) {
    throw damagedCheckpoint(file.path, "its 64-bit zip directory record is corrupt");
  }
  const [count, bytes, offset] = [32, 40, 48].map((field) => Number(end64.getBigUint64(field, true)));
  return { count, bytes, offset };
}

/** The entry's own extra field may differ from the directory's. */
function dataStart(file: FileBytes, entry: ZipEntry): number {
  const header = viewOf(file.read(entry.headerOffset, RECORD.local.bytes));
  const start = entry.headerOffset + RECORD.local.bytes + header.getUint16(26, true) +
    header.getUint16(28, true);
  if (header.getUint32(0, true) !== RECORD.local.signature || start + entry.packedSize > entry.limit) {
    throw damagedCheckpoint(file.path, `the header of the entry ${show(entry.name)} is corrupt`);
  }
  return start;
}

function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/** Names come out of the file, so they are made safe to print. */
function show(name: string): string {
  return JSON.stringify(name.length > 100 ? name.slice(0, 100) + "..." : name);
}
