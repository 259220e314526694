// Records a pass, lowers and derives it, and compares its values and gradients with autograd's. Test helper.
import {
  backward,
  gradOf,
  gradSlotOf,
  hasGrad,
  noGrad,
  requireGrad,
  takeGrad,
} from "../../../ffi/autograd.ts";
import { manualSeed } from "../../../ffi/context.ts";
import { abs, detach, maxValue } from "../../../ffi/ops.ts";
import { toNumbers } from "../../../ffi/make.ts";
import { record } from "../../../ffi/trace.ts";
import { scope, type Tensor } from "../../../ffi/tensor.ts";
import { derive } from "../../../core/compile/derive.ts";
import type { Graph, TensorOrigin } from "../../../core/compile/graph.ts";
import { lower, type Lowered } from "../../../core/compile/lower/lower.ts";
import type { Refusal } from "../../../ffi/tape.ts";
import { evaluate } from "./evaluate.ts";

/** A pass that draws seeds the generator with it, and tells of that. */
export const SEED_OF_DRAWS = 7n;

export interface Case {
  readonly input: Tensor;
  readonly target: Tensor;
  readonly parameters: readonly Tensor[];
  readonly exact?: boolean;
  /** Gradients that are all smaller than this are compared by it: they may be what is left of larger ones. */
  readonly floor?: number;
  /** Gradients are given back, too. */
  readonly numbers?: boolean;
  /** The pass goes backward by itself. */
  readonly goesBack?: boolean;
  /** As on a GPU: a loss over parts of the rows is one over all. */
  readonly joinsParts?: boolean;
  /** The pass keeps nothing of its own from step to step. */
  readonly repeats?: boolean;
  /** Gives the output and the loss. */
  pass(): { output: Tensor; loss: Tensor };
}

export interface Compared {
  readonly graph: Graph;
  /** The largest difference of a gradient by the largest gradient of its parameter. */
  readonly worst: number;
  readonly loss: number;
  /** Of each parameter that autograd reached. */
  readonly gradients: readonly { readonly index: number; readonly ours: Numbers; readonly theirs: Numbers }[];
}

type Numbers = ReturnType<typeof toNumbers>;

/** Or why the pass has no graph. */
export function compared(
  {
    input,
    target,
    parameters,
    pass,
    exact,
    floor = 1e-3,
    numbers = false,
    goesBack = false,
    joinsParts,
    repeats,
  }: Case,
): Compared | Refusal {
  return scope(() => {
    for (const p of parameters) requireGrad(p);
    for (const p of parameters) if (hasGrad(gradSlotOf(p))) takeGrad(gradSlotOf(p)).free();
    const { result: { output, loss }, recording } = record(() => {
      const made = pass();
      if (!goesBack) backward(made.loss);
      return made;
    });
    const lowered = lower(recording, { input, target, parameters, output, loss }, {
      exact,
      joinsParts,
      repeats,
    });
    if ("reason" in lowered) {
      recording.free();
      return lowered;
    }
    // What a plan draws before each run is drawn by the pass's own seed.
    if (lowered.draws.length > 0) manualSeed(SEED_OF_DRAWS);
    for (const { fill } of lowered.draws) noGrad(fill);
    const compared = compare(lowered, { input, target, parameters, output, loss, floor, numbers });
    lowered.free();
    return compared;
  });
}

interface Ended {
  input: Tensor;
  target: Tensor;
  parameters: readonly Tensor[];
  output: Tensor;
  loss: Tensor;
  floor: number;
  numbers: boolean;
}

function compare(
  lowered: Lowered,
  { input, target, parameters, output, loss, floor, numbers }: Ended,
): Compared {
  const graph = derive(lowered.graph, parameters.length, { weighted: false });
  const find = (origin: TensorOrigin): Tensor => {
    switch (origin.from) {
      case "input":
        return detach(input);
      case "target":
        return target;
      case "parameter":
        return detach(parameters[origin.index]);
      case "held":
        return lowered.held[origin.index];
      case "gradient":
      case "weight":
      case "weights":
      case "drawn":
        throw new Error(`no ${origin.from} in these cases`);
    }
  };
  const reached = graph.gradients.flatMap((r, i) => r === null ? [] : [{ r, i }]);
  const [ours, ourLoss, ...gradients] = evaluate(graph, find, [
    graph.output,
    graph.loss,
    ...reached.map(({ r }) => r),
  ]);
  let worst = Math.max(difference(ours, detach(output), floor), difference(ourLoss, detach(loss), floor));
  const seen = new Set<number>();
  const found: Compared["gradients"][number][] = [];
  reached.forEach(({ i }, at) => {
    seen.add(i);
    const theirs = gradOf(parameters[i]);
    if (numbers && theirs !== null) {
      found.push({ index: i, ours: toNumbers(gradients[at]), theirs: toNumbers(theirs) });
    }
    if (theirs !== null) worst = Math.max(worst, difference(gradients[at], theirs, floor));
    else if (maxValue(abs(gradients[at])).item() > 0) worst = Infinity;
  });
  parameters.forEach((p, i) => {
    const theirs = gradOf(p);
    if (!seen.has(i) && theirs !== null && maxValue(abs(theirs)).item() > 0) worst = Infinity;
  });
  return { graph, worst, loss: detach(loss).item(), gradients: found };
}

/** NaN counts as equal to NaN. */
export function difference(ours: Tensor, theirs: Tensor, floor: number): number {
  if (ours.shape.join() !== theirs.shape.join()) return Infinity;
  if (ours.numel === 0) return 0;
  const a = toNumbers(ours), b = toNumbers(theirs);
  let most = floor, worst = 0;
  for (let i = 0; i < a.length; i++) {
    if (Number.isFinite(b[i])) most = Math.max(most, Math.abs(b[i]));
    if (Object.is(a[i], b[i]) || a[i] === b[i]) continue;
    worst = Math.max(worst, Number.isFinite(a[i] - b[i]) ? Math.abs(a[i] - b[i]) : Infinity);
  }
  return worst / most;
}
