// A checkpoint in several files, all written by this process. Imports its siblings.
import { type Content, writeIndex, writeShard } from "./write.ts";
import { indexOf } from "./read.ts";

/** Replaces the checkpoint that is in the folder, if one is, when the new one is complete. */
export function writeAllShards(folder: string, world: number, content: Content): void {
  // Plain names where nothing is in their place.
  const generation = indexOf(folder) === undefined ? "" : crypto.randomUUID().slice(0, 8);
  const shards = { folder, world, generation };
  for (let rank = 0; rank < world; rank++) writeShard(shards, rank, content);
  writeIndex(shards, content);
}
