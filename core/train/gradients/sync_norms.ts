// --sync-bn: batch norm over the samples of all ranks.
import { zeros } from "../../../ffi/make.ts";
import type { Device } from "../../../ffi/tensor.ts";
import type { Config } from "../../settings/settings.ts";
import type { Collectives } from "../../ranks/collectives.ts";
import { UserError } from "../../base/errors.ts";
import type { Model } from "../../models/model.ts";
import { BatchNorm } from "../../models/nn/norms.ts";
import type { NormRanks } from "../../models/nn/forward_context.ts";
import { synchronise, withoutSamples } from "../../models/nn/sync_batch_norm.ts";
import type { BlockDone } from "../blocks.ts";

/** @internal */
export interface SyncNorms {
  /** This rank has no samples in the pass. */
  without(done: BlockDone | null): void;
}

/** Null for a model without batch norm. */
export function openSyncNorms(
  { training }: Config,
  model: Model,
  collectives: Collectives,
  device: Device,
): SyncNorms | null {
  const channels = model.blocks.map(({ module }) =>
    (module?.modules() ?? []).filter((m) => m instanceof BatchNorm).map((norm) => norm.features)
  );
  if (channels.every((of) => of.length === 0)) return null;
  refuse(training);
  const ranks: NormRanks = {
    gather(own) {
      const all = zeros([collectives.world, own.numel], { device });
      collectives.wait(collectives.allGather(all, own, "batch norm"));
      return all;
    },
    sum: (t) => collectives.wait(collectives.allReduce(t, "sum", "batch norm, backward")),
  };
  synchronise(model.root, ranks);
  const blocks = channels.map((of) => withoutSamples(ranks, of, device));
  return {
    without(done) {
      for (const block of blocks) block.forward();
      for (let i = blocks.length - 1; i >= 0; i--) {
        blocks[i].backward();
        done?.(i);
      }
    },
  };
}

function refuse({ deterministic, gradient_checkpointing }: Config["training"]): void {
  const other = deterministic === "world"
    ? "--deterministic=world, which normalises each virtual shard by itself"
    : gradient_checkpointing
    ? "--gradient-checkpointing, which goes through a block twice"
    : null;
  if (other === null) return;
  throw new UserError("usage", `--sync-bn does not go together with ${other}: leave one of them out.`);
}
