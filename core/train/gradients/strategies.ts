// Chooses how gradients come about: on one rank, over all ranks while backward runs, in parts of the weights, or in shards
// whose sums are the same on any number of ranks.
import type { Account } from "../../run/account.ts";
import type { Built } from "../build.ts";
import type { CompiledPass } from "../compiled_pass.ts";
import type { Launch } from "../launch.ts";
import type { LossScaler } from "../precision.ts";
import { openReducer, overlappedGradients } from "./overlapped.ts";
import { type GradientStrategy, plainGradients } from "./strategy.ts";
import { openSyncNorms } from "./sync_norms.ts";
import { alone, combineOver, openVirtualShards, shardedGradients } from "./virtual_shards.ts";
import { partitionedGradients, type Zero } from "./zero.ts";

export const buffersOf = ({ root }: Built["model"]) => root.namedBuffers().map(([, t]) => t);

export function gradientsOf(
  { config, device, team = null }: Launch,
  { arena, model, pass }: Built,
  scaler: LossScaler | null,
  zero: Zero | null,
  account: Account,
  compiled: CompiledPass | null,
): GradientStrategy {
  const { training, distributed } = config;
  const options = { pass, arena, scaler, checkpointing: training.gradient_checkpointing, compiled };
  const norms = team && training.sync_bn ? openSyncNorms(config, model, team.collectives, device) : null;
  if (training.deterministic === "world") {
    const count = training.virtual_shards, { rank, world } = team ?? { rank: 0, world: 1 };
    const combine = team ? combineOver(team.collectives, count) : alone;
    const shards = openVirtualShards({ count, rank, world, combine }, arena, buffersOf(model));
    return shardedGradients(shards, options);
  }
  if (pass.seeds) pass.seeds.share = team?.rank ?? 0; // a rank's samples are its shard of the batch
  if (team === null) return plainGradients(options);
  const reducer = openReducer(arena, model, team.collectives, distributed.bucket_mb, {
    owned: zero?.owned,
    half: distributed.reduce === "bf16",
  });
  const overlapped = overlappedGradients(options, reducer, norms, account);
  return zero ? partitionedGradients(overlapped, zero) : overlapped;
}
