// Safetensors files: a JSON header and the tensors' bytes. Imports the formats of this folder.
import { writeAll, writeAtomically } from "./atomic.ts";
import { damaged, FileBytes } from "./file_bytes.ts";
import { tensorBytes } from "./tensor_bytes.ts";
import { type DType, DTYPE_BYTES, OrderedDict, TensorData } from "./value.ts";

export interface SafetensorsFile {
  readonly path: string;
  /** Names to tensors. Their bytes are read when asked for, so the file must stay open until then. */
  readonly root: OrderedDict;
  readonly metadata: Readonly<Record<string, string>>;
  close(): void;
  [Symbol.dispose](): void;
}

/** The format's names, from the last to the first in the order in which the reference lays tensors out. */
const NAMES: [string, DType][] = [
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
const DTYPES: ReadonlyMap<string, DType> = new Map(NAMES);
const RANK: ReadonlyMap<DType, number> = new Map(NAMES.map(([, dtype], i) => [dtype, i]));

// The reference implementation's own limit.
const MAX_HEADER_BYTES = 100_000_000;

/** Whether it begins like one: a header length that fits, then JSON. */
export function isSafetensors(file: FileBytes): boolean {
  if (file.size < 10) return false;
  const start = file.read(0, 9);
  return headerBytes(start) <= Math.min(file.size - 8, MAX_HEADER_BYTES) && start[8] === 0x7b;
}

export function readSafetensors(path: string): SafetensorsFile {
  const file = new FileBytes(path);
  try {
    const header = readHeader(file);
    const root = new OrderedDict();
    let metadata: Record<string, string> = {};
    const placed: { name: string; from: number; to: number }[] = [];
    for (const [name, entry] of Object.entries(header.entries)) {
      if (name === "__metadata__") {
        metadata = readMetadata(file, entry);
        continue;
      }
      const { tensor, from, to } = readEntry(file, name, entry, header.dataAt);
      root.set(name, tensor);
      placed.push({ name, from, to });
    }
    refuseGaps(file, placed, header.dataAt);
    const close = () => file.close();
    return { path, root, metadata, close, [Symbol.dispose]: close };
  } catch (error) {
    file.close();
    throw error;
  }
}

/** Sorted, aligned and spelled as the reference implementation does it. */
export function writeSafetensors(
  path: string,
  tensors: ReadonlyMap<string, TensorData>,
  metadata: Record<string, string> = {},
): void {
  const ranked = [...tensors].map(([name, tensor]) => ({ name, tensor, rank: rank(path, name, tensor) }));
  const sorted = ranked.sort((a, b) => a.rank - b.rank || (a.name < b.name ? -1 : 1));
  let at = 0;
  const entries: [string, unknown][] = sorted.map(({ name, rank, tensor: { shape, byteLength } }) => [
    name,
    { dtype: NAMES[rank][0], shape, data_offsets: [at, at += byteLength] },
  ]);
  if (Object.keys(metadata).length > 0) entries.unshift(["__metadata__", metadata]);
  // Not via an object: that would move names such as "0" to the front.
  const json = `{${
    entries.map(([name, entry]) => `${JSON.stringify(name)}:${JSON.stringify(entry)}`).join()
  }}`;
  const text = new TextEncoder().encode(json);
  const header = new Uint8Array(8 + Math.ceil(text.length / 8) * 8).fill(0x20);
  new DataView(header.buffer).setBigUint64(0, BigInt(header.length - 8), true);
  header.set(text, 8);
  writeAtomically(path, (file) => {
    writeAll(file, header);
    for (const { tensor } of sorted) writeAll(file, tensorBytes(tensor));
  }, { needBytes: header.length + at, check: (temporary) => readSafetensors(temporary).close() });
}

function rank(path: string, name: string, { dtype }: TensorData): number {
  const found = RANK.get(dtype);
  if (found === undefined) {
    throw damaged(
      path,
      `the safetensors format has no type for ${name}, which is ${dtype}; write a .pt file instead`,
    );
  }
  return found;
}

function headerBytes(start: Uint8Array): number {
  return Number(new DataView(start.buffer, start.byteOffset).getBigUint64(0, true));
}

function readHeader(file: FileBytes): { entries: Record<string, unknown>; dataAt: number } {
  if (file.size < 8) throw damaged(file.path, `is ${file.size} bytes long, too short for a safetensors file`);
  const length = headerBytes(file.read(0, 8));
  if (length > MAX_HEADER_BYTES) {
    throw damaged(file.path, `is not a safetensors file: its header would be ${length} bytes long`);
  }
  if (8 + length > file.size) {
    throw damaged(
      file.path,
      `is truncated: its header alone has ${length} bytes, and the file ends at ${file.size}`,
    );
  }
  const text = new TextDecoder().decode(file.read(8, length));
  let entries: unknown;
  try {
    entries = JSON.parse(text);
  } catch {
    throw damaged(file.path, "is not a safetensors file: its header is not JSON");
  }
  if (!isObject(entries)) {
    throw damaged(file.path, "is not a safetensors file: its header is not a JSON object");
  }
  const twice = repeatedKey(text);
  if (twice !== undefined) throw damaged(file.path, `names the tensor ${twice} twice in its header`);
  return { entries, dataAt: 8 + length };
}

/** JSON.parse keeps the last of two equal keys; which tensor was meant is not for us to guess. */
function repeatedKey(json: string): string | undefined {
  const seen = new Set<string>();
  let depth = 0;
  for (let at = 0; at < json.length; at++) {
    const char = json[at];
    if (char === "{" || char === "[") depth++;
    else if (char === "}" || char === "]") depth--;
    if (char !== '"') continue;
    const from = at;
    // Valid JSON by now, so the string ends.
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
  throw damaged(file.path, "has a __metadata__ that is not text by text");
}

function readEntry(file: FileBytes, name: string, entry: unknown, dataAt: number) {
  const shown = JSON.stringify(name);
  const { dtype: type, shape, data_offsets: offsets } = isObject(entry) ? entry : {};
  if (typeof type !== "string" || !isCounts(shape) || !isCounts(offsets) || offsets.length !== 2) {
    throw damaged(file.path, `the header's entry for ${shown} is not a type, a shape and two offsets`);
  }
  const dtype = DTYPES.get(type);
  if (!dtype) {
    throw damaged(
      file.path,
      `${shown} is of the type ${JSON.stringify(type)}, which hpctrain can't read; it reads ${
        [...DTYPES.keys()].join(", ")
      }`,
    );
  }
  const [from, to] = offsets;
  const bytes = shape.reduce((product, size) => product * size, DTYPE_BYTES[dtype]);
  if (to - from !== bytes) {
    throw damaged(
      file.path,
      `${shown} is ${type} [${shape}], ${bytes} bytes, but ${to - from} are set aside for it`,
    );
  }
  if (dataAt + to > file.size) {
    throw damaged(
      file.path,
      `is truncated: ${shown} ends at byte ${dataAt + to}, and the file at ${file.size}`,
    );
  }
  const read = (offset: number, length: number) => file.read(dataAt + from + offset, length);
  return { tensor: new TensorData(dtype, shape, { byteLength: bytes, read }), from, to };
}

/** Every byte of data belongs to exactly one tensor, so that nothing can hide in a gap. */
function refuseGaps(
  file: FileBytes,
  placed: { name: string; from: number; to: number }[],
  dataAt: number,
): void {
  let at = 0;
  for (const { name, from, to } of placed.sort((a, b) => a.from - b.from || a.to - b.to)) {
    if (from !== at) {
      throw damaged(
        file.path,
        `${
          JSON.stringify(name)
        } begins at ${from}, but the tensor before it ends at ${at}: the header is corrupt`,
      );
    }
    at = to;
  }
  if (dataAt + at !== file.size) {
    throw damaged(file.path, `has ${file.size - dataAt - at} bytes after its last tensor`);
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isCounts(value: unknown): value is number[] {
  return Array.isArray(value) && value.length <= 64 &&
    value.every((item) => Number.isSafeInteger(item) && item >= 0);
}
