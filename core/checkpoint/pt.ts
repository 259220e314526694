// Reads and writes PyTorch's .pt files: a zip of one pickle and the storages it names.
import { createHash } from "node:crypto";
import { writeAtomically } from "../base/atomic.ts";
import { damagedCheckpoint, FileBytes } from "../base/file_bytes.ts";
import { LEAST_MEMORY } from "./memory_cost.ts";
import { findTensors } from "./named_tensors.ts";
import { readPickle } from "./pickle_reader.ts";
import { writePickle } from "./pickle_writer.ts";
import {
  DTYPE_BYTES,
  memoryStorage,
  type Storage,
  STORAGE_DTYPES,
  TensorData,
  TorchName,
  type Value,
  type WriteOptions,
} from "./value.ts";
import { isZip, openZip, type ZipEntry, type ZipReader } from "../base/zip.ts";
import { WrittenFile, zipWriterTo } from "./zip_writer.ts";

/** A .pt file that is open for reading. */
export interface PtFile {
  /** As it was opened. */
  readonly path: string;
  /** Tensors in it are read on demand and compared with their checksums, so the file must stay open until then. */
  readonly root: Value;
  /** Compares every checksum in the file; a UserError names the first that is wrong. */
  verify(): void;
  /** Closes the file: tensors can't be read from here on. */
  close(): void;
  /** The same, at the end of a `using` block. */
  [Symbol.dispose](): void;
}

// This limits objects outside tensors; the largest honest ones are some megabytes.
const MAX_PICKLE_BYTES = 128 << 20;

const LEGACY_MAGIC = [0x80, 2, 0x8a, 0x0a, 0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19];

/** Opens a file that `torch.save` wrote; nothing in it is run. */
export function readPt(path: string): PtFile {
  const file = new FileBytes(path);
  try {
    refuseOtherFormats(file);
    const storages = new Map<ZipEntry, Storage>();
    let root: Value = null;
    const meaning = (entry: ZipEntry) => tensorIn(root, storages.get(entry), path);
    const zip = openZip(file, { meaning });
    root = readRoot(file, zip, storages);
    const close = () => file.close();
    const verify = () => {
      const sums = manifestIn(zip);
      zip.entries.forEach((entry) => zip.verify(entry, sums[entry.name]));
    };
    return { path, root, verify, close, [Symbol.dispose]: close };
  } catch (error) {
    file.close();
    throw error;
  }
}

/**
 * Writes `root` where `torch.load(weights_only=True)` reads it, and gives the size of the file. `verify` reads all of
 * it back before it takes its place.
 */
export function writePt(path: string, root: Value, options: WriteOptions = {}): number {
  return writePickled(path, writePickle(root), options);
}

interface Pickled {
  bytes: Uint8Array;
  storages: readonly Storage[];
}

export function writePickled(
  path: string,
  { bytes, storages }: Pickled,
  options: WriteOptions = {},
): number {
  const text = (content: string) => memoryStorage(new TextEncoder().encode(content));
  const least = storages.reduce((sum, storage) => sum + storage.byteLength, bytes.length);
  const needBytes = least + 256 * storages.length + 4096;
  let size = 0;
  writeAtomically(path, (file, temporary) => {
    using out = new WrittenFile(file);
    out.expect(temporary, least);
    const zip = zipWriterTo(out);
    const sums: [name: string, sum: () => string][] = [];
    const add = (name: string, content: Storage) => {
      const sum = options.known?.get(content);
      const known = sum ? { content, sum } : summed(content);
      zip.add(`archive/${name}`, known.content);
      sums.push([`archive/${name}`, known.sum]);
    };
    add("data.pkl", memoryStorage(bytes));
    add("byteorder", text("little"));
    storages.forEach((storage, i) => add(`data/${i}`, storage));
    add("version", text("3\n"));
    // Meanwhile the disk takes the data, and another thread makes sums.
    if (options.verify) out.readBack(path);
    const manifest = Object.fromEntries(sums.map(([name, sum]) => [name, sum()]));
    zip.add(`archive/${MANIFEST}`, text(JSON.stringify(manifest)));
    zip.finish();
    if (options.verify) out.readBack(path);
    size = out.at;
  }, {
    needBytes,
    elsewhere: options.elsewhere,
    check: (temporary) => {
      readPt(temporary).close();
      options.ready?.(temporary);
    },
  });
  return size;
}

/** The SHA-256 is known when all of the content was read, in order. */
function summed(content: Storage): { content: Storage; sum: () => string } {
  const hash = createHash("sha256");
  const read = (offset: number, length: number) => {
    const part = content.read(offset, length);
    hash.update(part);
    return part;
  };
  return { content: { byteLength: content.byteLength, read }, sum: () => hash.digest("hex") };
}

/** Our own files hold the SHA-256 of each entry before this one, as JSON. PyTorch ignores it. */
const MANIFEST = "hpctrain_sha256.json";

function manifestIn(zip: ZipReader): Record<string, string> {
  const manifest = [...zip.entries.values()].find(({ name, size }) =>
    name.endsWith(`/${MANIFEST}`) && size < MAX_PICKLE_BYTES
  );
  if (!manifest) return {};
  try {
    return JSON.parse(new TextDecoder().decode(zip.read(manifest)));
  } catch {
    return {}; // Its own checksum is compared like any other's, and shows the damage.
  }
}

function refuseOtherFormats(file: FileBytes): void {
  if (file.size === 0) throw damagedCheckpoint(file.path, "is empty: it was never written, or a copy failed");
  if (isZip(file)) return;
  const start = file.read(0, Math.min(file.size, 512));
  if (
    LEGACY_MAGIC.every((byte, i) => start[i] === byte) ||
    new TextDecoder().decode(start.subarray(257, 262)) === "ustar"
  ) {
    throw damagedCheckpoint(
      file.path,
      "is in the format that PyTorch wrote before 1.6; rewrite it once in Python: " +
        'import torch; torch.save(torch.load(path, map_location="cpu", weights_only=True), "new.pt")',
    );
  }
  throw damagedCheckpoint(
    file.path,
    "is not a PyTorch checkpoint: a .pt file is a zip, and this is not one (is it a cut-off download or another format?)",
  );
}

/** Names the first tensor in the storage. */
function tensorIn(root: Value, storage: Storage | undefined, path: string): string {
  return findTensors(root, path).find(({ tensor }) => tensor.storage === storage)?.name ?? "";
}

/** `known` gets the storages that tensors view. */
function readRoot(file: FileBytes, zip: ZipReader, known: Map<ZipEntry, Storage>): Value {
  const pickles = [...zip.entries.values()].filter(({ name }) => /^([^/]+\/)?data\.pkl$/.test(name));
  if (pickles.length !== 1) {
    throw damagedCheckpoint(
      file.path,
      `is a zip, but not one that torch.save wrote: it has ${pickles.length} data.pkl in it`,
    );
  }
  const [pickle] = pickles;
  const prefix = pickle.name.slice(0, -"data.pkl".length);
  if (zip.entries.has(`${prefix}constants.pkl`)) {
    throw damagedCheckpoint(
      file.path,
      "is a TorchScript program, not a checkpoint; save its weights in Python: torch.save(model.state_dict(), path)",
    );
  }
  const order = zip.entries.get(`${prefix}byteorder`);
  if (order && new TextDecoder().decode(zip.read(order)) !== "little") {
    throw damagedCheckpoint(file.path, "was written on a big-endian machine; rewrite it on this one");
  }
  refuseUnpacking(file, zip);
  if (pickle.size > MAX_PICKLE_BYTES) {
    throw damagedCheckpoint(
      file.path,
      `has ${pickle.size} bytes of Python objects outside its tensors, more than the ${MAX_PICKLE_BYTES} that hpctrain reads`,
    );
  }
  const refuse = (what: string): never => {
    throw damagedCheckpoint(file.path, what);
  };
  const memory = memoryFor(file.size, zip.entries.size);
  const storageOf = (key: string): Storage | undefined => {
    const entry = zip.entries.get(`${prefix}data/${key}`);
    if (!entry) return undefined;
    const content = zip.content(entry);
    known.set(entry, content);
    return content;
  };
  return readPickle(zip.read(pickle), { refuse, storage: storages(storageOf, refuse), memory }).value;
}

/** A compressed entry is unpacked as a whole. torch.save compresses nothing, and weights hardly shrink. */
function refuseUnpacking(file: FileBytes, zip: ZipReader): void {
  for (const { name, size, packedSize } of zip.entries.values()) {
    if (size <= Math.max(packedSize, file.size, LEAST_MEMORY)) continue;
    throw damagedCheckpoint(
      file.path,
      `its compressed entry ${
        JSON.stringify(name.slice(0, 100))
      } would take ${size} bytes of memory, and the file has ${file.size}; ` +
        "repack the zip without compression if that is right",
    );
  }
}

/** The persistent id is ("storage", class, key, device, count); the same key is the same storage. */
function storages(
  find: (key: string) => Storage | undefined,
  refuse: (what: string) => never,
): (id: Value[]) => TensorData {
  const known = new Map<string, Storage>();
  return ([tag, type, key, , numel]) => {
    const dtype = type instanceof TorchName ? STORAGE_DTYPES.get(type.name) : undefined;
    if (
      tag !== "storage" || !dtype || typeof key !== "string" || typeof numel !== "number" || !(numel >= 0)
    ) {
      return refuse("its pickle refers to something outside that is not a storage");
    }
    let storage = known.get(key);
    if (!storage) {
      storage = find(key);
      if (!storage) return refuse(`the data of storage ${JSON.stringify(key.slice(0, 100))} is missing`);
      known.set(key, storage);
    }
    const needed = numel * DTYPE_BYTES[dtype];
    if (storage.byteLength < needed) {
      return refuse(
        `storage ${JSON.stringify(key)} should have ${needed} bytes and has ${storage.byteLength}`,
      );
    }
    return new TensorData(dtype, [numel], storage);
  };
}

const TENSOR_MEMORY = 2048;

const MOST_FOR_TENSORS = 64 << 20;

/** A file with many small tensors may take more. */
function memoryFor(fileBytes: number, tensors: number): number {
  return Math.max(LEAST_MEMORY, 1.25 * fileBytes) + Math.min(TENSOR_MEMORY * tensors, MOST_FOR_TENSORS);
}
