// Token files are flat uint16 or uint32 numbers as nanoGPT writes them, or have llm.c's header. Flat files
// have no header, so the first bytes must show text or another format, which is refused.
import type { FileBytes } from "../../../base/file_bytes.ts";
import { UserError } from "../../../base/errors.ts";
import { markOf } from "../../arrays/files.ts";
import { Utf8 } from "../../text/utf8.ts";
import type { FileMark } from "../../arrays/rows.ts";

/** No training tokens begin with these bytes. */
const SIGNATURES: readonly (readonly [bytes: readonly number[], what: string])[] = [
  [[0x1f, 0x8b], "compressed by gzip"],
  [[0x28, 0xb5, 0x2f, 0xfd], "compressed by zstd"],
  [[0xfd, 0x37, 0x7a, 0x58, 0x5a], "compressed by xz"],
  [[0x42, 0x5a, 0x68, 0x39, 0x31, 0x41, 0x59], "compressed by bzip2"],
  [[0x50, 0x4b, 0x03, 0x04], "a zip file, or what is kept in one (npz, a checkpoint)"],
  [[0x89, 0x48, 0x44, 0x46, 0x0d, 0x0a, 0x1a, 0x0a], "an HDF5 file"],
  [[0x50, 0x41, 0x52, 0x31], "a Parquet file"],
  [[0x41, 0x52, 0x52, 0x4f, 0x57, 0x31], "an Arrow file"],
  [[0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a], "a PNG image"],
  [[0x7f, 0x45, 0x4c, 0x46], "a program"],
];

/** Fewer bytes may look like anything. */
const LEAST = 16;
/** Text in an encoding other than UTF-8 still has this share of ASCII: it is refused as text. */
const MOSTLY = 0.9;

const UTF_16 = "text in UTF-16, as Windows writes it (iconv -f utf-16 -t utf-8 makes UTF-8 of it)";

function formatOf(head: Uint8Array): string | null {
  if (head.length < LEAST) return null;
  if (head[0] === 0xff && head[1] === 0xfe && head[3] === 0) return UTF_16;
  return SIGNATURES.find(([bytes]) => bytes.every((byte, i) => head[i] === byte))?.[1] ?? null;
}

/** Numbers of 16 bits or more have bytes that text lacks: zeros, control characters, halves of characters. */
function isText(head: Uint8Array): boolean {
  if (head.length < LEAST) return false;
  let ascii = 0;
  for (const byte of head) {
    if (byte >= 0x20 ? byte === 0x7f : !(byte >= 0x09 && byte <= 0x0d)) return false;
    if (byte < 0x80) ascii++;
  }
  return ascii >= MOSTLY * head.length || isUtf8(head);
}

function isUtf8(head: Uint8Array): boolean {
  try {
    new TextDecoder("utf-8", { fatal: true }).decode(head, { stream: true }); // the last character may be cut
    return true;
  } catch {
    return false;
  }
}

export interface TokenSpan {
  readonly mark: FileMark;
  readonly at: number;
  readonly length: number;
  readonly width: Width;
}

export type Width = 1 | 2 | 4;
type TokenType = "auto" | "uint8" | "uint16" | "uint32";
const WIDTHS = { uint8: 1, uint16: 2, uint32: 4 } as const;

export interface TokenFile extends TokenSpan {
  readonly type: string;
  /** The tokens are the bytes of a text. */
  readonly text?: true;
}

/** llm.c's header is 256 int32: mark, version, number of tokens, and zeros. */
const HEADER_BYTES = 1024;
const LLMC_HEADERS = [{ magic: 20240520, version: 1, width: 2 }, {
  magic: 20240801,
  version: 7,
  width: 4,
}] as const;

/** A type from the settings is trusted. */
export function findTokens(file: FileBytes, type: TokenType = "auto"): TokenFile {
  const { path, size } = file;
  if (size === 0) throw new UserError("data", `${path} is empty: it has no tokens in it.`);
  if (type !== "auto") return ofType(file, type);
  const head = file.read(0, Math.min(size, HEADER_BYTES));
  if (String.fromCharCode(...head.subarray(0, 6)) === "\x93NUMPY") {
    throw new UserError(
      "data",
      `${path} is an npy file: write tokens with ids.astype(numpy.uint16).tofile(...).`,
    );
  }
  if (head.length === HEADER_BYTES && looksLikeHeader(new Int32Array(head.buffer))) {
    return behindHeader(file, new Int32Array(head.buffer));
  }
  const start = file.read(0, Math.min(size, 2 * LOOKED_AT));
  if (isText(start)) {
    checkUtf8(file);
    return { mark: markOf(path), at: 0, length: size, width: 1, type: "the bytes of a text", text: true };
  }
  refuseOthers(path, start);
  if (size % 2 !== 0) {
    throw new UserError(
      "data",
      `${path} has ${size} bytes, an odd number, and tokens are of 2 or 4 bytes: it is truncated, or no file of tokens.`,
    );
  }
  const words = new Uint16Array(start.buffer);
  return size % 4 === 0 && areHalves(words)
    ? {
      mark: markOf(path),
      at: 0,
      length: size / 4,
      width: 4,
      type: "uint32, as every second 16 bits are all but zero",
    }
    : { mark: markOf(path), at: 0, length: size / 2, width: 2, type: "uint16" };
}

/** A letter of another encoding would be no letter to any other program that reads what the model writes. */
function checkUtf8(file: FileBytes): void {
  const text = new Utf8(file.path, ", or train with its bytes as they are: --token-type uint8");
  for (let at = 0; at < file.size; at += BLOCK) text.decode(file.read(at, Math.min(BLOCK, file.size - at)));
  text.end();
}

function ofType({ path, size }: FileBytes, type: Exclude<TokenType, "auto">): TokenFile {
  const width = WIDTHS[type];
  if (size % width === 0) {
    return { mark: markOf(path), at: 0, length: size / width, width, type: `${type} (data.token_type)` };
  }
  throw new UserError(
    "data",
    `${path} has ${size} bytes, which is no whole number of ${type} (--token-type): it is truncated, or of another type.`,
  );
}

/** Any bytes are numbers, so a wrong file would train. */
function refuseOthers(path: string, start: Uint8Array): void {
  const other = formatOf(start);
  if (other === null) return;
  throw new UserError(
    "data",
    `${path} is ${other}, and no file of tokens, which are numbers alone: unpack or convert it with ` +
      "ids.astype(numpy.uint16).tofile(...). If it has tokens all the same, --token-type uint16 or uint32 takes it as it is.",
  );
}

/** llm.c's marks are dates of 2024, and the second half of the header is zeros. */
const looksLikeHeader = (header: Int32Array) =>
  header[0] >= 20240101 && header[0] <= 20241231 && header.subarray(128).every((value) => value === 0);

function behindHeader(file: FileBytes, [magic, version, count]: Int32Array): TokenFile {
  const { path, size } = file;
  const kind = LLMC_HEADERS.find((known) => known.magic === magic && known.version === version);
  if (!kind) {
    throw new UserError(
      "data",
      `${path} begins like a file of llm.c, but with the mark ${magic} and version ${version}; files of tokens have ` +
        `${LLMC_HEADERS.map((known) => `${known.magic} and version ${known.version}`).join(", or ")}. ` +
        "Name a file that llm.c's data scripts wrote.",
    );
  }
  const expected = HEADER_BYTES + count * kind.width;
  if (size !== expected) {
    throw new UserError(
      "data",
      `${path} is ${
        size < expected ? "truncated" : "longer than its header says"
      }: ${expected} bytes expected for ` +
        `${count} tokens, ${size} found. Copy it again from where it came from.`,
    );
  }
  return {
    mark: markOf(path),
    at: HEADER_BYTES,
    length: count,
    width: kind.width,
    type: `uint${8 * kind.width} behind llm.c's header`,
  };
}

const LOOKED_AT = 1 << 16;
/** Vocabularies end at about four times 65,536. */
const MOST_HIGH = 4;

/** 32-bit tokens have small high halves; uint16 tokens are not small every second time. */
function areHalves(words: Uint16Array): boolean {
  let low = 0, high = 0;
  for (let i = 0; i + 1 < words.length; i += 2) {
    low = Math.max(low, words[i]);
    high = Math.max(high, words[i + 1]);
  }
  return high === 0 ? low > 0 : high < MOST_HIGH && low > MOST_HIGH;
}

const BLOCK = 8 * 2 ** 20;

/** The token has to be below `vocabulary` where that is given. */
export function largestToken(
  open: (path: string) => FileBytes,
  { mark: { path }, at, length, width }: TokenSpan,
  vocabulary: number,
): number {
  const file = open(path);
  let most = 0;
  for (let first = 0; first < length; first += BLOCK / width) {
    const bytes = file.read(at + first * width, Math.min(BLOCK, (length - first) * width));
    const tokens = tokenNumbers(bytes, width);
    for (let i = 0; i < tokens.length; i++) if (tokens[i] > most) most = tokens[i];
    if (vocabulary > 0 && most >= vocabulary) {
      const found = tokens.findIndex((token: number) => token >= vocabulary);
      throw new UserError(
        "data",
        `${path}: token ${first + found} (counted from 0) is ${
          tokens[found]
        }, outside of the vocabulary of ` +
          `${vocabulary}: set model.vocab_size to ${most + 1} or more, or leave it out.`,
      );
    }
  }
  return most;
}

export const tokenNumbers = ({ buffer, byteOffset, byteLength }: Uint8Array, width: Width) =>
  width === 1
    ? new Uint8Array(buffer, byteOffset, byteLength)
    : width === 2
    ? new Uint16Array(buffer, byteOffset, byteLength / 2)
    : new Uint32Array(buffer, byteOffset, byteLength / 4);
