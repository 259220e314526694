// How long a step takes with a batch of some size: the same samples again and again, with a rate of 0.
import { type Device, scope } from "../../../ffi/tensor.ts";
import { NativeError } from "../../../ffi/errors.ts";
import { order } from "../../data/source/order.ts";
import { plainPart } from "../../data/source/source.ts";
import type { Config } from "../../settings/settings.ts";
import type { Built } from "../build.ts";
import { memoryInUse } from "../device.ts";
import { openFeed } from "../feed.ts";
import { type StepOptions, trainStep } from "../user_step.ts";

const WARM = 2, LEAST = 3, MOST = 40, ENOUGH_MS = 400;

type TimeStep = (size: number) => { readonly seconds: number; readonly memory: number } | null;

/** The median of some steps, without the time that reading data takes; null where memory ends. */
export function stepTimer(
  config: Config,
  built: Built,
  device: Device,
  update: Pick<StepOptions, "optimizer" | "scaler" | "changeGradients">,
): TimeStep {
  const { training } = config, { arena, pass, channelsLast, data: { train } } = built;
  const options = {
    ...{ ...update, pass, arena, clipNorm: training.clip_norm, observe: null },
    checkpointing: training.gradient_checkpointing,
  };
  const supply = openFeed({ device, channelsLast, loss: pass.loss }).of(train);
  const samples = order(train.length, training.seed, 0, config.data.shuffle);
  return (size) => {
    let given = false;
    supply.begin(() => {
      if (given) return null;
      given = true;
      return [plainPart(Int32Array.from({ length: size }, (_, i) => samples.at(i)))];
    });
    while (!supply.ready(1000));
    try {
      return scope(() => {
        const batches = supply.take()!, took: number[] = [];
        for (let step = 0, all = 0; step < WARM + MOST && (took.length < LEAST || all < ENOUGH_MS); step++) {
          const began = performance.now();
          const { loss } = trainStep(options, batches, [1], 0, false, step);
          loss.item(); // all of it is done
          loss.free();
          if (step < WARM) continue;
          took.push(performance.now() - began);
          all += took[took.length - 1];
        }
        took.sort((a, b) => a - b);
        return { seconds: took[took.length >> 1] / 1000, memory: memoryInUse(device) };
      });
    } catch (error) {
      if (error instanceof NativeError && error.outOfMemory) return null;
      throw error;
    }
  };
}
