// --sync-bn: batch norm over the samples of all ranks.
import { weightsDtype } from "../../settings/precision.ts";
import { zeros } from "../../../ffi/make.ts";
import { noGrad } from "../../../ffi/autograd.ts";
import { clone, copy_ } from "../../../ffi/ops.ts";
import { type Device, keep, type Tensor } from "../../../ffi/tensor.ts";
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
  /** Comes before each micro-batch, where some are compiled. */
  begin(): void;
  /**
   * The same micro-batch goes forward and backward once more: a compiled step is compared with an ordinary one. What ranks
   * told each other is remembered, since the others may not do so.
   */
  again(): void;
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
    (module?.modules() ?? []).filter((m) => m instanceof BatchNorm).filter((m) => !m.held).map((norm) =>
      norm.features
    )
  );
  if (channels.every((of) => of.length === 0)) return null;
  refuse(training);
  const leaves: Tensor[] = [];
  let at = 0, fresh = true, remembers = false;
  const ranks: NormRanks = {
    get fresh() {
      return fresh;
    },
    gather(own) {
      fresh = at === leaves.length;
      if (!fresh) return leaves[at++];
      const all = zeros([collectives.world, own.numel], own);
      collectives.wait(collectives.allGather(all, own, "batch norm"));
      if (remembers) at = leaves.push(keep(all));
      return all;
    },
    sum(t) {
      if (at < leaves.length) return void noGrad(() => copy_(t, leaves[at++]));
      collectives.wait(collectives.allReduce(t, "sum", "batch norm, backward"));
      if (remembers) at = leaves.push(keep(noGrad(() => clone(t))));
    },
  };
  synchronise(model.root, ranks);
  const blocks = channels.map((of) => withoutSamples(ranks, of, { dtype: weightsDtype(training), device }));
  const again = () => {
    at = 0;
  };
  return {
    begin() {
      remembers = true;
      for (const t of leaves.splice(0)) t.free();
      again();
    },
    again,
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
