// Which tensors go into which file of a checkpoint in several. Imports value.
import type { TensorData } from "../value.ts";

/** Stands beside the shards, named as Hugging Face's libraries look for it. */
export const INDEX = "model.safetensors.index.json";

/** `model-00001-of-00004.safetensors`; a generation keeps a save apart from the one whose place it takes. */
export function shardName(rank: number, world: number, generation: string): string {
  const [number, of] = [rank + 1, world].map((n) => String(n).padStart(5, "0"));
  return `model-${generation === "" ? "" : `${generation}-`}${number}-of-${of}.safetensors`;
}

/** For each of these sizes in bytes one of `world` files: consecutive ones, about as many bytes in each. */
export function shareOut(sizes: readonly number[], world: number): number[] {
  const total = sizes.reduce((sum, size) => sum + size, 0);
  let before = 0;
  return sizes.map((size) => {
    // By the middle of the tensor, so that a large one goes where most of it would.
    const share = total === 0 ? 0 : (before + size / 2) / total;
    before += size;
    return Math.min(world - 1, Math.floor(share * world));
  });
}

/** The tensors of each of `world` files, the same on every rank. `rankOf` tells it by name where that is decided. */
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
