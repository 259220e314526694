// Opens what takes gradients to weights: the optimizer, compiled or shared out over the ranks, the scaler of fp16 and the
// averages of weights. A checkpoint has the state of all of it.
import type { Device } from "../../ffi/tensor.ts";
import type { Parts } from "../checkpoint/training_state.ts";
import type { Account } from "../run/account.ts";
import type { Config } from "../settings/settings.ts";
import type { Built } from "./build.ts";
import { openChoice } from "./compiled_choice.ts";
import { compiledMode, keepsNothing, whyNotCompiled } from "./compiled_mode.ts";
import { openCompiledPass } from "./compiled_pass.ts";
import type { Launch } from "./launch.ts";
import type { Reports } from "./compiled_refusals.ts";
import { compiledUpdate } from "./compiled_update.ts";
import { gradientsOf } from "./gradients/strategies.ts";
import type { GradientStrategy } from "./gradients/strategy.ts";
import { openZero } from "./gradients/zero.ts";
import { createEma, createWeightAverage, type WeightAverage } from "./weight_average.ts";
import type { Ema } from "./optimizers/optimizer.ts";
import { optimizerFor } from "./parameter_groups.ts";
import { LossScaler } from "./precision.ts";

export type WeightUpdate = ReturnType<typeof openWeightUpdate>;

export function openWeightUpdate(
  { config, device, team = null }: Launch,
  built: Built,
  reports: Reports,
) {
  const { training, distributed } = config, { arena, model, pass, amp, trained } = built;
  const mode = compiledMode(training, pass.onGpu);
  const uncompiled = mode && whyNotCompiled(built, mode, team !== null && training.sync_bn);
  const compiles = mode !== null && uncompiled === null, fast = compiles && mode === "fast";
  const zero = team && distributed.zero > 0 ? openZero(config, arena, model, team, fast, trained) : null;
  const ordinary = zero?.optimizer ?? optimizerFor(training.optimizer, arena, trained, model.root);
  const choice = compiles && !pass.onGpu ? openChoice(training, mode, team === null, reports.line) : null;
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

/** How the gradients of a step come about, with plans that are compiled; `refused` are those of the run so far. */
export const openGradients = (
  launch: Launch,
  built: Built,
  { compiles, mode, choice, scaler, zero }: WeightUpdate,
  account: Account,
  reports: Reports,
  refused: Set<string>,
): GradientStrategy =>
  gradientsOf(
    launch,
    built,
    scaler,
    zero,
    account,
    compiles
      ? openCompiledPass(built.arena, mode!, () => reports, choice, keepsNothing(launch.config), refused)
      : null,
  );

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
