// Writes a checkpoint as a folder of safetensors files and an index: each rank its own file, then one of them the index.
// What the index names is the checkpoint, so it changes as a whole. Imports the formats of checkpoint/, its siblings.
import { join } from "../../../deps/path.ts";
import { remove, writeAll, writeAtomically } from "../atomic.ts";
import { damaged } from "../file_bytes.ts";
import { readSafetensors } from "../safetensors.ts";
import { headerSum, NO_SUM, sumOf, SUMS_KEY } from "../safetensors_sums.ts";
import { writeSafetensors } from "../safetensors_writer.ts";
import type { TensorData } from "../value.ts";
import type { Sums } from "../write_options.ts";
import { INDEX, planShards, shardName } from "./plan.ts";
import { filesOf, indexOf, shardsInUse } from "./read.ts";

export interface Shards {
  readonly folder: string;
  readonly world: number;
  /** Differs from that of the checkpoint that is there, which stays whole until the index names the new one. */
  readonly generation: string;
}

/** What is written: tensors by name, and text beside them. */
export interface Content {
  readonly tensors: ReadonlyMap<string, TensorData>;
  readonly metadata: Readonly<Record<string, string>>;
  /** Whose file a tensor goes into, where that is not `planShards`'s to choose. */
  readonly rankOf?: (name: string) => number;
  /** See WriteOptions. */
  readonly known?: Sums;
  /** See WriteOptions; here it is the index, whose files are in their places. */
  readonly ready?: (temporary: string) => void;
}

/** The file of one rank; gives its size. Every rank knows of all tensors, and has the bytes of those in its file. */
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
  });
}

/**
 * When all ranks have written: what is there is looked at, then named by the index, and what it no longer names goes.
 * Gives the size of all files.
 */
export function writeIndex({ folder, world, generation }: Shards, content: Content): number {
  const { tensors, metadata, rankOf, ready } = content;
  const path = join(folder, INDEX);
  const sums: Record<string, string> = {};
  const places: [string, string][] = [];
  let size = 0;
  planShards(tensors, world, rankOf).forEach((shard, rank) => {
    const name = shardName(rank, world, generation);
    using file = readSafetensors(join(folder, name));
    const missing = [...shard.keys()].find((tensor) => !file.root.has(tensor));
    if (missing !== undefined) throw damaged(file.path, `${JSON.stringify(missing)} is not in it`);
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
  writeAtomically(path, (file) => writeAll(file, bytes), { needBytes: bytes.length, check: ready });
  removeUnnamed(folder, new Set(Object.keys(sums)));
  return size + bytes.length;
}

/** What a save that nobody finished has left: it may be what fills the disk. One process at a time, at a save's begin. */
export function removeLeftovers({ folder, generation }: Shards): void {
  try {
    const index = indexOf(folder);
    removeUnnamed(folder, index === undefined ? new Set() : filesOf(index), `-${generation}-`);
  } catch {
    // No folder yet, or an index that can't be read just now: what is there stays until the next one is written.
  }
}

/** Shards that the index does not name. */
export function removeUnnamed(folder: string, named: ReadonlySet<string>, kept?: string): void {
  for (const { name } of [...Deno.readDirSync(folder)]) {
    const shard = /^\.?model-.*\d{5}-of-\d{5}\.safetensors/.test(name) && !named.has(name);
    if (shard && !(kept && name.includes(kept))) remove(join(folder, name));
  }
}
