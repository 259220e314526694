// idx files, the format MNIST comes in: a header of big-endian numbers, then one byte a value. May import errors.
import { gunzipSync } from "node:zlib";
import { UserError } from "../errors.ts";
import { formatPlural } from "../format.ts";

// Gzip reaches 1032:1, images about 5:1: above this, a file is made to fill the memory.
const MAX_RATIO = 200;

export interface Idx {
  readonly dims: readonly number[];
  readonly bytes: Uint8Array;
}

/** Reads a file of unsigned bytes with this many dimensions, gzipped or not. `what` names its content: "images". */
export function readIdx(path: string, what: string, dimensions: number): Idx {
  const file = unzipped(path, readFile(path));
  if (file.length === 0) throw refusal(path, "is empty. Copy it again from where it came from.");
  const headerLength = 4 + 4 * dimensions;
  const header = new DataView(file.buffer, file.byteOffset, Math.min(file.length, headerLength));
  const magic = header.byteLength < 4 ? undefined : header.getUint32(0);
  // Two zero bytes, 8 for unsigned bytes, the number of dimensions.
  const expected = 0x0800 + dimensions;
  if (magic !== expected) {
    throw refusal(
      path,
      `is no idx file of ${what}: it should begin with ${hex(expected)}, but begins with ${
        magic === undefined ? formatPlural(file.length, "byte") + " only" : hex(magic)
      }${otherFormat(magic)}.`,
    );
  }
  if (header.byteLength < headerLength) throw truncated(path, headerLength, file.length, "for its header");
  const dims = Array.from({ length: dimensions }, (_, i) => header.getUint32(4 + 4 * i));
  const size = headerLength + dims.reduce((a, b) => a * b, 1);
  if (file.length < size) throw truncated(path, size, file.length, `for ${what} of ${dims.join(" x ")}`);
  if (file.length > size) {
    throw refusal(
      path,
      `is longer than its header says: ${size} bytes expected for ${what} of ${dims.join(" x ")}, ` +
        `${file.length} found. Copy it again from where it came from.`,
    );
  }
  if (size === headerLength) throw refusal(path, `holds no ${what}: its header says ${dims.join(" x ")}.`);
  return { dims, bytes: file.subarray(headerLength) };
}

function readFile(path: string): Uint8Array {
  try {
    return Deno.readFileSync(path);
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message.split(":")[0] : String(cause);
    throw new UserError("data", `${path} can't be read: ${reason}. Check its permissions.`, { cause });
  }
}

function unzipped(path: string, file: Uint8Array): Uint8Array {
  if (file[0] !== 0x1f || file[1] !== 0x8b) return file;
  try {
    const maxOutputLength = Math.max(MAX_RATIO * file.length, 1 << 20);
    const { buffer, byteOffset, byteLength } = gunzipSync(file, { maxOutputLength });
    return new Uint8Array(buffer, byteOffset, byteLength);
  } catch (cause) {
    if (cause instanceof RangeError) {
      throw refusal(
        path,
        `unpacks to more than ${MAX_RATIO} times its size, as no data does. If it is right, unpack it with gunzip.`,
      );
    }
    throw new UserError(
      "data",
      `${path} is a damaged or truncated gzip file of ${formatPlural(file.length, "byte")}. ` +
        "Copy it again from where it came from.",
      { cause },
    );
  }
}

function otherFormat(magic: number | undefined): string {
  switch (magic) {
    case 0x0801:
      return " (idx labels)";
    case 0x0803:
      return " (idx images)";
    case 0x504b0304:
      return " (a zip file: unpack it)";
    case 0x89504e47:
      return " (a PNG image)";
    default:
      return "";
  }
}

const hex = (magic: number) => `0x${magic.toString(16).padStart(8, "0")}`;

const refusal = (path: string, sentence: string) => new UserError("data", `${path} ${sentence}`);

const truncated = (path: string, expected: number, found: number, why: string) =>
  refusal(
    path,
    `is truncated: ${expected} bytes expected ${why}, ${found} found. Copy it again from where it came from.`,
  );
