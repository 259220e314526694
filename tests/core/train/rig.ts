// A model put together for training as a run does it, without files or lines.
import { resolveSettings } from "../../../core/settings/resolve.ts";
import type { Config } from "../../../core/settings/settings.ts";
import { createLoss } from "../../../core/models/losses.ts";
import type { Facts, Model } from "../../../core/models/model.ts";
import { type Arena, packParameters } from "../../../core/train/arena.ts";
import { keyedSeeds } from "../../../core/train/blocks.ts";
import { createOptimizer } from "../../../core/train/optimizers.ts";
import type { GradientStrategy } from "../../../core/train/gradients/strategy.ts";
import { followStep, takeStep } from "../../../core/train/step.ts";
import { type MicroBatch, sharesOf } from "../../../core/train/micro_batch.ts";
import { openStep, type StepOptions } from "../../../core/train/user_step.ts";
import { scope } from "../../../ffi/tensor.ts";
import { open, print } from "../models/native.ts";

export { open };

/** All settings, from the flags a user would give. */
export const settings = (...argv: string[]): Config => resolveSettings({ argv, env: {} }).config;

export interface Rig {
  readonly model: Model;
  readonly arena: Arena;
  readonly step: StepOptions & { readonly gradients?: GradientStrategy };
}

export interface RigOptions extends Partial<Omit<StepOptions, "pass" | "arena" | "optimizer">> {
  readonly flags?: readonly string[];
  readonly cast?: "bf16" | "f16" | null;
  readonly ignoreIndex?: number;
  /** Gradients straight from autograd, as in a run that neither accumulates nor clips. */
  readonly direct?: boolean;
}

export function rig(model: Model, facts: Facts, options: RigOptions = {}): Rig {
  const { flags = [], cast = null, ignoreIndex, direct = false, ...more } = options;
  const { training } = settings(...flags);
  if (ignoreIndex !== undefined) training.ignore_index = ignoreIndex;
  const arena = packParameters(model.root.namedParameters(), "cpu", direct);
  const seeds = keyedSeeds(model, training.seed);
  const pass = { model, loss: createLoss(training, facts), cast, onGpu: false, seeds };
  const optimizer = createOptimizer(training.optimizer, arena);
  const rest = { scaler: null, checkpointing: false, clipNorm: 0, observe: null, ...more };
  return { model, arena, step: { pass, arena, optimizer, ...rest } };
}

/** One optimizer step; its loss and gradient norm as numbers, and what was skipped. */
export function run(
  { step }: Rig,
  batches: readonly MicroBatch[],
  { number = 0, lr = 1e-3, norm = false } = {},
): { loss: number; norm: number | undefined; skipped: string | null } {
  const shares = sharesOf(batches, step.pass.loss);
  const { parts, watch } = openStep(step, step.gradients);
  const request = { batches, shares, rate: lr, wantNorm: norm, step: number, passes: batches.length };
  const taken = scope(() => takeStep(parts, watch, request));
  const finite = taken.found === null || taken.found.item() === 0;
  const skipped = followStep(parts, taken, finite, number + 1);
  const read = { loss: taken.loss.item(), norm: taken.norm?.item(), skipped };
  for (const t of [taken.loss, taken.norm, taken.found]) t?.free();
  return read;
}

/** The digest of every parameter: two models with one list are equal to the last bit. */
export const weights = ({ model }: Rig): Promise<string[]> =>
  Promise.all(model.root.stateDict().map(([, t]) => print(t)));

export const rows: Facts = { task: "regression", input: { shape: [7], dtype: "f32" }, outputs: 1 };
