// Documents of a corpus: a text file is one, or several between separators; a line of JSON is one. Long documents come in
// pieces, and files may be packed by gzip or zstd.
import { isFolder } from "../../base/files.ts";
import { createReadStream } from "node:fs";
import { pipeline, type Readable } from "node:stream";
import { createGunzip, createZstdDecompress } from "node:zlib";
import { messageOf, UserError } from "../../base/errors.ts";
import { formatPlural } from "../../base/format.ts";
import { filesBelow, filesNamed } from "../arrays/paths.ts";
import { Utf8 } from "./utf8.ts";
import { FileBytes } from "../../base/file_bytes.ts";

const KINDS = [".txt", ".text", ".md", ".jsonl", ".ndjson"];
const TEXT_ENDINGS: readonly string[] = KINDS.flatMap((kind) => [kind, `${kind}.gz`, `${kind}.zst`]);

export const isNamedAsText = (path: string): boolean =>
  TEXT_ENDINGS.some((ending) => path.toLowerCase().endsWith(ending));

const isLines = (path: string): boolean => /\.(jsonl|ndjson)(\.gz|\.zst)?$/i.test(path);

/** Files, folders of files, globs and lists, each file once. */
export function corpusFiles(named: readonly string[]): string[] {
  const found = named.flatMap((path) =>
    isFolder(path) ? filesBelow(path, TEXT_ENDINGS) : filesNamed(path) ?? [path]
  );
  if (found.length > 0) return [...new Set(found)];
  throw new UserError(
    "data",
    `${named.join(", ")} has no text in it: looked for files that end in ${
      KINDS.join(", ")
    }, or in those with .gz or .zst.`,
  );
}

export interface CorpusOptions {
  /** The name of the text in a line of JSON. */
  readonly field: string;
  /** It stands between the documents of a text file; "" makes each file one. */
  readonly separator: string;
  /** Long documents may be cut between words. */
  readonly cuts: boolean;
  /** Pieces are about as long, in characters. */
  readonly piece?: number;
}

export interface TextPiece {
  readonly text: string;
  /** The document ends with it. */
  readonly ends: boolean;
}

const PIECE = 1 << 20;
/** A document that can't be cut is held whole. */
const LONGEST = 1 << 26;

/** Documents of white space alone are left out. */
export async function* textPieces(path: string, options: CorpusOptions): AsyncGenerator<TextPiece> {
  const whole = isLines(path) ? linesOf(path, options.field) : partsOf(path, options.separator);
  const limit = options.piece ?? PIECE;
  let rest = "", begun = false;
  for await (const { text, ends } of whole) {
    rest += text;
    while (rest.length > limit && (options.cuts || rest.length > LONGEST)) {
      const at = options.cuts ? placeToCut(rest, limit) : 0;
      if (at === 0 && rest.length > LONGEST) throw uncut(path, rest.length, options.cuts);
      if (at === 0) break;
      yield { text: rest.slice(0, at), ends: false };
      rest = rest.slice(at);
      begun = true;
    }
    if (!ends) continue;
    if (begun || /\S/.test(rest)) yield { text: rest, ends: true };
    rest = "";
    begun = false;
  }
}

const uncut = (path: string, length: number, cuts: boolean) =>
  new UserError(
    "data",
    `${path} has a document of more than ${formatPlural(length, "character")}, ${
      cuts ? "without a place between words" : "which this tokenizer takes only whole"
    }: give the text that separates its documents (--separator), or divide the file.`,
  );

/** Between two letters and a space, or after the end of a line that is not empty, every tokenizer begins a new word. */
function placeToCut(text: string, limit: number): number {
  for (let at = limit; at > 1; at--) if (isBetween(text, at)) return at;
  for (let at = limit + 1; at < text.length - 1; at++) if (isBetween(text, at)) return at;
  return 0;
}

function isBetween(text: string, at: number): boolean {
  const current = text.charCodeAt(at), before = text.charCodeAt(at - 1);
  if (current === 32) return isLetter(before) && isLetter(text.charCodeAt(at + 1));
  return before === 10 && isVisible(current) && isVisible(text.charCodeAt(at - 2));
}

const isLetter = (code: number) => (code | 32) >= 97 && (code | 32) <= 122;
const isVisible = (code: number) => code > 32 && code < 127;

async function* partsOf(path: string, separator: string): AsyncGenerator<TextPiece> {
  let rest = "";
  for await (const text of decoded(path)) {
    if (separator === "") {
      yield { text, ends: false };
      continue;
    }
    rest += text;
    const parts = rest.split(separator);
    for (const part of parts.slice(0, -1)) yield { text: part, ends: true };
    const last = parts.at(-1)!, kept = Math.min(last.length, separator.length); // half a separator may be there
    yield { text: last.slice(0, last.length - kept), ends: false };
    rest = last.slice(last.length - kept);
  }
  yield { text: rest, ends: true };
}

async function* linesOf(path: string, field: string): AsyncGenerator<TextPiece> {
  let number = 0;
  for await (const { text: line, ends } of completeLines(path)) {
    number++;
    if (line.trim() !== "") yield { text: textIn(line, field, `${path}:${number}`, ends), ends: true };
  }
}

async function* completeLines(path: string): AsyncGenerator<TextPiece> {
  let rest = "";
  for await (const text of decoded(path)) {
    const lines = (rest + text).split("\n");
    rest = lines.pop()!;
    for (const line of lines) yield { text: line, ends: true };
  }
  yield { text: rest, ends: false };
}

function textIn(line: string, field: string, where: string, ended: boolean): string {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch (cause) {
    const why = ended ? "" : " The file ends there: is it truncated?";
    throw new UserError("data", `${where} is no JSON, and each line should be an object with a text.${why}`, {
      cause,
    });
  }
  const fields = value !== null && typeof value === "object" && !Array.isArray(value) ? value as object : {};
  const text = (fields as Record<string, unknown>)[field];
  if (typeof text !== "string") {
    const names = Object.entries(fields).flatMap(([name, value]) => typeof value === "string" ? [name] : []);
    throw new UserError(
      "data",
      `${where} has no text "${field}" in it: ${
        names.length > 0
          ? `name one of ${names.slice(0, 8).join(", ")} with --text-field`
          : 'each line should be an object such as {"text": "..."}'
      }.`,
    );
  }
  if (text.isWellFormed()) return text;
  throw new UserError(
    "data",
    `${where}: the text "${field}" has half a character in it (a lone \\ud800 to \\udfff).`,
  );
}

async function* decoded(path: string): AsyncGenerator<string> {
  const text = new Utf8(path);
  for await (const block of blocksOf(path)) yield text.decode(block);
  text.end();
}

async function* blocksOf(path: string): AsyncGenerator<Uint8Array> {
  try {
    if (/\.zst$/i.test(path)) yield* unpackedFrames(path);
    else yield* opened(path);
  } catch (cause) {
    if (cause instanceof UserError) {
      throw cause.kind === "data" ? cause : new UserError("data", cause.message, { cause });
    }
    const { code = "" } = cause as { code?: string };
    const why = code === "ENOENT"
      ? "there is no such file"
      : code === "EISDIR"
      ? "it is a folder"
      : code === "EACCES"
      ? "this user may not read it"
      : /\.(gz|zst)$/i.test(path)
      ? DAMAGED
      : messageOf(cause);
    throw new UserError("data", `${path} can't be read: ${why}.`, { cause });
  }
}

const DAMAGED = "it is truncated or damaged. Copy it again";

const BLOCK = 1 << 18;

function opened(path: string): Readable {
  const file = createReadStream(path, { highWaterMark: BLOCK });
  return /\.gz$/i.test(path) ? through(file, createGunzip()) : file;
}

async function* unpackedFrames(path: string): AsyncGenerator<Uint8Array> {
  const frames = zstdFrames(path);
  if (frames === null) throw new UserError("data", `${path} can't be read: ${DAMAGED}.`);
  for (const { begin, end } of frames) {
    const part = createReadStream(path, { start: begin, end: end - 1, highWaterMark: BLOCK });
    yield* through(part, createZstdDecompress());
  }
}

/** The loop over it throws what went wrong. */
function through<T extends NodeJS.ReadWriteStream & Readable>(file: Readable, unpack: T): T {
  pipeline(file, unpack, () => {});
  return unpack;
}

export interface Frame {
  readonly begin: number;
  readonly end: number;
}

const MAGIC = 0xfd2fb528, SKIPPED = 0x184d2a50;

/** Null where the file does not end with a whole frame. */
function zstdFrames(path: string): readonly Frame[] | null {
  const file = new FileBytes(path), frames: Frame[] = [];
  try {
    for (let at = 0; at < file.size;) {
      const head = file.read(at, Math.min(8, file.size - at)), begin = at;
      if (head.length < 8) return null;
      const view = new DataView(head.buffer), magic = view.getUint32(0, true);
      if ((magic & 0xfffffff0) >>> 0 === SKIPPED) at += 8 + view.getUint32(4, true);
      else if (magic === MAGIC) {
        at = endOf(file, at);
        frames.push({ begin, end: at });
      } else return null;
      if (at > file.size) return null;
    }
    return frames;
  } finally {
    file.close();
  }
}

/** Past the end of the file where the frame is cut off. */
function endOf(file: FileBytes, begin: number): number {
  const [descriptor] = file.read(begin + 4, 1);
  const single = (descriptor & 32) !== 0, size = descriptor >> 6;
  let at = begin + 5 + (single ? 0 : 1) + [0, 1, 2, 4][descriptor & 3] +
    (size === 0 ? Number(single) : 2 ** size);
  for (let last = false; !last;) {
    if (at + 3 > file.size) return Infinity;
    const [a, b, c] = file.read(at, 3), header = a | b << 8 | c << 16;
    last = (header & 1) === 1;
    at += 3 + ((header >> 1 & 3) === 1 ? 1 : header >> 3); // one byte stands for a run
  }
  return at + (descriptor & 4);
}
