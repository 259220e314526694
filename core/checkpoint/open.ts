// Opens a checkpoint of any format by its first bytes, and describes it as plain data.
import { FileBytes } from "../base/file_bytes.ts";
import { findTensors } from "./named_tensors.ts";
import { readPt } from "./pt.ts";
import { isSafetensors, readSafetensors, SUMS_KEY, TREE_KEY, unflatten } from "./safetensors.ts";
import { indexOf, readSharded } from "./sharded_reader.ts";
import { OrderedDict, type Storage, TensorData, TorchName, Tuple, type Value } from "./value.ts";
import { isZip } from "../base/zip.ts";

/** A checkpoint that is open for reading. */
export interface CheckpointFile {
  /** As it was opened. */
  readonly path: string;
  /** The kind of its file or files. */
  readonly format: "pt" | "safetensors" | "sharded";
  /** The whole tree; tensors are read on demand, and compared with their checksums then. */
  readonly root: Value;
  /** Text that a safetensors file carries beside its tensors. */
  readonly metadata: Readonly<Record<string, string>>;
  /** The size of all its files. */
  readonly fileBytes: number;
  /** Safetensors files that are not ours have none, and their sizes were compared on opening. */
  readonly hasSums: boolean;
  /** Compares all checksums that there are, at once. */
  verify(): void;
  /** Closes its files: tensors can't be read from here on. */
  close(): void;
  /** The same, at the end of a `using` block. */
  [Symbol.dispose](): void;
}

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

/** A whole checkpoint has the tree that a .pt file would have. */
function openSafetensors(path: string, fileBytes: number): CheckpointFile {
  const file = readSafetensors(path);
  try {
    const { [TREE_KEY]: tree, [SUMS_KEY]: sums, ...metadata } = file.metadata;
    const root = tree === undefined ? new OrderedDict(file.tensors) : unflatten(tree, file.tensors, path);
    return { ...file, format: "safetensors", root, metadata, fileBytes, hasSums: sums !== undefined };
  } catch (error) {
    file.close();
    throw error;
  }
}

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

interface NamedTensor {
  name: string;
  dtype: string;
  shape: readonly number[];
  bytes: number;
}

export interface Description {
  path: string;
  format: CheckpointFile["format"];
  fileBytes: number;
  values: { [key: string]: Json };
  metadata: Readonly<Record<string, string>>;
  tensors: NamedTensor[];
  totals: { tensors: number; elements: number; bytes: number };
}

const MAX_DEPTH = 64;

export function describeCheckpoint(file: CheckpointFile): Description {
  const found = findTensors(file.root, file.path);
  const storages = new Set<Storage>(found.map(({ tensor }) => tensor.storage));
  const values: { [key: string]: Json } = {};
  if (file.root instanceof Map) {
    for (const [key, value] of file.root) {
      const json = toJson(value, true);
      if (json !== undefined) values[String(key)] = json;
    }
  }
  return {
    path: file.path,
    format: file.format,
    fileBytes: file.fileBytes,
    values,
    metadata: file.metadata,
    tensors: found.map(({ name, tensor: { dtype, shape, byteLength } }) => ({
      name,
      dtype,
      shape,
      bytes: byteLength,
    })),
    totals: {
      tensors: found.length,
      elements: found.reduce((sum, { tensor }) => sum + tensor.numel, 0),
      // Shared memory is on disk once.
      bytes: [...storages].reduce((sum, { byteLength }) => sum + byteLength, 0),
    },
  };
}

/**
 * Gives undefined for what JSON can't express, such as tensors. `forReading` omits tensors, and shows nan,
 * huge integers and bytes, which would not come back as they were.
 */
export function toJson(root: Value, forReading = false): Json | undefined {
  let budget = 100_000; // Shared lists can unfold without end.
  const convert = (value: Value, depth: number): Json | undefined => {
    if (budget-- === 0 || depth > MAX_DEPTH) throw NO_JSON;
    if (value === null || typeof value === "boolean" || typeof value === "string") return value;
    if (typeof value === "number" && Number.isFinite(value)) return value;
    if (value instanceof Tuple) return convert(value.items, depth);
    if (Array.isArray(value)) return value.map((item) => convert(item, depth + 1) ?? "tensors");
    if (value instanceof Map && (forReading || value.keys().every((key) => typeof key === "string"))) {
      const entries = [...value].map(([key, item]) => [String(key), convert(item, depth + 1)] as const);
      const shown = entries.filter((entry): entry is [string, Json] => entry[1] !== undefined);
      return shown.length === 0 && value.size > 0 ? undefined : Object.fromEntries(shown);
    }
    if (!forReading || value instanceof Map) throw NO_JSON;
    if (value instanceof TensorData) return undefined;
    if (value instanceof TorchName) return value.name;
    if (value instanceof Uint8Array) return `${value.length} bytes`;
    return value instanceof Set ? convert([...value], depth) : String(value);
  };
  try {
    return convert(root, 0);
  } catch (error) {
    if (error === NO_JSON) return undefined;
    throw error;
  }
}

const NO_JSON = Symbol("no JSON for this");

/** Objects become dicts. */
export function fromJson(value: Json): Value {
  if (Array.isArray(value)) return value.map(fromJson);
  if (typeof value === "object" && value !== null) {
    return new Map(Object.entries(value).map(([key, item]) => [key, fromJson(item)]));
  }
  return value;
}
