// Checksums in safetensors files of ours: the format has none. Imports file_bytes, safetensors_names, value.
import { createHash } from "node:crypto";
import { damaged, type FileBytes } from "./file_bytes.ts";
import { isObject } from "./safetensors_names.ts";
import { CHUNK_BYTES } from "./zip_format.ts";
import type { TensorData } from "./value.ts";

/** Its value in the metadata is JSON: {"header": SUM, "tensors": {NAME: SUM, ...}}. */
export const SUMS_KEY = "hpctrain_sha256";

/** Stands for a sum that is not known yet, and for the header's own sum when that is computed. */
export const NO_SUM = "0".repeat(64);

export const sumOf = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex");

export function sumOfTensor({ storage, byteLength }: TensorData): string {
  const hash = createHash("sha256");
  for (let at = 0; at < byteLength; at += CHUNK_BYTES) {
    hash.update(storage.read(at, Math.min(CHUNK_BYTES, byteLength - at)));
  }
  return hash.digest("hex");
}

/** The sum of a text that holds it. */
export const sumWithout = (text: string, sum: string): string =>
  sumOf(new TextEncoder().encode(text.replace(sum, NO_SUM)));

/** The sum that the header of a file says it has; undefined in files that carry none. */
export function headerSum(path: string, metadata: Readonly<Record<string, string>>): string | undefined {
  return readSums(path, metadata)?.header;
}

/** Tensors are those of the file, one after the other in it. */
export function verifySums(
  file: FileBytes,
  dataAt: number,
  metadata: Readonly<Record<string, string>>,
  tensors: ReadonlyMap<string, TensorData>,
): void {
  const sums = readSums(file.path, metadata);
  if (sums === undefined) return;
  const wrong = (what: string) =>
    damaged(file.path, `the SHA-256 of ${what} is wrong: the file was damaged after it was written`);
  const header = new TextDecoder().decode(file.read(8, dataAt - 8));
  if (sumWithout(header, sums.header) !== sums.header) throw wrong("its header");
  for (const [name, tensor] of tensors) {
    if (sumOfTensor(tensor) !== sums.tensors[name]) throw wrong(JSON.stringify(name.slice(0, 100)));
  }
}

interface Sums {
  header: string;
  tensors: Record<string, unknown>;
}

function readSums(path: string, metadata: Readonly<Record<string, string>>): Sums | undefined {
  const text = metadata[SUMS_KEY];
  if (text === undefined) return undefined;
  try {
    const { header, tensors } = JSON.parse(text);
    if (typeof header === "string" && /^[0-9a-f]{64}$/.test(header) && isObject(tensors)) {
      return { header, tensors };
    }
  } catch {
    // The same sentence for all that is wrong with it.
  }
  throw damaged(path, `its metadata "${SUMS_KEY}" is not the checksums that hpctrain writes`);
}
