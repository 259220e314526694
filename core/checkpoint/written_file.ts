// A file that is written from front to back, begins to go to the disk meanwhile, and is read back. Its parts each have
// a CRC-32, made while their bytes are at hand. May import ffi's write_behind, atomic, file_bytes, zip_format.
import { crc32 } from "node:zlib";
import { type WriteBehind, writeBehind } from "../../ffi/write_behind.ts";
import { writeAll } from "./atomic.ts";
import { damaged } from "./file_bytes.ts";
import { CHUNK_BYTES } from "./zip_format.ts";

/** One after the other they are the file. */
interface Part {
  readonly name: string;
  readonly at: number;
  size: number;
  crc: number;
  seen: boolean;
}

/** From here on it is worth asking the disk to begin. */
const LARGE_BYTES = 32 << 20;

export class WrittenFile {
  readonly #file: Deno.FsFile;
  readonly #parts: Part[] = [];
  #behind: WriteBehind | null = null;
  #at = 0;

  /** `file` is new and empty. */
  constructor(file: Deno.FsFile) {
    this.#file = file;
  }

  /** Where the next byte will be. */
  get at(): number {
    return this.#at;
  }

  /** About so many bytes will be written to the file, which has this path now. */
  expect(path: string, bytes: number): void {
    if (bytes >= LARGE_BYTES) this.#behind = writeBehind(path, bytes);
  }

  /** What is put from here on is this part. */
  begin(name: string): void {
    this.#parts.push({ name, at: this.#at, size: 0, crc: 0, seen: false });
  }

  /** Gives the CRC-32 of the part until now. */
  put(bytes: Uint8Array): number {
    const part = this.#parts.at(-1)!;
    part.crc = crc32(bytes, part.crc);
    writeAll(this.#file, bytes);
    part.size += bytes.length;
    this.#at += bytes.length;
    this.#behind?.until(this.#at);
    return part.crc;
  }

  /** Other bytes in place of those of the part that begins there, and as many. */
  replace(at: number, bytes: Uint8Array): void {
    const part = this.#parts.findLast((part) => part.at === at)!;
    if (part.size !== bytes.length) throw new Error(`internal: ${part.name} has ${part.size} bytes`);
    Object.assign(part, { crc: crc32(bytes), seen: false });
    this.#file.seekSync(at, Deno.SeekMode.Start);
    writeAll(this.#file, bytes);
    this.#file.seekSync(this.#at, Deno.SeekMode.Start);
  }

  /** Compares what the file has with what was written, as far as that was not done before. `path` is for the sentence. */
  readBack(path: string): void {
    const room = new Uint8Array(CHUNK_BYTES);
    for (const part of this.#parts) {
      if (part.seen) continue;
      if (part.crc !== this.#crcOf(part, room)) {
        throw damaged(
          path,
          `${part.name} was read back with other bytes than were written: is the disk or the memory failing?`,
        );
      }
      part.seen = true;
    }
    this.#file.seekSync(this.#at, Deno.SeekMode.Start);
  }

  /** Undefined when the file ends before the part does. */
  #crcOf({ at, size }: Part, room: Uint8Array): number | undefined {
    this.#file.seekSync(at, Deno.SeekMode.Start);
    let crc = 0;
    for (let left = size; left > 0;) {
      const count = this.#file.readSync(room.subarray(0, left));
      if (count === null) return undefined;
      crc = crc32(room.subarray(0, count), crc);
      left -= count;
    }
    return crc;
  }

  [Symbol.dispose](): void {
    this.#behind?.close();
  }
}
