// Opens a checkpoint of any format by looking at its first bytes. Imports the formats of this folder.
import { damaged, FileBytes } from "./file_bytes.ts";
import { readPt } from "./pt.ts";
import { isSafetensors, readSafetensors } from "./safetensors.ts";
import { SUMS_KEY } from "./safetensors_sums.ts";
import { TREE_KEY, unflatten } from "./safetensors_tree.ts";
import { indexOf, readSharded } from "./sharded/read.ts";
import { TensorData, type Value } from "./value.ts";
import { isZip } from "./zip_reader.ts";

/** A checkpoint that is open for reading. */
export interface CheckpointFile {
  /** As it was opened. */
  readonly path: string;
  /** What kind of file, or files, it is. */
  readonly format: "pt" | "safetensors" | "sharded";
  /** The whole tree; tensors are read when their bytes are asked for. */
  readonly root: Value;
  /** Text that a safetensors file carries beside its tensors. */
  readonly metadata: Readonly<Record<string, string>>;
  /** Of all its files. */
  readonly fileBytes: number;
  /** Safetensors files that are not ours have none, and their sizes were compared on opening. */
  readonly hasSums: boolean;
  /** Compares all checksums that there are. */
  verify(): void;
  /** Closes its files: tensors can't be read from here on. */
  close(): void;
  /** The same, at the end of a `using` block. */
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

/** Opens a .pt or .safetensors file, or a folder of shards, and closes it again if it is damaged. */
export function openCheckpoint(path: string): CheckpointFile {
  const index = indexOf(path);
  if (index !== undefined) return { format: "sharded", ...readSharded(path, index) };
  const file = new FileBytes(path);
  const { size: fileBytes } = file;
  const safetensors = path.endsWith(".safetensors") || isSafetensors(file);
  file.close();
  return safetensors
    ? openSafetensors(path, fileBytes)
    : { format: "pt", metadata: {}, fileBytes, hasSums: true, ...readPt(path) };
}

/** One that holds a whole checkpoint has the tree that a .pt file would have. */
function openSafetensors(path: string, fileBytes: number): CheckpointFile {
  const file = readSafetensors(path);
  try {
    const { [TREE_KEY]: tree, [SUMS_KEY]: sums, ...metadata } = file.metadata;
    const root = tree === undefined ? file.root : unflatten(tree, file.root as Map<string, TensorData>, path);
    const hasSums = sums !== undefined;
    const verify = () => {
      if (tree !== undefined && !hasSums) {
        throw damaged(path, "its checksums are gone: it was damaged after it was written");
      }
      file.verify();
    };
    return { ...file, format: "safetensors", root, metadata, fileBytes, hasSums, verify };
  } catch (error) {
    file.close();
    throw error;
  }
}
