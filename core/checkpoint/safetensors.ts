// Reads safetensors files, compares our checksums wherever a tensor is read, and packs a whole checkpoint's tree into their metadata.
import {
  DTYPE_BYTES,
  field,
  type Key,
  OrderedDict,
  type Storage,
  type StoredDType,
  TensorData,
  Tuple,
  type Value,
} from "./value.ts";
import { createHash } from "node:crypto";
import { damagedCheckpoint, FileBytes } from "../base/file_bytes.ts";
import { CHUNK_BYTES } from "../base/zip.ts";
import { costOfJson, LEAST_MEMORY } from "./memory_cost.ts";

/** The reference lays tensors out by type, from the last of these to the first. */
export const NAMES: readonly (readonly [string, StoredDType])[] = [
  ["U64", "u64"],
  ["I64", "i64"],
  ["F64", "f64"],
  ["C64", "c64"],
  ["F32", "f32"],
  ["U32", "u32"],
  ["I32", "i32"],
  ["BF16", "bf16"],
  ["F16", "f16"],
  ["U16", "u16"],
  ["I16", "i16"],
  ["I8", "i8"],
  ["U8", "u8"],
  ["BOOL", "bool"],
];

const DTYPES: ReadonlyMap<string, StoredDType> = new Map(NAMES);

// The reference implementation has the same limit.
const MAX_HEADER_BYTES = 100_000_000;

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Its value in the metadata is JSON: {"header": SUM, "tensors": {NAME: SUM, ...}}. */
export const SUMS_KEY = "hpctrain_sha256";

/** It holds the place of a sum that is not known yet, and of the header's own sum when that is computed. */
export const NO_SUM = "0".repeat(64);

export const sumOf = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex");

function sumOfAll({ byteLength, read }: Storage): string {
  const hash = createHash("sha256");
  for (let at = 0; at < byteLength; at += CHUNK_BYTES) {
    hash.update(read(at, Math.min(CHUNK_BYTES, byteLength - at)));
  }
  return hash.digest("hex");
}

export const sumWithout = (text: string, sum: string): string =>
  sumOf(new TextEncoder().encode(text.replace(sum, NO_SUM)));

const wrongSum = (path: string, what: string) =>
  damagedCheckpoint(path, `the SHA-256 of ${what} is wrong: the file was damaged after it was written`);

interface Checked extends Storage {
  /** Compares the checksum with what the disk has now. */
  verify(): void;
}

/** Nothing is handed on before all of the tensor was compared with its checksum, at the first read. */
function checkedStorage(path: string, name: string, storage: Storage, sum: unknown): Checked {
  const { byteLength } = storage;
  let right = byteLength === 0;
  const compare = (found: string) => {
    if (found !== sum) throw wrongSum(path, JSON.stringify(name.slice(0, 100)));
    right = true;
  };
  const verify = () => compare(sumOfAll(storage));
  const read = (offset: number, length: number) => {
    if (!right && length < byteLength) verify();
    const bytes = storage.read(offset, length);
    if (!right) compare(sumOf(bytes));
    return bytes;
  };
  return { byteLength, read, verify };
}

interface Sums {
  header: string;
  tensors: Record<string, unknown>;
}

/** The header's own sum is compared here, so that its names, shapes and values can be believed. */
function readSums(
  file: FileBytes,
  header: string,
  metadata: Readonly<Record<string, string>>,
): Sums | undefined {
  if (metadata[SUMS_KEY] === undefined) {
    if (metadata[TREE_KEY] === undefined && !Object.values(metadata).some(isSums)) return undefined;
    throw damagedCheckpoint(file.path, "its checksums are gone: it was damaged after it was written");
  }
  const sums = parseSums(file.path, metadata[SUMS_KEY]);
  if (sumWithout(header, sums.header) !== sums.header) throw wrongSum(file.path, "its header");
  return sums;
}

/** A damaged key must not hide the sums. */
const isSums = (text: string): boolean => /^\{"header":"[0-9a-f]{64}","tensors":\{/.test(text);

export function headerSum(path: string, metadata: Readonly<Record<string, string>>): string | undefined {
  const text = metadata[SUMS_KEY];
  return text === undefined ? undefined : parseSums(path, text).header;
}

function parseSums(path: string, text: string): Sums {
  try {
    const { header, tensors } = JSON.parse(text);
    if (typeof header === "string" && /^[0-9a-f]{64}$/.test(header) && isObject(tensors)) {
      return { header, tensors };
    }
  } catch {
    // The refusal below covers every fault of the header.
  }
  throw damagedCheckpoint(path, `its metadata "${SUMS_KEY}" is not the checksums that hpctrain writes`);
}

export interface SafetensorsFile {
  readonly path: string;
  /** Tensors are read on demand, so the file must stay open until then. Checksums of ours are compared meanwhile. */
  readonly tensors: ReadonlyMap<string, TensorData>;
  readonly metadata: Readonly<Record<string, string>>;
  /** Compares all checksums at once. */
  verify(): void;
  close(): void;
  [Symbol.dispose](): void;
}

export function isSafetensors(file: FileBytes): boolean {
  if (file.size < 10) return false;
  const start = file.read(0, 9);
  return headerBytes(start) <= Math.min(file.size - 8, MAX_HEADER_BYTES) && start[8] === 0x7b;
}

export function readSafetensors(path: string): SafetensorsFile {
  const file = new FileBytes(path);
  try {
    const { entries: { __metadata__: given = {}, ...entries }, text, dataAt } = readHeader(file);
    const placed = Object.entries(entries).map(([name, entry]) => readEntry(file, name, entry, dataAt));
    refuseGaps(file, placed, dataAt);
    const metadata = readMetadata(file, given);
    const sums = readSums(file, text, metadata);
    const checks: (() => void)[] = [];
    const tensors = new Map(placed.map(({ name, dtype, shape, storage }) => {
      if (!sums) return [name, new TensorData(dtype, shape, storage)];
      const checked = checkedStorage(path, name, storage, sums.tensors[name]);
      checks.push(checked.verify);
      return [name, new TensorData(dtype, shape, checked)];
    }));
    const close = () => file.close();
    const verify = () => checks.forEach((check) => check());
    return { path, tensors, metadata, verify, close, [Symbol.dispose]: close };
  } catch (error) {
    file.close();
    throw error;
  }
}

function headerBytes(start: Uint8Array): number {
  return Number(new DataView(start.buffer, start.byteOffset).getBigUint64(0, true));
}

function readHeader(file: FileBytes): { entries: Record<string, unknown>; text: string; dataAt: number } {
  if (file.size < 8) {
    throw damagedCheckpoint(file.path, `is ${file.size} bytes long, too short for a safetensors file`);
  }
  const length = headerBytes(file.read(0, 8));
  if (length > MAX_HEADER_BYTES) {
    throw damagedCheckpoint(file.path, `is not a safetensors file: its header would be ${length} bytes long`);
  }
  if (8 + length > file.size) {
    throw damagedCheckpoint(
      file.path,
      `is truncated: its header alone has ${length} bytes, and the file ends at ${file.size}`,
    );
  }
  const bytes = file.read(8, length);
  if (costOfJson(bytes) > Math.max(LEAST_MEMORY, 1.25 * file.size)) {
    throw damagedCheckpoint(
      file.path,
      `its header of ${length} bytes holds more single values than hpctrain will read`,
    );
  }
  const text = new TextDecoder().decode(bytes);
  let entries: unknown;
  try {
    entries = JSON.parse(text);
  } catch {
    throw damagedCheckpoint(file.path, "is not a safetensors file: its header is not JSON");
  }
  if (!isObject(entries)) {
    throw damagedCheckpoint(file.path, "is not a safetensors file: its header is not a JSON object");
  }
  const twice = repeatedKey(text);
  if (twice !== undefined) {
    throw damagedCheckpoint(file.path, `names the tensor ${twice} twice in its header`);
  }
  return { entries, text, dataAt: 8 + length };
}

/** JSON.parse keeps the last of two equal keys, but either tensor may have been meant. */
function repeatedKey(json: string): string | undefined {
  const seen = new Set<string>();
  let depth = 0;
  for (let at = 0; at < json.length; at++) {
    const char = json[at];
    if (char === "{" || char === "[") depth++;
    else if (char === "}" || char === "]") depth--;
    if (char !== '"') continue;
    const from = at;
    // The JSON is valid, so the string ends.
    for (at++; json[at] !== '"'; at++) if (json[at] === "\\") at++;
    if (depth !== 1 || !/^\s*:/.test(json.slice(at + 1, at + 100))) continue;
    const key = json.slice(from, at + 1);
    const name = JSON.parse(key);
    if (seen.has(name)) return key;
    seen.add(name);
  }
}

function readMetadata(file: FileBytes, entry: unknown): Record<string, string> {
  if (isObject(entry) && Object.values(entry).every((value) => typeof value === "string")) {
    return entry as Record<string, string>;
  }
  throw damagedCheckpoint(file.path, "has a __metadata__ that is not text by text");
}

interface Placed {
  readonly name: string;
  readonly dtype: StoredDType;
  readonly shape: readonly number[];
  readonly storage: Storage;
  readonly from: number;
  readonly to: number;
}

function readEntry(file: FileBytes, name: string, entry: unknown, dataAt: number): Placed {
  const shown = JSON.stringify(name);
  const { dtype: type, shape, data_offsets: offsets } = isObject(entry) ? entry : {};
  if (typeof type !== "string" || !isCounts(shape) || !isCounts(offsets) || offsets.length !== 2) {
    throw damagedCheckpoint(
      file.path,
      `the header's entry for ${shown} is not a type, a shape and two offsets`,
    );
  }
  const dtype = DTYPES.get(type);
  if (!dtype) {
    throw damagedCheckpoint(
      file.path,
      `${shown} is of the type ${JSON.stringify(type)}, which hpctrain can't read; it reads ${
        [...DTYPES.keys()].join(", ")
      }`,
    );
  }
  const [from, to] = offsets;
  const bytes = shape.reduce((product, size) => product * size, DTYPE_BYTES[dtype]);
  if (to - from !== bytes) {
    throw damagedCheckpoint(
      file.path,
      `${shown} is ${type} [${shape}], ${bytes} bytes, but ${to - from} are set aside for it`,
    );
  }
  if (dataAt + to > file.size) {
    throw damagedCheckpoint(
      file.path,
      `is truncated: ${shown} ends at byte ${dataAt + to}, and the file at ${file.size}`,
    );
  }
  const read = (offset: number, length: number) => file.read(dataAt + from + offset, length);
  return { name, dtype, shape, storage: { byteLength: bytes, read }, from, to };
}

/** Every byte of data belongs to exactly one tensor, so that nothing can hide in a gap. */
function refuseGaps(file: FileBytes, placed: readonly Placed[], dataAt: number): void {
  let at = 0;
  for (const { name, from, to } of placed.toSorted((a, b) => a.from - b.from || a.to - b.to)) {
    if (from !== at) {
      throw damagedCheckpoint(
        file.path,
        `${
          JSON.stringify(name)
        } begins at ${from}, but the tensor before it ends at ${at}: the header is corrupt`,
      );
    }
    at = to;
  }
  if (dataAt + at !== file.size) {
    throw damagedCheckpoint(file.path, `has ${file.size - dataAt - at} bytes after its last tensor`);
  }
}

function isCounts(value: unknown): value is number[] {
  return Array.isArray(value) && value.length <= 64 &&
    value.every((item) => Number.isSafeInteger(item) && item >= 0);
}

/** Its value says as JSON where each tensor belongs in the tree, and holds all other values. */
export const TREE_KEY = "hpctrain_tree";

const MAX_DEPTH = 64;

// A list that is met twice is written twice, so a small file could unfold without end.
const MAX_VALUES = 1_000_000;

interface Flat {
  readonly tensors: ReadonlyMap<string, TensorData>;
  readonly metadata: Readonly<Record<string, string>>;
}

/**
 * Values that JSON can't express are objects with one key: {"$tensor": its name}, {"$dict": pairs} for a dict
 * whose keys are not text or would change places, and so on.
 */
export function flattenTree(root: Value, path: string): Flat {
  const tensors = new Map<string, TensorData>();
  const names = parameterNames(root);
  const add = (tensor: TensorData, keys: readonly Key[]): string => {
    let name = nameOf(keys, names);
    while (tensors.has(name)) name += "_";
    tensors.set(name, tensor);
    return name;
  };
  let values = 0;
  const encode = (value: Value, keys: readonly Key[]): unknown => {
    if (keys.length > MAX_DEPTH) {
      throw damagedCheckpoint(path, `nests its values more than ${MAX_DEPTH} deep`);
    }
    if (++values > MAX_VALUES) throw damagedCheckpoint(path, `holds more than ${MAX_VALUES} single values`);
    const list = (items: Iterable<Value>) => [...items].map((item, i) => encode(item, [...keys, i]));
    const pairs = (map: Map<Key, Value>) =>
      [...map].map(([key, item]) => [encode(key, [...keys, "key"]), encode(item, [...keys, key])]);
    if (value === null || typeof value === "boolean" || typeof value === "string") return value;
    if (typeof value === "number") {
      return Number.isFinite(value) && !Object.is(value, -0)
        ? value
        : { $float: Object.is(value, -0) ? "-0" : `${value}` };
    }
    if (typeof value === "bigint") return { $int: String(value) };
    if (value instanceof TensorData) return { $tensor: add(value, keys) };
    if (value instanceof Uint8Array) return { $bytes: value.toBase64() };
    if (value instanceof Tuple) return { $tuple: list(value.items) };
    if (value instanceof Set) return { $set: list(value) };
    if (Array.isArray(value)) return list(value);
    if (value instanceof OrderedDict) return { $ordered: pairs(value) };
    if (!(value instanceof Map)) {
      throw damagedCheckpoint(path, `${keys.join(".")} is ${value.name}, which safetensors can't carry`);
    }
    if (!value.keys().every(isPlainKey)) return { $dict: pairs(value) };
    return Object.fromEntries([...value].map(([key, item]) => [key, encode(item, [...keys, key])]));
  };
  const tree = JSON.stringify(encode(root, []));
  return { tensors, metadata: { format: "pt", [TREE_KEY]: tree } };
}

/** A number as the key of an object would move to the front. */
const isPlainKey = (key: Key): boolean => typeof key === "string" && !/^(\$|\d+$)/.test(key);

export function unflatten(tree: string, tensors: ReadonlyMap<string, TensorData>, path: string): Value {
  const wrong = (what: string) =>
    damagedCheckpoint(path, `its metadata "${TREE_KEY}" is not what hpctrain writes there: ${what}`);
  const list = (value: unknown): unknown[] => {
    if (Array.isArray(value)) return value;
    throw wrong("something else where a list should stand");
  };
  const decode = (value: unknown, depth: number): Value => {
    if (depth > MAX_DEPTH) throw wrong(`more than ${MAX_DEPTH} values inside each other`);
    const all = (items: unknown) => list(items).map((item) => decode(item, depth + 1));
    const pairs = (items: unknown) =>
      list(items).map((pair): [Key, Value] => {
        const [key, item] = all(pair);
        if (item === undefined || (typeof key === "object" && key !== null && !(key instanceof Tuple))) {
          throw wrong("a dict of something that is not pairs");
        }
        return [key as Key, item];
      });
    if (value === null || typeof value !== "object") return value as null | boolean | number | string;
    if (!isObject(value)) return all(value);
    const entries = Object.entries(value);
    const [[what, content] = ["", null]] = entries;
    if (!what.startsWith("$")) return new Map(entries.map(([key, item]) => [key, decode(item, depth + 1)]));
    if (what === "$tuple") return new Tuple(all(content));
    if (what === "$set") return new Set(all(content));
    if (what === "$ordered") return new OrderedDict(pairs(content));
    if (what === "$dict") return new Map(pairs(content));
    if (typeof content !== "string") throw wrong(`${what} of something that is not text`);
    return ofText(what, content) ?? decodeTensor(content);
  };
  const ofText = (what: string, text: string): Value | undefined => {
    if (what === "$tensor") return undefined;
    if (what === "$float" && /^(NaN|-?Infinity|-0)$/.test(text)) return Number(text);
    if (what === "$int" && /^-?\d{1,2500}$/.test(text)) return BigInt(text);
    if (what === "$bytes" && /^[A-Za-z0-9+/]*={0,2}$/.test(text) && text.length % 4 === 0) {
      return Uint8Array.fromBase64(text);
    }
    throw wrong(`${JSON.stringify(what.slice(0, 20))} of ${JSON.stringify(text.slice(0, 20))}`);
  };
  const decodeTensor = (name: string): TensorData => {
    const tensor = tensors.get(name);
    if (tensor) return tensor;
    throw wrong(`the tensor ${JSON.stringify(name.slice(0, 100))}, which is not in the file`);
  };
  let parsed: unknown;
  try {
    parsed = JSON.parse(tree);
  } catch {
    throw wrong("no JSON");
  }
  return decode(parsed, 0);
}

function parameterNames(root: Value): ReadonlyMap<Key, string> {
  const names = new Map<Key, string>();
  const groups = field(field(root, "optimizer_state_dict"), "param_groups");
  for (const group of Array.isArray(groups) ? groups : []) {
    const [numbers, given] = [field(group, "params"), field(group, "param_names")];
    if (!Array.isArray(numbers) || !Array.isArray(given)) continue;
    numbers.forEach((number, i) => typeof given[i] === "string" && names.set(number as Key, given[i]));
  }
  return names;
}

/** Names are model.NAME, optimizer.SLOT.NAME, ema.NAME; elsewhere the keys that lead to the tensor. */
function nameOf(keys: readonly Key[], names: ReadonlyMap<Key, string>): string {
  const [first, second, third, ...rest] = keys;
  if (first === "model_state_dict") return ["model", ...keys.slice(1)].join(".");
  if (first === "optimizer_state_dict" && second === "state" && rest.length === 1) {
    return `optimizer.${rest[0]}.${names.get(third) ?? third}`;
  }
  if (first === "hpctrain" && second === "ema_state_dict") return ["ema", ...keys.slice(2)].join(".");
  return keys.join(".") || "tensor";
}
