// How large the parts are that the feed reads ahead: one lane a source. May import its siblings.
import type { Config } from "../config/settings.ts";
import type { BatchPlan } from "./batch_math.ts";
import type { Built } from "./build.ts";

/** Rows of the samples that a part's first and last may be mixed with, read beside its own. */
const MATES = 2;

export function lanesOf({ data }: Built, { training }: Config, plan: BatchPlan, world: number) {
  const { micro, global } = plan;
  const size = training.eval_batch_size || training.batch_size;
  const shards = training.deterministic === "world" ? training.virtual_shards / world : 1;
  const largest = Math.ceil(global / world / shards); // samples of a shard
  const train = {
    source: data.train,
    rows: Math.min(micro, largest) + MATES,
    parts: Math.min(shards, global) * Math.ceil(largest / micro),
  };
  return data.val ? [train, { source: data.val, rows: size, parts: 1 }] : [train];
}
