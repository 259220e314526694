// Changes a step's gradients before the update: clips them by their norm, by that of a group, by value or by the size of the
// weights, and adds noise. All of it waits for nothing on the device.
import { roundingTo } from "./optimizers/line_search.ts";
import { noGrad } from "../../ffi/autograd.ts";
import { manualSeed } from "../../ffi/context.ts";
import { add, constant, scalar } from "../../ffi/make.ts";
import {
  clamp_,
  copy_,
  div,
  linalgMatrixNorm,
  lt,
  maximum,
  minimum,
  mul,
  mul_,
  narrow,
  normal_,
  reshape,
  where,
} from "../../ffi/ops.ts";
import { scope, type Tensor } from "../../ffi/tensor.ts";
import { UserError } from "../base/errors.ts";
import { matcher } from "../base/patterns.ts";
import { key } from "../base/random.ts";
import { isExported } from "../models/exported/model.ts";
import { headOf } from "../models/heads.ts";
import type { Model } from "../models/model.ts";
import { isCode } from "../models/user/file.ts";
import type { Config } from "../settings/settings.ts";
import { type Arena, gradientNorm } from "./arena.ts";
import { traitsOf } from "./optimizers.ts";
import type { Optimizer } from "./optimizers/optimizer.ts";
import { zerosAs } from "./optimizers/optimizer.ts";
import type { Amp } from "./precision.ts";

/** Changes the gradients that this rank updates, behind --clip-norm; `step` is counted from 0. */
export type ChangeGradients = (step: number) => void;

/** The same as torch.nn.utils.clip_grad_norm_, without waiting for a GPU. */
export function clip(gradients: readonly Tensor[], norm: Tensor, limit: number): void {
  scope(() => {
    const { device } = norm, factor = device === "cpu" ? clipFactor(norm, limit) : null;
    if (factor === 1) return;
    const scale = factor === null ? factorOnDevice(norm, limit) : scalar(factor, norm.dtype);
    for (const gradient of gradients) mul_(gradient, scale);
  });
}

function factorOnDevice(norm: Tensor, limit: number): Tensor {
  const number = (value: number) => constant(value, norm.dtype, norm.device);
  return minimum(div(number(limit), add(norm, number(1e-6))), number(1));
}

/** Python's limit / norm is the norm's reciprocal, times the limit, each rounded to the norm's type. */
function clipFactor(norm: Tensor, limit: number): number {
  const round = roundingTo(norm.dtype);
  const factor = round(round(1 / round(norm.item() + round(1e-6))) * round(limit));
  return factor > 1 ? 1 : factor; // NaN stays
}

/** True where something reads a step's gradients as one tensor, or adds to them. */
export function needsWholeGradient(t: Config["training"], amp: Amp): boolean {
  const accumulates = t.grad_accum > 1 || t.fit_batch || t.global_batch_size > t.batch_size;
  const changes = t.clip_norm > 0 || t.clip_value > 0 || t.clip_adaptive > 0 || t.gradient_noise > 0;
  return accumulates || changes || t.deterministic === "world" || amp === "fp16" ||
    traitsOf(t.optimizer).wholeGradient;
}

interface Changed {
  readonly config: Config;
  readonly model: Model;
  readonly arena: Arena;
  readonly optimizer: Pick<Optimizer, "groups">;
  /** The arena, or this rank's parts of it, which begin at these places. */
  readonly updated: Arena;
  readonly places: readonly number[] | null;
}

/** Null where gradients stay as --clip-norm leaves them. */
export function openChangeGradients(of: Changed): ChangeGradients | null {
  if (of.places) refuseParts(of);
  const changes = [clipGroups(of), clipValues(of), clipAdaptively(of), addNoise(of)].filter((one) =>
    one !== null
  );
  if (changes.length === 0) return null;
  return (step) => noGrad(() => scope(() => changes.forEach((change) => change(step))));
}

/** With --zero 1 a rank has no parameter's gradient as a whole, and no group's. */
function refuseParts({ config: { training }, optimizer }: Changed): void {
  const other = training.clip_adaptive > 0
    ? `--clip-adaptive ${training.clip_adaptive}`
    : (optimizer.groups?.clipNorms ?? []).some((limit) => limit > 0)
    ? "a group's clip_norm"
    : null;
  if (other === null) return;
  throw new UserError(
    "usage",
    `${other} reads whole gradients, and with --zero 1 a rank has parts of them: leave one of them out, or take --clip-norm ` +
      "or --clip-value.",
  );
}

/** A group's gradients by their own norm: clip_norm of --param-group. */
function clipGroups({ optimizer: { groups } }: Changed): ChangeGradients | null {
  const limits = groups?.clipNorms ?? [];
  if (limits.every((limit) => limit === 0)) return null;
  return () =>
    groups!.parts!.forEach(({ arena }, g) => {
      if (limits[g] > 0) clip(arena.memory, gradientNorm(arena), limits[g]);
    });
}

/** torch.nn.utils.clip_grad_value_ */
function clipValues(
  { config: { training: { clip_value: most } }, updated }: Changed,
): ChangeGradients | null {
  if (most === 0) return null;
  return () => {
    const { dtype, device } = updated.flat,
      [low, high] = [-most, most].map((value) => constant(value, dtype, device));
    for (const gradient of updated.memory) clamp_(gradient, low, high);
  };
}

/** Weights have a norm of so much at least, and gradients. */
const LEAST = 1e-3, LEAST_GRADIENT = 1e-6;

/** Brock et al. 2021, as timm has it: no unit's gradient is longer than this share of its weights. The head is left out. */
function clipAdaptively({ config, model, arena }: Changed): ChangeGradients | null {
  const { training: { clip_adaptive: share }, model: { name } } = config;
  if (share === 0) return null;
  const isHead = matcher(isCode(name) || isExported(name) ? [] : headOf(model, config));
  const clipped = arena.names.flatMap((name, i) => isHead(name) ? [] : [i]);
  return () => {
    const { dtype, device } = arena.flat, number = (value: number) => constant(value, dtype, device);
    const [least, leastGradient, factor] = [LEAST, LEAST_GRADIENT, share].map(number);
    for (const i of clipped) {
      scope(() => {
        const g = arena.gradients[i], most = mul(maximum(unitNorms(arena.parameters[i]), least), factor);
        const norms = unitNorms(g);
        const shorter = mul(g, div(most, maximum(norms, leastGradient)));
        copy_(g, where(lt(norms, most), g, shorter));
      });
    }
  };
}

/** One for each output of a layer, or one of a vector. */
function unitNorms(t: Tensor): Tensor {
  const [rows] = t.shape, dims = t.shape.length;
  const norms = linalgMatrixNorm(reshape(t, dims > 1 ? [rows, 1, -1] : [1, 1, -1]), "fro", [-2, -1]);
  return reshape(norms, dims > 1 ? [rows, ...t.shape.slice(1).map(() => 1)] : [1]);
}

/** Neelakantan et al. 2015. The variance falls with this power of the step. */
const ANNEALING = 0.55;

/** A step's draws are a function of the seed and the step, so all ranks and a run that goes on have the same. */
function addNoise({ config: { training }, arena, updated, places }: Changed): ChangeGradients | null {
  const { gradient_noise: variance, seed } = training;
  if (variance === 0) return null;
  const noise = zerosAs(arena), views = arena.viewsOf(noise);
  const inOrder = arena.order ? arena.order.map((i) => views[i]) : views;
  return (step) => {
    manualSeed(key(seed, "gradient noise", step));
    const deviation = Math.sqrt(variance / (1 + step) ** ANNEALING);
    for (const view of inOrder) normal_(view, 0, deviation);
    updated.memory.forEach((gradient, i) =>
      copy_(gradient, add(gradient, places ? narrow(noise, 0, places[i], gradient.numel) : noise))
    );
  };
}
