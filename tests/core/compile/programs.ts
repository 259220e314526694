// An exported program trained with compiled steps or ordinary ones. Test helper.
import { manualSeed } from "../../../ffi/context.ts";
import { add, scale } from "../../../ffi/make.ts";
import { copy_, mul, randint, randn, sign } from "../../../ffi/ops.ts";
import { noGrad } from "../../../ffi/autograd.ts";
import { scope, type Tensor } from "../../../ffi/tensor.ts";
import type { Facts } from "../../../core/models/model.ts";
import { openCompiledPass } from "../../../core/train/compiled_pass.ts";
import type { Mode } from "../../../core/train/compiler.ts";
import { opened, type Trained } from "../models/exported/training.ts";
import { rig, run } from "../train/rig.ts";

export interface Outcome {
  /** As f32. */
  readonly losses: readonly number[];
  readonly compiled: boolean;
  /** What the run says of its steps. */
  readonly told: string;
}

/**
 * Each number of the weights by this share larger or smaller, as if drawn: of a layer before a norm one factor for all would
 * change nothing.
 */
export function nudge(weights: Tensor, share: number): void {
  manualSeed(2n);
  noGrad(() =>
    scope(() => copy_(weights, add(weights, scale(mul(weights, sign(randn(weights.shape))), share))))
  );
}

/** The same batches for each mode; null takes ordinary steps. The weights begin `more` off. */
export function trained(t: Trained, mode: Mode | null, steps: number, more = 0): Outcome {
  const model = opened(t);
  const facts: Facts = {
    task: t.task,
    input: { shape: t.input.shape.slice(1), dtype: t.input.below ? "i64" : "f32" },
    outputs: t.outputs,
  };
  const made = rig(model, facts, { flags: ["--optimizer", "sgd", "--weight-decay", "0"] });
  if (more !== 0) nudge(made.arena.flat, more);
  let line = "", warning = "";
  const reports = {
    line: (text: string) => void (line = text),
    warn: (text: string) => void (warning = text),
  };
  const compiled = mode && openCompiledPass(made.arena, mode, () => reports);
  const numbers = (m: Trained["input"]): Tensor => m.below ? randint(0, m.below, m.shape) : randn(m.shape);
  const losses = Array.from({ length: steps }, (_, number) =>
    scope(() => {
      manualSeed(BigInt(1000 + number));
      const batch = { input: numbers(t.input), target: numbers(t.target) };
      return run({ ...made, step: { ...made.step, compiled } }, [batch], { number, lr: 1e-2 }).loss;
    }));
  model.root.free();
  return { losses, compiled: line !== "" && warning === "", told: warning || line };
}

/** The largest difference of two runs' losses, by the second one's. */
export const farthest = (a: readonly number[], b: readonly number[]): number =>
  Math.max(...a.map((loss, i) => Object.is(loss, b[i]) ? 0 : Math.abs(loss - b[i]) / Math.abs(b[i])));
