// A model that takes a few training steps and is thrown away: nothing is saved, and no run's weights change.
import { type Device, scope } from "../../../ffi/tensor.ts";
import { partsOf } from "../../data/source/order.ts";
import { isMixing } from "../../data/transforms/steps.ts";
import { openSampling } from "../../data/source/sampling.ts";
import type { Config } from "../../settings/settings.ts";
import { planBatches } from "../batches.ts";
import type { Built } from "../build.ts";
import { openChangeGradients } from "../clipping.ts";
import { setSteps } from "../schedule.ts";
import { lanesOf, openFeed } from "../feed.ts";
import { optimizerFor } from "../parameter_groups.ts";
import { scalerOf } from "../weight_update.ts";
import { startFrom } from "../resume.ts";
import { sharesOf } from "../micro_batch.ts";
import { trainStep } from "../user_step.ts";

interface StepProbe {
  /** Samples of one step. */
  readonly samples: number;
  /** Takes a step with this learning rate; returns the loss before it. */
  step(rate: number): number;
  close(): void;
}

/** The weights begin as those of a run do, new or those of --init-from; what is returned changes them. */
export function beginAsRun(config: Config, built: Built, device: Device, notes: string[]) {
  const { training } = config, { model, arena, amp, data: { train } } = built;
  const optimizer = optimizerFor(training.optimizer, arena, built.trained.grouping, model.root);
  const scaler = amp === "fp16" ? scalerOf(config, device) : null;
  const parts = { names: arena.names, stateDict: model.root.stateDict(), optimizer, scaler, ema: null };
  const plan = planBatches({ batch_size: 1, global_batch_size: 0, grad_accum: 1 }, train.length, 1);
  startFrom(
    { config, resume: null },
    { parts, plan, model, samples: train.length, resetEma: undefined },
    notes,
  );
  const changed = { config, model, arena, optimizer, updated: arena, places: null };
  return { optimizer, scaler, changeGradients: openChangeGradients(changed) };
}

/** Longest wait for data at a time. */
const WAIT_MS = 1000;

/** Steps as a run on one rank takes them, op by op. `notes` get what the weights begin with. */
export function openProbe(
  config: Config,
  built: Built,
  device: Device,
  loaders: number,
  notes: string[],
): StepProbe {
  const { training, data } = config, { arena, pass, data: { train } } = built;
  const plan = planBatches(training, train.length, 1), sampling = openSampling(data, training.seed, train);
  const update = beginAsRun(config, built, device, notes);
  const options = {
    ...{ ...update, pass, arena, clipNorm: training.clip_norm, observe: null },
    checkpointing: training.gradient_checkpointing,
  };
  const threads = {
    count: loaders,
    prefetch: data.prefetch_mib * 2 ** 20,
    lanes: lanesOf(built, config, plan, 1).slice(0, 1),
  };
  const feed = openFeed({ device, channelsLast: built.channelsLast, loss: pass.loss, threads });
  const supply = feed.of(train), mixing = isMixing(data);
  let taken = 0;
  const beginEpoch = (epoch: number) => {
    const order = sampling.of(epoch);
    let fed = 0;
    setSteps({ pass, config }, epoch);
    supply.begin(() => fed < plan.stepsPerEpoch ? partsOf(order, fed++, plan, epoch, mixing) : null);
  };
  return {
    samples: plan.global,
    step(rate) {
      if (taken % plan.stepsPerEpoch === 0) beginEpoch(taken / plan.stepsPerEpoch);
      while (!supply.ready(WAIT_MS));
      return scope(() => {
        const batches = supply.take()!;
        const { loss } = trainStep(options, batches, sharesOf(batches, pass.loss), rate, false, taken++);
        supply.queued();
        supply.ahead();
        const value = loss.item();
        loss.free();
        return value;
      });
    },
    close: feed.close,
  };
}
