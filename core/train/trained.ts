// What is trained, and by what: model, data, batches, schedule, optimizer, and all of it that a checkpoint holds.
// May import ffi, checkpoint (types), its siblings.
import type { Device, Tensor } from "../../ffi/tensor.ts";
import type { Parts } from "../checkpoint/training_state.ts";
import type { Config } from "../config/settings.ts";
import type { Team } from "../dist/team.ts";
import { type BatchPlan, planBatches } from "./batch_math.ts";
import { build, type Built } from "./build.ts";
import { createEma, type Ema } from "./ema.ts";
import { checkMemory } from "./memory_need.ts";
import { precisionNote, shardsNote } from "./notes.ts";
import { createOptimizer, type Optimizer } from "./optimizers/optimizer.ts";
import { openZero, type Zero } from "./parallel/zero.ts";
import { LossScaler } from "./precision.ts";
import { scaledLearningRate } from "./rate.ts";
import type { Schedule } from "./schedule.ts";
import { scheduleOf } from "./schedule_of.ts";

export interface Trained {
  readonly built: Built;
  readonly plan: BatchPlan;
  readonly schedule: Schedule;
  /** Set where each rank updates its own part of the weights. */
  readonly zero: Zero | null;
  readonly optimizer: Optimizer;
  readonly scaler: LossScaler | null;
  readonly ema: Ema | null;
  readonly parts: Parts;
  /** Why memory may run out; null where it will not. */
  readonly shortage: string | null;
  /** Lines about what was decided, in order. */
  readonly notes: string[];
}

/** `ranksHere`: those that share this machine's memory. */
export function openTrained(config: Config, device: Device, team: Team | null, ranksHere = 1): Trained {
  const { training } = config;
  const world = team?.world ?? 1;
  const built = build(config, device, world, null, team?.collectives.shared);
  const { arena, model, data } = built;
  const shortage = device === "cpu" ? checkMemory(config, built, ranksHere, world) : null;
  const plan = planBatches(training, data.train.length, world);
  const peak = scaledLearningRate(training, plan.global);
  const schedule = scheduleOf(training, peak, plan, data.train.facts);
  const zero = team && config.distributed.zero > 0 ? openZero(config, arena, model, team) : null;
  const optimizer = zero?.optimizer ?? createOptimizer(training.optimizer, arena);
  const scaler = built.amp === "fp16" ? scalerOf(config, device) : null;
  const ema = training.ema > 0 ? createEma(arena, training.ema) : null;
  const parts: Parts = {
    names: arena.names,
    stateDict: model.root.stateDict(),
    optimizer,
    scaler,
    ema: ema && averagesByName(arena.names, arena.viewsOf(ema.average)),
  };
  const notes = [
    ...data.notes,
    model.describe(),
    plan.said,
    ...(zero ? [zero.said] : []),
    ...precisionNote(built),
    ...shardsNote(config, plan),
  ];
  return { built, plan, schedule, zero, optimizer, scaler, ema, parts, shortage, notes };
}

const scalerOf = ({ training }: Config, device: Device) =>
  new LossScaler({
    init: training.loss_scale_init,
    growthInterval: training.loss_scale_growth_interval,
    min: training.loss_scale_min,
    maxSkipped: training.max_skipped_steps,
  }, device);

function averagesByName(names: readonly string[], views: readonly Tensor[]): [string, Tensor][] {
  return names.map((name, i) => [name, views[i]]);
}
