// Writes safetensors files: named tensors, or a whole checkpoint.
import { createHash } from "node:crypto";
import { writeAtomically } from "../base/atomic.ts";
import { damagedCheckpoint } from "../base/file_bytes.ts";
import { flattenTree, NAMES, NO_SUM, readSafetensors, sumOf, SUMS_KEY } from "./safetensors.ts";
import {
  isContiguous,
  type StoredDType,
  type Sums,
  tensorBytes,
  TensorData,
  type Value,
  type WriteOptions,
} from "./value.ts";
import { WrittenFile } from "./zip_writer.ts";
import { CHUNK_BYTES } from "../base/zip.ts";

const RANK: ReadonlyMap<StoredDType, number> = new Map(NAMES.map(([, dtype], i) => [dtype, i]));

interface Placed {
  readonly name: string;
  readonly tensor: TensorData;
  readonly rank: number;
}

interface Options extends WriteOptions {
  metadata?: Readonly<Record<string, string>>;
  /** The metadata carries the SHA-256 of each tensor and of the header. */
  sums?: boolean;
}

/** The file is sorted, aligned and spelled as the reference implementation does it. Returns its size. */
export function writeSafetensors(
  path: string,
  tensors: ReadonlyMap<string, TensorData>,
  { metadata = {}, sums = false, verify = false, known, ready, elsewhere }: Options = {},
): number {
  const placed: Placed[] = [...tensors].map(([name, tensor]) => ({
    name,
    tensor,
    rank: rank(path, name, tensor),
  }));
  placed.sort((a, b) => a.rank - b.rank || (a.name < b.name ? -1 : 1));
  const made: Record<string, string> = Object.create(null);
  const header = (own: string) => {
    const all = Object.fromEntries(placed.map(({ name }) => [name, made[name] ?? NO_SUM]));
    const text = JSON.stringify({ header: own, tensors: all });
    return headerOf(placed, sums ? { ...metadata, [SUMS_KEY]: text } : metadata);
  };
  const first = header(NO_SUM);
  const size = placed.reduce((sum, { tensor }) => sum + tensor.byteLength, first.length);
  writeAtomically(path, (file, temporary) => {
    using out = new WrittenFile(file);
    out.expect(temporary, size);
    out.begin("the header");
    out.put(first);
    const waits = placed.map(({ name, tensor }) => {
      out.begin(JSON.stringify(name));
      return [name, writeTensor(out, tensor, sums, known)] as const;
    });
    if (verify) out.readBack(path);
    if (!sums) return;
    // The sums stand before the data and are known after it; their place has the same length.
    for (const [name, sum] of waits) made[name] = sum();
    out.replace(0, header(sumOf(header(NO_SUM).subarray(8))));
    if (verify) out.readBack(path);
  }, {
    needBytes: size,
    elsewhere,
    check: (temporary) => {
      readSafetensors(temporary).close();
      ready?.(temporary);
    },
  });
  return size;
}

function writeTensor(out: WrittenFile, tensor: TensorData, sum: boolean, known?: Sums): () => string {
  const { storage, byteLength } = tensor;
  const whole = byteLength === storage.byteLength && isContiguous(tensor);
  const sumElsewhere = whole ? known?.get(storage) : undefined;
  const hash = sum && !sumElsewhere ? createHash("sha256") : null;
  const bytes = tensorBytes(tensor);
  for (let at = 0; at < bytes.length; at += CHUNK_BYTES) {
    const chunk = bytes.subarray(at, at + CHUNK_BYTES);
    hash?.update(chunk);
    out.put(chunk);
  }
  return sumElsewhere ?? (() => hash!.digest("hex"));
}

function headerOf(placed: readonly Placed[], metadata: Readonly<Record<string, string>>): Uint8Array {
  let at = 0;
  const entries: [string, unknown][] = placed.map(({ name, rank, tensor: { shape, byteLength } }) => [
    name,
    { dtype: NAMES[rank][0], shape, data_offsets: [at, at += byteLength] },
  ]);
  if (Object.keys(metadata).length > 0) entries.unshift(["__metadata__", metadata]);
  // An object would move names such as "0" to the front.
  const json = `{${
    entries.map(([name, entry]) => `${JSON.stringify(name)}:${JSON.stringify(entry)}`).join()
  }}`;
  const text = new TextEncoder().encode(json);
  const header = new Uint8Array(8 + Math.ceil(text.length / 8) * 8).fill(0x20);
  new DataView(header.buffer).setBigUint64(0, BigInt(header.length - 8), true);
  header.set(text, 8);
  return header;
}

function rank(path: string, name: string, { dtype }: TensorData): number {
  const found = RANK.get(dtype);
  if (found !== undefined && name !== "__metadata__") return found;
  throw damagedCheckpoint(
    path,
    found === undefined
      ? `the safetensors format has no type for ${name}, which is ${dtype}; write a .pt file instead`
      : `a tensor can't be named ${name} in the safetensors format; write a .pt file instead`,
  );
}

/** Stock readers find the weights as model.NAME. Returns the size of the file. */
export function writeWhole(path: string, root: Value, options: WriteOptions = {}): number {
  const { tensors, metadata } = flattenTree(root, path);
  return writeSafetensors(path, tensors, { ...options, metadata, sums: true });
}
