// Opens a checkpoint of either format by looking at its first bytes. Imports the formats of this folder.
import { FileBytes } from "./file_bytes.ts";
import { readPt } from "./pt.ts";
import { isSafetensors, readSafetensors } from "./safetensors.ts";
import type { Value } from "./value.ts";
import { isZip } from "./zip_reader.ts";

export interface CheckpointFile {
  readonly path: string;
  readonly format: "pt" | "safetensors";
  readonly root: Value;
  /** Text that a safetensors file carries beside its tensors. */
  readonly metadata: Readonly<Record<string, string>>;
  /** Compares checksums; safetensors has none, and its sizes were compared on opening. */
  verify(): void;
  close(): void;
  [Symbol.dispose](): void;
}

/** By its first bytes, where its name does not tell. */
export function looksLikeCheckpoint(path: string): boolean {
  const file = new FileBytes(path);
  try {
    return isZip(file) || isSafetensors(file);
  } finally {
    file.close();
  }
}

export function openCheckpoint(path: string): CheckpointFile {
  const file = new FileBytes(path);
  const safetensors = path.endsWith(".safetensors") || isSafetensors(file);
  file.close();
  return safetensors
    ? { format: "safetensors", verify: () => {}, ...readSafetensors(path) }
    : { format: "pt", metadata: {}, ...readPt(path) };
}
