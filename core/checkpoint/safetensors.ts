// Reads safetensors files: a JSON header and the tensors' bytes. Imports file_bytes, json_cost, safetensors_names, value.
import { damaged, FileBytes } from "./file_bytes.ts";
import { costOfJson } from "./json_cost.ts";
import { LEAST_MEMORY } from "./pickle_cost.ts";
import { DTYPES, isObject, MAX_HEADER_BYTES } from "./safetensors_names.ts";
import { verifySums } from "./safetensors_sums.ts";
import { DTYPE_BYTES, OrderedDict, TensorData } from "./value.ts";

export interface SafetensorsFile {
  readonly path: string;
  /** Names to tensors. Their bytes are read when asked for, so the file must stay open until then. */
  readonly root: OrderedDict;
  readonly metadata: Readonly<Record<string, string>>;
  /** Compares the SHA-256 of the header and of each tensor, in files that carry them. */
  verify(): void;
  close(): void;
  [Symbol.dispose](): void;
}

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
    const verify = () => verifySums(file, header.dataAt, metadata, root as Map<string, TensorData>);
    return { path, root, metadata, verify, close, [Symbol.dispose]: close };
  } catch (error) {
    file.close();
    throw error;
  }
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
  const bytes = file.read(8, length);
  if (costOfJson(bytes) > Math.max(LEAST_MEMORY, 1.25 * file.size)) {
    throw damaged(
      file.path,
      `its header of ${length} bytes holds more single values than hpctrain will read`,
    );
  }
  const text = new TextDecoder().decode(bytes);
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

function isCounts(value: unknown): value is number[] {
  return Array.isArray(value) && value.length <= 64 &&
    value.every((item) => Number.isSafeInteger(item) && item >= 0);
}
