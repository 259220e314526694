// Opens what takes gradients to weights: the optimizer, compiled or shared out over the ranks, the scaler of fp16 and the
// averages of weights. A checkpoint has the state of all of it.
import type { Device } from "../../ffi/tensor.ts";
import type { Parts } from "../checkpoint/training_state.ts";
import type { Team } from "../ranks/team.ts";
import type { Config } from "../settings/settings.ts";
import type { Built } from "./build.ts";
import { openChoice } from "./compiled_choice.ts";
import { compiledMode, whyNotCompiled } from "./compiled_mode.ts";
import type { Reports } from "./compiled_refusals.ts";
import { compiledUpdate } from "./compiled_update.ts";
import { openZero } from "./gradients/zero.ts";
import { createEma, createWeightAverage, type WeightAverage } from "./weight_average.ts";
import type { Ema } from "./optimizers/optimizer.ts";
import { optimizerFor } from "./parameter_groups.ts";
import { LossScaler } from "./precision.ts";

/** Sentences for a console that is opened later. */
export class PendingReports implements Reports {
  #to: Reports | null = null;

  open(to: Reports): void {
    this.#to = to;
  }
  line(text: string): void {
    this.#to?.line(text);
  }
  warn(text: string): void {
    this.#to?.warn(text);
  }
}

export type WeightUpdate = ReturnType<typeof openWeightUpdate>;

export function openWeightUpdate(
  config: Config,
  built: Built,
  device: Device,
  team: Team | null,
  reports: Reports,
) {
  const { training, distributed } = config, { arena, model, pass, amp, trained } = built;
  const mode = compiledMode(training, pass.onGpu);
  const uncompiled = mode && whyNotCompiled(built, mode, team !== null && training.sync_bn);
  const compiles = mode !== null && uncompiled === null, fast = compiles && mode === "fast";
  const zero = team && distributed.zero > 0 ? openZero(config, arena, model, team, fast, trained) : null;
  const ordinary = zero?.optimizer ?? optimizerFor(training.optimizer, arena, trained, model.root);
  const choice = compiles && !pass.onGpu
    ? openChoice(training, mode, team === null, (text) => reports.line(text))
    : null;
  let why = "only those of adamw, adam and sgd are compiled, with one learning rate for all weights";
  const optimizer = fast && zero === null
    ? compiledUpdate(ordinary, training.optimizer, arena, choice ?? undefined, (reason) => why = reason)
    : ordinary;
  const scaler = amp === "fp16" ? scalerOf(config, device) : null;
  const swa = training.swa_start > 0 ? createWeightAverage(arena, model.root, training.swa_start) : null;
  const ema = ordinary.averages ?? (training.ema > 0 ? createEma(arena, training.ema) : swa);
  return {
    ...{ mode, compiles, choice, zero, optimizer, scaler, ema, swa },
    parts: partsOf(built, { optimizer, scaler, ema, swa }),
    notes: [
      ...(fast && optimizer === ordinary && zero === null
        ? [`The update of ${optimizer.type} runs op by op: ${why}.`]
        : []),
      ...(uncompiled ? [`Steps are not compiled: ${uncompiled}.`] : []),
    ],
  };
}

/** A checkpoint saves and loads these. */
function partsOf(
  { arena, model }: Built,
  { optimizer, scaler, ema, swa }: Pick<Parts, "optimizer" | "scaler"> & {
    readonly ema: Pick<Ema, "average"> | null;
    readonly swa: WeightAverage | null;
  },
): Parts {
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
