// Opens what takes gradients to weights: the optimizer, compiled or shared out over the ranks, the scaler of fp16 and the
// averages of weights. A checkpoint has the state of all of it.
import { openReducer, overlappedGradients } from "./gradients/overlapped.ts";
import { openSyncNorms } from "./gradients/sync_norms.ts";
import { type GradientStrategy, plainGradients } from "./gradients/strategy.ts";
import { alone, combineOver, openVirtualShards, shardedGradients } from "./gradients/virtual_shards.ts";
import { openZero, partitionedGradients } from "./gradients/zero.ts";
import { clone, reshape } from "../../ffi/ops.ts";
import type { Device, Tensor } from "../../ffi/tensor.ts";
import type { Collectives } from "../ranks/collectives.ts";
import type { StateParts } from "../checkpoint/training_state.ts";
import type { Account } from "../run/account.ts";
import type { Config } from "../settings/settings.ts";
import type { Built } from "./build.ts";
import { batchesInAll, type BatchPlan } from "./batches.ts";
import { choiceFor, evaluatesCompiled, keepsNothing, whyNotCompiled } from "./compiled_choice.ts";
import type { Launch } from "./launch.ts";
import type { Compiler, Mode, Reports } from "./compiler.ts";
import { createEma, createWeightAverage, type WeightAverage } from "./weight_average.ts";
import type { Ema } from "./optimizers/optimizer.ts";
import { optimizerFor } from "./parameter_groups.ts";
import { LossScaler } from "./precision.ts";
import type { Course } from "./schedules/course.ts";

export type WeightUpdate = ReturnType<typeof openWeightUpdate>;

export function openWeightUpdate(
  { config, device, team = null }: Launch,
  built: Built & { readonly plan: BatchPlan; readonly schedule: Pick<Course, "moves"> },
  reports: Reports,
  /** Null where steps are not to be compiled, or can't be. */
  given: Compiler | null,
  mode: Mode | null,
) {
  const { training, distributed } = config,
    { arena, model, pass, amp, trained, plan, schedule: { moves } } = built;
  const uncompiled = mode && whyNotCompiled(built, given, mode, config, team !== null);
  const compiler = uncompiled === null ? given : null, fast = mode === "fast" ? compiler : null;
  const update = moves === null ? fast : null, opByOp: string[] = [];
  let opened = false;
  const refused = (why: string) => {
    const line = `The update of ${training.optimizer.type} runs op by op: ${why}.`;
    if (opened) reports.line(line);
    else opByOp.push(line);
  };
  const zero = team && distributed.zero > 0
    ? openZero(config, arena, model, team, update, trained.grouping, refused)
    : null;
  const ordinary = zero?.optimizer ?? optimizerFor(training.optimizer, arena, trained.grouping, model.root);
  const batches = batchesInAll(training, plan);
  const choice = compiler && !pass.onGpu
    ? choiceFor(training, mode!, { alone: team === null, batches }, reports.line)
    : null;
  const optimizer = update && zero === null
    ? update.update(ordinary, training.optimizer, arena, choice ?? undefined, refused)
    : compiler && mode === "exact" && moves === null && zero === null
    ? compiler.exactUpdate(ordinary, training.optimizer, arena)
    : ordinary;
  if (fast && zero === null && optimizer === ordinary && opByOp.length === 0) {
    refused(moves !== null ? "the schedule moves its momentum or weight decay" : NOT_COMPILED);
  }
  opened = true;
  const scaler = amp === "fp16" ? scalerOf(config, device) : null;
  const swa = training.swa_start > 0 ? createWeightAverage(arena, model.root, training.swa_start) : null;
  const ema = ordinary.averages ?? (training.ema > 0 ? createEma(arena, training.ema) : swa);
  return {
    ...{ mode, compiler, choice, zero, optimizer, scaler, ema, swa },
    evaluation: compiler !== null && evaluatesCompiled(pass, config) ? compiler.openEvaluation(arena) : null,
    parts: partsOf(built, { optimizer, scaler, ema, swa }),
    /** Lines that are known before the first step. */
    compiling: [
      ...opByOp,
      ...(uncompiled ? [`Steps are not compiled: ${uncompiled}.`] : []),
    ],
  };
}

const NOT_COMPILED =
  "only those of adamw, adam and sgd are compiled, without amsgrad, maximize, dampening and fused=false, and on a CPU your own " +
  "with perElement: true";

export const buffersOf = ({ root }: Built["model"]) => root.namedBuffers().map(([, t]) => t);

/** How a step's gradients come about: on one rank, over all ranks while backward runs, in parts of the weights, or in shards whose
 * sums are the same on any number of ranks; compiled but for what the run has `refused`. */
export function openGradients(
  { config, device, team = null }: Launch,
  { arena, model, pass }: Built,
  { compiler, mode, choice, scaler, zero }: WeightUpdate,
  account: Account,
  reports: Reports,
  refused: Set<string>,
): GradientStrategy {
  const { training, distributed } = config;
  // Where nobody has asked for compiled steps, it is no warning that there are none.
  const told = training.compile === "auto" && !pass.onGpu ? { ...reports, warn: reports.line } : reports;
  const compiled = compiler &&
    compiler.openPass(arena, mode!, () => told, choice, keepsNothing(config), refused);
  const norm = compiler && compiler.norm(arena);
  const options = { pass, arena, scaler, checkpointing: training.gradient_checkpointing, compiled, norm };
  const norms = team && training.sync_bn ? openSyncNorms(config, model, team.collectives, device) : null;
  if (training.deterministic === "world") {
    const count = training.virtual_shards, { rank, world } = team ?? { rank: 0, world: 1 };
    const combine = team ? combineOver(team.collectives, count) : alone;
    const shards = openVirtualShards({ count, rank, world, combine }, arena, buffersOf(model));
    const sharded = shardedGradients(shards, options);
    return team ? { ...sharded, ofFirst: ofFirst(team.collectives) } : sharded;
  }
  if (pass.seeds) pass.seeds.share = team?.rank ?? 0; // a rank's samples are its shard of the batch
  if (team === null) return plainGradients(options);
  const reducer = openReducer(arena, model, team.collectives, distributed.bucket_mb, {
    owned: zero?.owned,
    half: distributed.reduce === "bf16",
  });
  const overlapped = {
    ...overlappedGradients(options, reducer, norms, account),
    ofFirst: ofFirst(team.collectives),
  };
  return zero ? partitionedGradients(overlapped, zero) : overlapped;
}

/** Processors differ in the last bits of sums: what ranks decide by is one rank's. */
const ofFirst = (collectives: Collectives) => (number: Tensor): Tensor => {
  const own = reshape(clone(number), [1]);
  collectives.wait(collectives.broadcast(own, 0, "what the update goes by"));
  return own;
};

/** A checkpoint saves and loads these. */
function partsOf(
  { arena, model }: Built,
  { optimizer, scaler, ema, swa }: Pick<StateParts, "optimizer" | "scaler"> & {
    readonly ema: Pick<Ema, "average"> | null;
    readonly swa: WeightAverage | null;
  },
): StateParts {
  const averages = ema && arena.viewsOf(ema.average);
  return {
    names: arena.names,
    stateDict: model.root.stateDict(),
    ...{ optimizer, scaler, swa },
    ema: averages && [
      ...arena.names.map((name, i) => [name, averages[i]] as const),
      ...(swa?.statistics ?? []),
    ],
  };
}

export const scalerOf = ({ training }: Config, device: Device) =>
  new LossScaler({
    init: training.loss_scale_init,
    growthInterval: training.loss_scale_growth_interval,
    min: training.loss_scale_min,
    maxSkipped: training.max_skipped_steps,
  }, device);
