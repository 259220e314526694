// Reads a checkpoint that is a folder of safetensors shards and an index, ours or Hugging Face's, and plans
// which tensors go into which shard.
import { allowOpenFiles } from "../../ffi/libc.ts";
import { OrderedDict, TensorData, type Value } from "./value.ts";
import { basename, dirname, join } from "../../deps/path.ts";
import { damagedCheckpoint, FileBytes } from "../base/file_bytes.ts";
import { costOfJson, LEAST_MEMORY } from "./memory_cost.ts";
import {
  headerSum,
  isObject,
  readSafetensors,
  type SafetensorsFile,
  SUMS_KEY,
  sumWithout,
  TREE_KEY,
  unflatten,
} from "./safetensors.ts";

/** Hugging Face's libraries look for this name. */
export const INDEX_FILE = "model.safetensors.index.json";

/** Gives each of these sizes in bytes one of `world` files: consecutive ones, about as many bytes in each. */
export function shareOut(sizes: readonly number[], world: number): number[] {
  const total = sizes.reduce((sum, size) => sum + size, 0);
  let before = 0;
  return sizes.map((size) => {
    // The middle of the tensor decides, so that a large one goes where most of it would.
    const share = total === 0 ? 0 : (before + size / 2) / total;
    before += size;
    return Math.min(world - 1, Math.floor(share * world));
  });
}

export function indexOf(path: string): string | undefined {
  if (basename(path).endsWith(".safetensors.index.json")) return path;
  try {
    const index = join(path, INDEX_FILE);
    return Deno.statSync(index).isFile ? index : undefined;
  } catch {
    return undefined;
  }
}

interface Index {
  readonly path: string;
  readonly files: ReadonlySet<string>;
  readonly placeOf: ReadonlyMap<string, string>;
  readonly metadata: Record<string, unknown>;
}

interface ShardedFile {
  readonly path: string;
  readonly root: Value;
  readonly metadata: Readonly<Record<string, string>>;
  readonly fileBytes: number;
  readonly hasSums: boolean;
  verify(): void;
  close(): void;
  [Symbol.dispose](): void;
}

/** A process has others open beside the parts of a checkpoint. */
const OTHER_FILES = 256;

export function readSharded(path: string, indexPath: string): ShardedFile {
  const index = readIndex(indexPath);
  const shards = new Map<string, SafetensorsFile>();
  allowOpenFiles(index.files.size + OTHER_FILES);
  const close = () => shards.forEach((shard) => shard.close());
  try {
    for (const name of index.files) shards.set(name, openShard(index, name));
    const tensors = new Map(
      [...index.placeOf].map(([name, file]) => [name, tensorIn(shards.get(file)!, name)] as const),
    );
    const tree = index.metadata[TREE_KEY];
    const root = typeof tree === "string" ? unflatten(tree, tensors, indexPath) : new OrderedDict(tensors);
    const metadata = Object.fromEntries(
      Object.entries(index.metadata).filter(([key]) => !OWN.has(key)).map((
        [key, value],
      ) => [key, String(value)]),
    );
    const fileBytes = [indexPath, ...shards.values().map((shard) => shard.path)]
      .reduce((sum, file) => sum + Deno.statSync(file).size, 0);
    const hasSums = shards.values().every((shard) => headerSum(shard.path, shard.metadata) !== undefined);
    if (hasSums && index.metadata[SUMS_KEY] === undefined) {
      throw damagedCheckpoint(
        indexPath,
        "its checksum is gone, and its files have theirs: it was damaged after it was written",
      );
    }
    const verify = () => shards.forEach((shard) => shard.verify());
    return { path, root, metadata, fileBytes, hasSums, verify, close, [Symbol.dispose]: close };
  } catch (error) {
    close();
    throw error;
  }
}

const OWN = new Set([TREE_KEY, SUMS_KEY, "hpctrain_shards", "total_size"]);

export function shardsInUse(folder: string): ReadonlySet<string> {
  const index = indexOf(folder);
  if (index === undefined) return new Set();
  try {
    return shardFilesOf(index);
  } catch {
    return new Set(); // A damaged index keeps nothing.
  }
}

export const shardFilesOf = (index: string): ReadonlySet<string> => readIndex(index).files;

function openShard({ path, metadata }: Index, name: string): SafetensorsFile {
  const shard = readSafetensors(join(dirname(path), name));
  const sums = metadata.hpctrain_shards;
  if (!isObject(sums) || headerSum(shard.path, shard.metadata) === sums[name]) return shard;
  shard.close();
  throw damagedCheckpoint(
    shard.path,
    `is not the file that ${path} was written for: they are of different saves`,
  );
}

function tensorIn(shard: SafetensorsFile, name: string): TensorData {
  const found = shard.tensors.get(name);
  if (found) return found;
  throw damagedCheckpoint(
    shard.path,
    `the index says that ${JSON.stringify(name.slice(0, 100))} is in it, and it is not`,
  );
}

function readIndex(path: string): Index {
  const file = new FileBytes(path);
  const wrong = (what: string) => damagedCheckpoint(path, `is not an index of safetensors files: ${what}`);
  try {
    if (file.size > LEAST_MEMORY * 8) throw wrong(`it has ${file.size} bytes`);
    const bytes = file.read(0, file.size);
    if (costOfJson(bytes) > Math.max(LEAST_MEMORY, 3 * file.size)) {
      throw wrong("it holds more values than one does");
    }
    const text = new TextDecoder().decode(bytes);
    const parsed = parse(text, wrong);
    const { metadata = {}, weight_map } = isObject(parsed) ? parsed : {};
    if (!isObject(metadata) || !isObject(weight_map)) throw wrong("it has no weight_map");
    const sum = metadata[SUMS_KEY];
    if (sum !== undefined && (typeof sum !== "string" || sumWithout(text, sum) !== sum)) {
      throw damagedCheckpoint(path, "its checksum is wrong: the file was damaged after it was written");
    }
    const placeOf = new Map(
      Object.entries(weight_map).map(([name, place]) => [name, fileName(place, wrong)]),
    );
    return { path, files: new Set(placeOf.values()), placeOf, metadata };
  } finally {
    file.close();
  }
}

function parse(text: string, wrong: (what: string) => Error): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw wrong("it is not JSON");
  }
}

/** The file must be in the index's own folder: an index is no way to read other files. */
function fileName(place: unknown, wrong: (what: string) => Error): string {
  if (typeof place === "string" && /^\w[\w.-]*\.safetensors$/.test(place)) return place;
  throw wrong(`${JSON.stringify(place)?.slice(0, 100)} is not the name of a safetensors file beside it`);
}
