// What a file without a header of its own really is, as far as its first bytes tell: text, or another format. For readers that
// would take any bytes for numbers.

/** Files that begin so are never flat numbers that somebody wrote to train with. */
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
/** Of text in an encoding that is not UTF-8, so much is ASCII all the same. */
const MOSTLY = 0.9;

/** "a Parquet file"; null where nothing speaks against numbers. */
export function formatOf(head: Uint8Array): string | null {
  if (head.length < LEAST) return null;
  return SIGNATURES.find(([bytes]) => bytes.every((byte, i) => head[i] === byte))?.[1] ?? null;
}

/** Numbers of 16 bits or more have bytes that no text has: zeros, control characters, halves of characters. */
export function isText(head: Uint8Array): boolean {
  if (head.length < LEAST) return false;
  if (head[0] === 0xff && head[1] === 0xfe && head[3] === 0) return true; // UTF-16, as Windows writes it
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
