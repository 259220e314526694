// The headers of many files lie scattered through them, and a file server takes its time for each piece. The user's cache
// keeps the pieces of all files of a data set, and their small coordinates, in one file: a later start parses these and
// reads none of the others. A file of another size, time or inode is read anew; a damaged cache is as good as none.
import { createHash } from "node:crypto";
import { join, resolve } from "../../../../../deps/path.ts";
import { cacheFolder } from "../../../../../ffi/libraries/find.ts";
import { writeAll, writeAtomically } from "../../../../base/atomic.ts";
import { digest, removeOldest } from "../../../arrays/remembered.ts";

/** Pieces of one file, as the reader of its structure asks for them. */
export interface Notes {
  readonly isEmpty: boolean;
  /** True where the piece was known. */
  read(at: number, into: Uint8Array): boolean;
  note(at: number, bytes: Uint8Array): void;
  /** The values of a small variable; `read` is called where nobody has read them yet. */
  values(name: string, read: () => Uint8Array): Uint8Array;
}

interface HeaderNotes {
  of(path: string): Notes;
  /** It writes what is new. */
  keep(): void;
}

interface FileNotes {
  readonly identity: string;
  readonly pieces: Map<string, Uint8Array>;
}

/** One data set takes at most this much of the cache, and the cache keeps so many. */
const MOST_BYTES = 32 * 2 ** 20, MOST_FILES = 64;

const opened = new Map<string, HeaderNotes>();

/** `path` is the data's, which may name many files. */
export function headerNotes(path: string): HeaderNotes {
  const place = placeOf(path), known = opened.get(place) ?? openNotes(place);
  opened.set(place, known);
  return known;
}

function placeOf(path: string): string {
  const name = digest(`${resolve(".")}\n${path}`).slice(0, 32);
  return join(cacheFolder(Deno.env.toObject()), "headers", name);
}

export function openNotes(place: string): HeaderNotes {
  const files = read(place);
  let isNew = false, isFull = false, bytes = 0;
  for (const { pieces } of files.values()) for (const piece of pieces.values()) bytes += piece.length;
  const add = (pieces: FileNotes["pieces"], key: string, piece: Uint8Array) => {
    bytes += piece.length;
    isFull ||= bytes > MOST_BYTES;
    isNew = !isFull;
    if (isFull) return files.clear();
    pieces.set(key, piece);
  };
  return {
    of(path) {
      const identity = identityOf(path), before = files.get(path);
      const own = before?.identity === identity
        ? before
        : { identity, pieces: new Map<string, Uint8Array>() };
      files.set(path, own);
      const { pieces } = own;
      return {
        isEmpty: pieces.size === 0,
        read(at, into) {
          const piece = pieces.get(`${at} ${into.length}`);
          if (piece) into.set(piece);
          return piece !== undefined;
        },
        note: (at, piece) => add(pieces, `${at} ${piece.length}`, piece.slice()),
        values(name, read) {
          const key = `values ${name}`, found = pieces.get(key) ?? read();
          if (!pieces.has(key)) add(pieces, key, found);
          return found.slice();
        },
      };
    },
    keep() {
      if (isNew) write(place, files);
      isNew = false;
    },
  };
}

function identityOf(path: string): string {
  const { size, mtime, ctime, ino } = Deno.statSync(path);
  return [size, mtime?.getTime(), ctime?.getTime(), ino].join(" ");
}

// A hash of all that follows, the length of a list in JSON, the list, and the pieces one after the other.

const HASH_BYTES = 32, VERSION = 1;

interface Listed {
  readonly path: string;
  readonly identity: string;
  readonly pieces: readonly (readonly [key: string, length: number])[];
}

function read(place: string): Map<string, FileNotes> {
  const files = new Map<string, FileNotes>();
  try {
    const all = Deno.readFileSync(place), rest = all.subarray(HASH_BYTES);
    if (hash([rest]).some((byte, i) => byte !== all[i])) return files;
    const length = new DataView(rest.buffer, rest.byteOffset, 4).getUint32(0, true);
    const { version, list } = JSON.parse(new TextDecoder().decode(rest.subarray(4, 4 + length)));
    if (version !== VERSION) return files;
    let at = 4 + length;
    for (const { path, identity, pieces } of list as Listed[]) {
      const own = pieces.map(([key, size]) => [key, rest.subarray(at, at += size)] as const);
      files.set(path, { identity, pieces: new Map(own) });
    }
    return files;
  } catch {
    return new Map();
  }
}

function write(place: string, files: ReadonlyMap<string, FileNotes>): void {
  const list = [...files].map(([path, { identity, pieces }]): Listed => ({
    path,
    identity,
    pieces: [...pieces].map(([key, { length }]) => [key, length]),
  }));
  const head = new TextEncoder().encode(JSON.stringify({ version: VERSION, list }));
  const length = new Uint8Array(Uint32Array.of(head.length).buffer);
  const parts = [length, head, ...[...files.values()].flatMap(({ pieces }) => [...pieces.values()])];
  try {
    removeOldest(join(place, ".."), MOST_FILES);
    writeAtomically(place, (file) => [hash(parts), ...parts].forEach((part) => writeAll(file, part)), {
      sync: false,
    });
  } catch {
    // Only time is lost.
  }
}

function hash(parts: readonly Uint8Array[]): Uint8Array {
  const made = createHash("sha256");
  for (const part of parts) made.update(part);
  return made.digest();
}
