// WebDataset: members of tar files whose names are alike up to the first dot are parts of one sample.
import { basename } from "../../deps/path.ts";
import { UserError } from "../../core/base/errors.ts";
import type { FileMark } from "../../core/data/arrays/rows.ts";
import { markOf, withFiles } from "../../core/data/arrays/files.ts";
import { filesIn } from "../../core/data/arrays/paths.ts";
import type { FileBytes } from "../../core/base/file_bytes.ts";
import { partOf } from "../../core/data/arrays/numbers.ts";
import { ENDINGS } from "./format.ts";

/** Where the members of one ending lie, sample by sample; shared memory. */
export interface Members {
  readonly at: Float64Array;
  /** -1 where the sample has no such member. */
  readonly sizes: Float64Array;
}

export interface TarSamples {
  readonly path: string;
  readonly count: number;
  readonly shards: readonly FileMark[];
  /** The first sample of each shard, and the number of all. */
  readonly starts: readonly number[];
  /** By ending, as the first samples have them. */
  readonly members: ReadonlyMap<string, Members>;
  /** The names in front of the endings. */
  readonly keys: readonly string[];
}

/** "a/b.c/0012.seg.png" is the member "seg.png" of the sample "a/b.c/0012". */
const NAME = /^((?:.*\/)?[^./]+)\.([^/]+)$/s;
const MOST_ENDINGS = 1000;

const shardsIn = (path: string): readonly string[] => filesIn(path, ENDINGS) ?? [path];

export function readSamples(path: string): TarSamples {
  const files = shardsIn(path);
  if (files.length === 0) throw new UserError("data", `The folder ${path} has no .tar files in it.`);
  const keys: string[] = [], starts: number[] = [0];
  const found = new Map<string, { at: number[]; sizes: number[] }>();
  const take = (ending: string, at: number, size: number, shard: string) => {
    const known = found.get(ending) ?? { at: [], sizes: [] };
    found.set(ending, known);
    if (found.size > MOST_ENDINGS) throw noSamples(shard, `members with ${MOST_ENDINGS} endings`);
    const sample = keys.length - 1;
    while (known.at.length < sample) {
      known.at.push(0);
      known.sizes.push(-1);
    }
    if (known.at.length > sample) {
      throw new UserError("data", `${shard}: the sample "${keys[sample]}" has two members "${ending}".`);
    }
    known.at.push(at);
    known.sizes.push(size);
  };
  for (const shard of files) {
    let now: string | null = null, strange = "";
    withFiles((open) => {
      for (const { name, at, size } of readMembers(open(shard))) {
        const [, key, ending] = NAME.exec(name) ?? [];
        if (key === undefined || basename(name).startsWith(".")) {
          strange ||= name;
          continue;
        }
        if (key !== now) keys.push(now = key);
        take(ending.toLowerCase(), at, size, shard);
      }
    });
    if (keys.length === starts.at(-1)) throw noSamples(shard, strange === "" ? "nothing" : strange);
    starts.push(keys.length);
  }
  const members = new Map([...found].map(([ending, { at, sizes }]) => {
    const whole = (values: number[], empty: number) => {
      const all = new Float64Array(new SharedArrayBuffer(8 * keys.length)).fill(empty);
      all.set(values);
      return all;
    };
    return [ending, { at: whole(at, 0), sizes: whole(sizes, -1) }] as const;
  }));
  return { path, count: keys.length, shards: files.map(markOf), starts, members, keys };
}

const noSamples = (shard: string, what: string) =>
  new UserError(
    "data",
    `${shard} has no samples in it, but ${what}: files of one sample have names such as 0001.jpg and 0001.cls. An archive ` +
      `of other data is unpacked first (tar -xf '${shard}').`,
  );

/** A sample without the member ends the run. */
export function checkWhole(
  { shards, starts, keys, path }: TarSamples,
  ending: string,
  { sizes }: Members,
): void {
  const sample = sizes.indexOf(-1);
  if (sample < 0) return;
  throw new UserError(
    "data",
    `${shards[partOf(starts, sample)]?.path ?? path}: the sample ${sample} ("${
      keys[sample]
    }") has no member ` +
      `"${ending}", and others have. Choose others with --features and --targets, or leave the sample out of the shards.`,
  );
}

export interface TarMember {
  readonly name: string;
  readonly at: number;
  readonly size: number;
}

const BLOCK = 512, MOST_TEXT = 2 ** 20;
const PLAIN = ["0", "\0", "7"], LONG_NAME = "L", LONG_LINK = "K", EXTENDED = "x", GLOBAL = "g";

/** Regular files alone; links and folders are passed over. */
function* readMembers(file: FileBytes): Generator<TarMember> {
  const { path, size } = file, headerAt = openHeaders(file);
  let name: string | null = null, extended: ReadonlyMap<string, string> = new Map();
  for (let at = 0, index = 0; at !== size; index++) {
    if (at + BLOCK > size) throw damaged(path, index, `should begin at ${at}, and the file ends at ${size}`);
    const block = headerAt(at);
    if (block[0] === 0 && block.every((byte) => byte === 0)) return;
    if (numberAt(block, 148, 8) !== sumOf(block)) {
      throw damaged(path, index, "has a header that fails its checksum");
    }
    const bytes = Number(extended.get("size") ?? numberAt(block, 124, 12)), begin = at + BLOCK;
    if (!(Number.isSafeInteger(bytes) && bytes >= 0)) throw damaged(path, index, "has no size");
    if (begin + bytes > size) {
      throw damaged(path, index, `should end at ${begin + bytes}, and the file ends at ${size}`);
    }
    const kind = String.fromCharCode(block[156]);
    at = begin + Math.ceil(bytes / BLOCK) * BLOCK;
    if ([LONG_NAME, LONG_LINK, EXTENDED, GLOBAL].includes(kind)) {
      if (bytes > MOST_TEXT) throw damaged(path, index, `has a header of ${bytes} bytes`);
      const own = file.read(begin, bytes);
      if (kind === LONG_NAME) name = textAt(own, 0, own.length);
      if (kind === EXTENDED) extended = recordsOf(own);
      continue;
    }
    if (PLAIN.includes(kind)) {
      const prefix = block[257] === U && block[345] !== 0 ? textAt(block, 345, 155) : "";
      const plain = textAt(block, 0, 100);
      yield {
        name: extended.get("path") ?? name ?? (prefix === "" ? plain : `${prefix}/${plain}`),
        at: begin,
        size: bytes,
      };
    }
    name = null;
    extended = new Map();
  }
}

const damaged = (path: string, index: number, what: string) =>
  new UserError(
    "data",
    `${path} is damaged or cut off: its member ${index} (counted from 0) ${what}. Copy it again from where it came from.`,
  );

const decoder = new TextDecoder();

function textAt(bytes: Uint8Array, at: number, length: number): string {
  const end = bytes.indexOf(0, at);
  return decoder.decode(bytes.subarray(at, end < 0 || end > at + length ? at + length : end));
}

/** It is the first letter of "ustar", which marks headers that have a prefix. */
const U = 117;

/** Octal digits, or bytes behind a mark where those are too few. */
function numberAt(block: Uint8Array, at: number, length: number): number {
  const isLong = (block[at] & 128) !== 0, end = at + length;
  let value = 0;
  for (let i = isLong ? at + 1 : at; i < end; i++) {
    const byte = block[i];
    if (isLong) value = value * 256 + byte;
    else if (byte >= 48 && byte <= 55) value = value * 8 + byte - 48;
    else if (byte !== 32 && byte !== 0) return NaN;
    else if (byte === 0) break;
  }
  return value;
}

const WINDOW = 2 ** 16, NEAR = WINDOW / 8;

/** Where members are small, one read brings many headers. */
function openHeaders(file: FileBytes): (at: number) => Uint8Array {
  const room = new Uint8Array(WINDOW);
  let begin = 0, end = 0;
  return (at) => {
    if (at < begin || at + BLOCK > end) {
      const many = at - begin <= NEAR || at - end <= NEAR ? WINDOW : BLOCK;
      const bytes = Math.min(many, file.size - at);
      file.readInto(at, room.subarray(0, bytes));
      begin = at;
      end = at + bytes;
    }
    return room.subarray(at - begin, at - begin + BLOCK);
  };
}

/** The checksum's own eight bytes count as blanks. */
function sumOf(block: Uint8Array): number {
  let sum = 8 * 32;
  for (let i = 0; i < BLOCK; i++) if (i < 148 || i >= 156) sum += block[i];
  return sum;
}

/** "LENGTH KEY=VALUE\n", again and again. */
function recordsOf(bytes: Uint8Array): Map<string, string> {
  const found = new Map<string, string>();
  for (let at = 0; at < bytes.length;) {
    const space = bytes.indexOf(32, at), length = Number(textAt(bytes, at, space - at));
    if (space < 0 || !(length > 0 && at + length <= bytes.length)) break;
    const record = new TextDecoder().decode(bytes.subarray(space + 1, at + length - 1)),
      cut = record.indexOf("=");
    found.set(record.slice(0, cut), record.slice(cut + 1));
    at += length;
  }
  return found;
}
