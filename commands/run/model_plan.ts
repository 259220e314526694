// `hpctrain models NAME --plan`: a training step as a compiled plan, kernel by kernel.
import { formatBytes, formatPlural } from "../../core/base/format.ts";
import type { Config } from "../../core/settings/settings.ts";
import { createLoss } from "../../core/models/losses.ts";
import { type Facts, forward, type Model } from "../../core/models/model.ts";
import { keyedSeeds, outputOf, tokensAtOnce } from "../../core/train/blocks.ts";
import { isChannelsLast } from "../../core/train/build.ts";
import { compiledMode, keepsNothing } from "../../core/train/compiled_choice.ts";
import { NO_COMPILER, stepCompiler } from "../../core/train/compiler.ts";
import { imagesLast } from "../../core/train/feed.ts";
import { packParameters } from "../../core/train/arena.ts";
import { noGrad } from "../../ffi/autograd.ts";
import { randint, randn } from "../../ffi/ops.ts";
import { scope } from "../../ffi/tensor.ts";

/** Lines that show what `--compile` would make of a step with this model. */
export async function planLines(model: Model, facts: Facts, config: Config): Promise<string[]> {
  const { training } = config;
  const compiler = await stepCompiler();
  if (compiler === null) return [opByOp(NO_COMPILER)];
  const mode = compiledMode(training, false) ??
    (training.deterministic === "off" ? "fast" : "exact");
  const arena = packParameters(model.root.namedParameters(), "cpu");
  const pass = {
    model,
    loss: createLoss({ ...training, class_weights: [] }, facts),
    cast: null,
    onGpu: false,
    tokensAtOnce: facts.task === "language" ? tokensAtOnce(training.logits_mib, facts.outputs) : 0,
    seeds: keyedSeeds(model, training.seed),
  };
  return scope(() => {
    const sample = sampleOf(model, facts, training.batch_size), { target } = sample;
    const last = isChannelsLast(training, model, "cpu") && sample.input.shape.length === 4;
    const input = last ? imagesLast(sample.input) : sample.input;
    const plan = compiler.examine(pass, arena, input, target, {
      mode,
      recomputes: training.gradient_checkpointing,
      repeats: keepsNothing(config),
    });
    if ("reason" in plan) return [opByOp(plan.reason)];
    const { parts, calls, elements, unshared, codeBytes, milliseconds } = plan;
    const wide = Math.max(...parts.map(([name]) => name.length));
    return [
      `A step of ${
        formatPlural(training.batch_size, "sample")
      } with --compile=${mode}: forward and backward, as loops and products (rows x columns x terms).`,
      ...parts.map(([name, about]) => `  ${name.padEnd(wide)}  ${about}`.trimEnd()),
      `${formatPlural(parts.length - calls, "kernel")}, ${
        formatPlural(calls, "call")
      } of libtorch's ops; values in ` +
      `${formatBytes(4 * elements)} of memory (${formatBytes(4 * unshared)} if none shared a place); ` +
      `${formatBytes(codeBytes)} of code, made in ${milliseconds.toFixed(0)} ms.`,
    ];
  });
}

const opByOp = (reason: string) => `With --compile a step runs op by op: ${reason}.`;

function sampleOf(model: Model, { task, input: { shape, dtype }, outputs }: Facts, batch: number) {
  const whole = dtype === "i64";
  const input = whole ? randint(0, outputs, [batch, ...shape]) : randn([batch, ...shape]);
  if (task === "regression") {
    return {
      input,
      target: randn(outputOf(noGrad(() => forward(model, input))).shape),
    };
  }
  if (task === "language") return { input, target: randint(0, outputs, [batch, ...shape]) };
  const size = task === "segmentation" ? [batch, ...shape.slice(1)] : [batch];
  return { input, target: randint(0, outputs, size) };
}
