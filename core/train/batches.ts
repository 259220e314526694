// Derives global batch, micro-batches and accumulation, once.
import { UserError } from "../base/errors.ts";
import { formatPlural } from "../base/format.ts";
import type { Source } from "../data/source/source.ts";
import type { Patches } from "../models/patches.ts";
import type { Config } from "../settings/settings.ts";
import type { Built } from "./build.ts";

export interface BatchPlan {
  /** A rank computes so many samples at once. */
  readonly micro: number;
  /** A rank adds up so many micro-batches before a step. */
  readonly accumulation: number;
  /** A step takes so many samples over all ranks. */
  readonly global: number;
  readonly stepsPerEpoch: number;
  /** The first lines of the run show how it came about. */
  readonly note: string;
}

interface Wanted {
  batch_size: number;
  global_batch_size: number;
  grad_accum: number;
}

/** A step never takes more samples than there are: then it takes all of them. */
export function planBatches(wanted: Wanted, samples: number, ranks: number): BatchPlan {
  const { global_batch_size: wholeBatch } = wanted;
  let micro = wanted.batch_size;
  let accumulation = wanted.grad_accum;
  let global = micro * ranks * accumulation;
  if (wholeBatch > 0) {
    // The last micro-batch of a step may be short: the global batch never changes.
    accumulation = Math.max(1, Math.ceil(wholeBatch / (micro * ranks)));
    global = wholeBatch;
  }
  if (samples < ranks) {
    throw new UserError(
      "data",
      `The training set has ${
        formatPlural(samples, "sample")
      } for ${ranks} ranks: start no more ranks than there ` +
        "are samples, or give more data.",
    );
  }
  const requested = global;
  if (global > samples) {
    global = samples;
    micro = Math.min(micro, Math.ceil(samples / ranks));
    accumulation = Math.ceil(samples / (micro * ranks));
  }
  const stepsPerEpoch = Math.ceil(samples / global);
  const note =
    `Batch: ${micro} x ${ranks} ${ranks === 1 ? "rank" : "ranks"} x ${accumulation} accumulated = ` +
    `${global} samples a step, ${stepsPerEpoch} ${stepsPerEpoch === 1 ? "step" : "steps"} an epoch` +
    (global < requested ? ` (that is the whole training set: a batch of ${requested} is larger)` : "");
  return { micro, accumulation, global, stepsPerEpoch, note };
}

/** As many whole maps at once as have the points of a batch of patches. */
export function judgedAtOnce(
  { eval_batch_size, batch_size }: Config["training"],
  patches: Patches | null | undefined,
  { input: { shape } }: Pick<Source, "input">,
): number {
  if (eval_batch_size > 0 || !patches) return eval_batch_size || batch_size;
  const [height, width] = shape.slice(-2);
  return Math.max(1, Math.floor(batch_size * patches.height * patches.width / (height * width)));
}

export function stepsInAll(
  { epochs, max_steps }: { readonly epochs: number; readonly max_steps: number },
  { stepsPerEpoch }: Pick<BatchPlan, "stepsPerEpoch">,
): number {
  const whole = epochs * stepsPerEpoch;
  return max_steps > 0 ? Math.min(max_steps, whole) : whole;
}

/** A rank's micro-batches. */
export const batchesInAll = (
  training: Parameters<typeof stepsInAll>[0],
  plan: Pick<BatchPlan, "stepsPerEpoch" | "accumulation">,
): number => stepsInAll(training, plan) * plan.accumulation;

export const isUnfinished = (
  { epochs, max_steps }: { readonly epochs: number; readonly max_steps: number },
  { epoch, step }: { readonly epoch: number; readonly step: number },
): boolean => epoch < epochs && !(max_steps > 0 && step >= max_steps);

/**
 * A step may have another size than before the stop, so samples count. The step that holds the place is taken
 * again: a few samples come twice, none is left out.
 */
export function placeInEpoch(
  cursor: { epoch: number; stepInEpoch: number; samples: number },
  plan: Pick<BatchPlan, "global" | "stepsPerEpoch">,
  samples: number,
): { stepInEpoch: number; samples: number } {
  const before = cursor.epoch * samples;
  const done = cursor.samples - before;
  if (cursor.stepInEpoch === 0 || done < 0 || done > samples) return cursor; // the data has another size now
  const stepInEpoch = done === samples ? plan.stepsPerEpoch : Math.floor(done / plan.global);
  return { stepInEpoch, samples: before + Math.min(stepInEpoch * plan.global, samples) };
}

export function precisionNote({ amp }: Built): string[] {
  if (amp === "off") return [];
  return [amp === "fp64" ? "Double precision: weights, data and steps are fp64" : `Mixed precision: ${amp}`];
}

export function shardsNote({ training }: Config, { global }: BatchPlan): string[] {
  if (training.deterministic !== "world") return [];
  const count = training.virtual_shards;
  const sizes = [...new Set([Math.floor(global / count), Math.ceil(global / count)])].join(" or ");
  return [
    `The same bits on any number of ranks that divides ${count}, each with as many threads: ` +
    `${count} virtual shards of ${sizes} samples`,
  ];
}
