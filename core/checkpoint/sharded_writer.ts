// Writes a sharded checkpoint, links second names to one, and removes one. The checkpoint is what the index
// names, so it changes as a whole.
import { join } from "../../deps/path.ts";
import { BY_SAVE_DIR, remove, removeStale, temporaryFor, writeAll, writeAtomically } from "../base/atomic.ts";
import { damagedCheckpoint } from "../base/file_bytes.ts";
import { headerSum, NO_SUM, readSafetensors, sumOf, SUMS_KEY } from "./safetensors.ts";
import { writeSafetensors } from "./safetensors_writer.ts";
import { type Storage, type Sums, TensorData } from "./value.ts";
import { INDEX_FILE, indexOf, shardFilesOf, shardsInUse, shareOut } from "./sharded_reader.ts";
import { UserError } from "../base/errors.ts";
import { formatPlural } from "../base/format.ts";
import { errorOf, type Failure, failureOf } from "../base/failure.ts";

interface Shards {
  readonly folder: string;
  readonly world: number;
  /** It differs from that of the old checkpoint, which stays whole until the index names the new one. */
  readonly generation: string;
}

interface Content {
  readonly tensors: ReadonlyMap<string, TensorData>;
  readonly metadata: Readonly<Record<string, string>>;
  readonly rankOf?: (name: string) => number;
  readonly known?: Sums;
  /** It is given the index, when the shards are in their places. */
  readonly ready?: (temporary: string) => void;
}

/** Every rank knows all tensors, and has the bytes of its own. Returns the file's size. */
export function writeShard({ folder, world, generation }: Shards, rank: number, content: Content): number {
  const name = shardName(rank, world, generation);
  if (shardsInUse(folder).has(name)) {
    throw new Error(`internal: ${join(folder, name)} is in use by the checkpoint that is to be replaced`);
  }
  return writeSafetensors(join(folder, name), planShards(content.tensors, world, content.rankOf)[rank], {
    metadata: { format: "pt" },
    sums: true,
    verify: true,
    known: content.known,
    elsewhere: BY_SAVE_DIR,
  });
}

/**
 * Call it when all ranks have written. It checks the files, names them in the index and removes those that
 * the index no longer names.
 */
export function writeIndex({ folder, world, generation }: Shards, content: Content): number {
  const { tensors, metadata, rankOf, ready } = content;
  const path = join(folder, INDEX_FILE);
  const sums: Record<string, string> = {};
  const places: [string, string][] = [];
  let size = 0;
  planShards(tensors, world, rankOf).forEach((shard, rank) => {
    const name = shardName(rank, world, generation);
    using file = readSafetensors(join(folder, name));
    const missing = [...shard.keys()].find((tensor) => !file.tensors.has(tensor));
    if (missing !== undefined) throw damagedCheckpoint(file.path, `${JSON.stringify(missing)} is not in it`);
    sums[name] = headerSum(file.path, file.metadata) ?? NO_SUM;
    size += Deno.statSync(file.path).size;
    for (const tensor of shard.keys()) places.push([tensor, name]);
  });
  const total_size = tensors.values().reduce((sum, { byteLength }) => sum + byteLength, 0);
  const render = (sum: string) => {
    const all = { ...metadata, total_size, [SUMS_KEY]: sum, hpctrain_shards: sums };
    const index = { metadata: all, weight_map: Object.fromEntries(places) };
    return new TextEncoder().encode(JSON.stringify(index, null, 2) + "\n");
  };
  const bytes = render(sumOf(render(NO_SUM)));
  writeAtomically(path, (file) => writeAll(file, bytes), {
    needBytes: bytes.length,
    check: ready,
    elsewhere: BY_SAVE_DIR,
  });
  removeUnnamed(folder, new Set(Object.keys(sums)));
  return size + bytes.length;
}

/** The files of an unfinished save may be what fills the disk. One process calls it, before a save. */
function removeLeftovers({ folder, generation }: Shards): void {
  try {
    const index = indexOf(folder);
    removeUnnamed(folder, index === undefined ? new Set() : shardFilesOf(index), `-${generation}-`);
  } catch {
    // There is no folder yet, or its index can't be read now: its files stay until the next one is written.
  }
}

function removeUnnamed(folder: string, named: ReadonlySet<string>, kept?: string): void {
  for (const { name } of [...Deno.readDirSync(folder)]) {
    const shard = /^\.?model-.*\d{5}-of-\d{5}\.safetensors/.test(name) && !named.has(name);
    if (shard && !(kept && name.includes(kept))) remove(join(folder, name));
  }
}

export function writeAllShards(folder: string, world: number, content: Content): void {
  const generation = indexOf(folder) === undefined ? "" : crypto.randomUUID().slice(0, 8);
  const shards = { folder, world, generation };
  for (let rank = 0; rank < world; rank++) writeShard(shards, rank, content);
  writeIndex(shards, content);
}

// Each rank writes its part in its own thread. A file in place is a part that was read back; rank 0 waits for
// all of them, then writes the index.

export interface CheckpointPart {
  readonly rank: number;
  readonly world: number;
  /** It is the same on every rank, and in no other save. */
  readonly generation: string;
  readonly patience: number;
  /** It is set when ranks end: there is little more to wait for then. */
  readonly ending: SharedArrayBuffer;
}

/** It stands for the bytes of a tensor that another rank writes. */
export const ELSEWHERE: Storage = {
  byteLength: 0,
  read() {
    throw new Error("internal: another rank has the bytes of this tensor.");
  },
};

const POLL_MS = 50;

/** Parts that are nearly written when their ranks end get this long. */
const GRACE_MS = 5000;

/** So long a rank tries to say that its part failed. */
const WORD_MS = 10_000;

/** Returns the size of the file, or on rank 0 of all files. */
export function writePart(folder: string, part: CheckpointPart, content: Content): number {
  const shards = { folder, world: part.world, generation: part.generation };
  if (part.rank === 0) removeLeftovers(shards);
  const size = writeShard(shards, part.rank, content);
  if (part.rank > 0) return size;
  awaitParts(folder, part);
  return writeIndex(shards, content);
}

/**
 * Rank 0 would wait for the file otherwise. A disk that refused the part may refuse the word of it, too, and take it a moment
 * later.
 */
export function reportFailure(folder: string, part: CheckpointPart, error: unknown): void {
  if (part.rank === 0) return;
  const ending = new Int32Array(part.ending), began = performance.now();
  const path = join(folder, wordName(part.rank, part)), text = JSON.stringify(failureOf(error));
  while (!leaveWord(path, text)) {
    const ended = Atomics.load(ending, 0);
    if (performance.now() > began + (ended ? GRACE_MS : WORD_MS)) return; // rank 0 finds out by waiting
    Atomics.wait(ending, 0, ended, POLL_MS);
  }
}

function leaveWord(path: string, text: string): boolean {
  const temporary = `${path}.tmp`;
  try {
    Deno.writeTextFileSync(temporary, text);
    Deno.renameSync(temporary, path);
    return true;
  } catch {
    remove(temporary);
    try {
      Deno.createSync(path).close(); // A full disk still takes an empty file.
      return true;
    } catch {
      return false;
    }
  }
}

const wordName = (rank: number, { world, generation }: CheckpointPart): string =>
  `.${shardName(rank, world, generation)}.failed`;

function awaitParts(folder: string, part: CheckpointPart): void {
  const { world, generation, patience } = part;
  const ending = new Int32Array(part.ending);
  const missing = new Set(Array.from({ length: world - 1 }, (_, i) => i + 1));
  let until = performance.now() + 1000 * patience, ended = false;
  for (;;) {
    // All names are listed at once: a network's file system may cache that a single one was not there.
    const names = new Set([...Deno.readDirSync(folder)].map(({ name }) => name));
    for (const rank of missing) {
      if (names.has(shardName(rank, world, generation))) missing.delete(rank);
      else if (names.has(wordName(rank, part))) throw failureIn(folder, rank, part);
    }
    if (missing.size === 0) return;
    if (!ended && Atomics.load(ending, 0) === 1) {
      ended = true;
      until = Math.min(until, performance.now() + GRACE_MS);
    }
    if (performance.now() > until) throw missed(folder, [...missing], ended ? null : patience);
    Atomics.wait(ending, 0, ended ? 1 : 0, POLL_MS);
  }
}

function failureIn(folder: string, rank: number, part: CheckpointPart): Error {
  let failure: Failure;
  try {
    failure = JSON.parse(Deno.readTextFileSync(join(folder, wordName(rank, part))));
  } catch {
    const text = `its part could not be written to ${folder}, and why neither: is the disk full?`;
    failure = { kind: "checkpoint", text };
  }
  return errorOf({ ...failure, text: `Rank ${rank}: ${failure.text}` });
}

function missed(folder: string, ranks: readonly number[], patience: number | null): UserError {
  const [first, ...more] = ranks;
  const whose = `Rank ${first}'s part${more.length === 0 ? "" : ` and ${more.length} more`}`;
  return new UserError(
    "checkpoint",
    patience === null
      ? `${folder}: ${whose} did not come before the ranks ended. The checkpoint from before is untouched.`
      : `${folder}: ${whose} did not come within ${formatPlural(patience, "second")} (--timeout). ` +
        "The checkpoint from before is untouched. Is the file system slow, or not the same one on all nodes?",
  );
}

/**
 * Copies where links are not possible. `index` is a sharded checkpoint's index that may not be in its place
 * yet.
 */
export function linkOrCopy(from: string, to: string, index: string | undefined = indexOf(from)): void {
  if (index === undefined) return linkOrCopyFile(from, to);
  try {
    Deno.mkdirSync(to, { recursive: true });
  } catch {
    // The first copy reports what is wrong with the place.
  }
  const shards = shardFilesOf(index);
  for (const name of shards) linkOrCopyFile(join(from, name), join(to, name));
  linkOrCopyFile(index, join(to, INDEX_FILE));
  removeUnnamed(to, shards);
}

function linkOrCopyFile(from: string, to: string): void {
  const temporary = temporaryFor(to);
  try {
    removeStale(to);
    // A second name for a link would follow that link to every later checkpoint.
    Deno.linkSync(Deno.realPathSync(from), temporary);
    Deno.renameSync(temporary, to);
  } catch {
    remove(temporary);
    copy(from, to); // The file system has no hard links, or this is another disk. The copy reports any other fault.
  }
}

function copy(from: string, to: string): void {
  const chunk = new Uint8Array(1 << 20);
  writeAtomically(to, (file) => {
    using source = Deno.openSync(from);
    for (let got = source.readSync(chunk); got !== null; got = source.readSync(chunk)) {
      writeAll(file, chunk.subarray(0, got));
    }
  });
}

/**
 * The name is `model-00001-of-00004.safetensors`; a generation keeps a save apart from the one it replaces.
 */
function shardName(rank: number, world: number, generation: string): string {
  const [number, of] = [rank + 1, world].map((n) => String(n).padStart(5, "0"));
  return `model-${generation === "" ? "" : `${generation}-`}${number}-of-${of}.safetensors`;
}

/** Every rank gets the same plan. `rankOf` overrides it by name. */
export function planShards(
  tensors: ReadonlyMap<string, TensorData>,
  world: number,
  rankOf?: (name: string) => number,
): Map<string, TensorData>[] {
  const shards = Array.from({ length: world }, () => new Map<string, TensorData>());
  const shares = shareOut(tensors.values().map(({ byteLength }) => byteLength).toArray(), world);
  [...tensors].forEach(([name, tensor], i) => shards[rankOf?.(name) ?? shares[i]].set(name, tensor));
  return shards;
}
