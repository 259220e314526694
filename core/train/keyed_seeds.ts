// Random numbers inside the model (dropout) are a function of (seed, step, share, micro-batch, block): a resumed or
// recomputed block draws the same ones, and no generator state is ever saved. May import ffi, core/random, models.
import { manualSeed } from "../../ffi/random.ts";
import type { Model } from "../models/model.ts";
import { key } from "../random.ts";

/** @internal */
export interface KeyedSeeds {
  step: number;
  /** Which share of the global batch is under way: the number of its virtual shard, or of its rank where there are none. */
  share: number;
  /** The micro-batch of it. */
  micro: number;
  /** Before a block runs. */
  seed(block: number): void;
}

/**
 * Null for a model that draws nothing: no module with a share `p` to drop, no operation that draws. `unknown`: what its code
 * draws can't be told, so it is seeded: that costs a microsecond a block.
 */
export function keyedSeeds(model: Model, seed: number, unknown = false): KeyedSeeds | null {
  const dropped = model.root.modules().some((m) => "p" in m && (m.p as number) > 0);
  if (!dropped && !model.draws && !unknown) return null;
  return {
    step: 0,
    share: 0,
    micro: 0,
    seed(block) {
      manualSeed(key(seed, "dropout", this.step, this.share, this.micro, block));
    },
  };
}
