// Data for hpctrain. Train with it: hpctrain --data FILE
// Types are for your editor and are erased: hpctrain types > hpctrain.d.ts writes those of the import below.
import type { DataLibrary, MadeData, Samples } from "./hpctrain.d.ts";

// Called once on every rank, and once in each of its threads that read data (--num-workers): it gives the same each time.
// `settings` has data_path (--data-path), train_samples and val_samples; what is drawn from
// `seed` is the same on every rank. Files are read with Deno.readFileSync.
export default function ({ tensor, settings, seed }: DataLibrary): MadeData {
  // Here: points of a circle's inside, and whether they are nearer to its centre than half of its radius.
  const samples = (count: number, first: number): Samples => {
    const input = new Float32Array(2 * count), target = new BigInt64Array(count);
    for (let i = 0; i < count; i++) {
      const [x, y] = [random(seed, 2 * (first + i)), random(seed, 2 * (first + i) + 1)];
      input.set([x, y], 2 * i);
      target[i] = Math.hypot(x, y) < 0.5 ? 1n : 0n;
    }
    return { input: tensor(input, [count, 2]), target: tensor(target) };
  };
  return {
    task: "classification", // or regression, language, segmentation
    outputs: 2, // classes; numbers to predict; tokens there are
    train: samples(settings.train_samples, 0),
    val: samples(settings.val_samples, settings.train_samples),
    // Samples that don't fit into memory are read as they are asked for:
    // train: { length: 1_000_000, batch: (ids, epoch) => ({ input: ..., target: ... }) }, with one row for each id. Threads
    // do that, each with its own copy of this file's variables: rows depend on ids, epoch and seed alone.
  };
}

/** The k-th number of a sequence that the seed chooses, between -1 and 1. */
function random(seed: number, k: number): number {
  let h = Math.imul(seed ^ Math.imul(k + 1, 0x9e3779b1), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return ((h ^ (h >>> 16)) >>> 0) / 2 ** 31 - 1;
}
