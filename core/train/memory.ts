// Estimates the memory that training needs, and explains "out of memory".
import { UserError } from "../base/errors.ts";
import { formatBytes, formatPlural } from "../base/format.ts";
import { freeOf, freeSwap, tightestLimit } from "../base/memory.ts";
import type { Config } from "../settings/settings.ts";
import { costOf, perSampleOf } from "../models/cost.ts";
import { othersHeld } from "../models/user_error.ts";
import type { Built } from "./build.ts";
import { needsWholeGradient } from "./clipping.ts";
import { traitsOf } from "./optimizers.ts";
import { NativeError } from "../../ffi/errors.ts";
import type { Arena } from "./arena.ts";
import type { Run } from "./launch.ts";

// A CPU's memory is not refused: its processes are killed without a word. The estimate is of a forward pass;
// training takes rather more.

/** Bytes of one rank, beside its weights. */
interface Need {
  /** Gradients, the optimizer's state, averages. */
  readonly state: number;
  /** Saves beside training take it, where there is room. */
  readonly copy: number;
  readonly perSample: number;
  readonly batch: number;
}

interface FreeMemory {
  readonly free: number;
  readonly swap: number;
  readonly ranks: number;
}

const F32 = 4;

/** Memory is tight beyond this share of what is free. */
const SHARE = 0.9;

/** Backward frees memory, but never more than this leaves of the estimate. */
const LEAST = 0.5;

/** Null without an estimate. */
export function checkTrainingMemory(
  config: Config,
  built: Built,
  ranks: number,
  world: number,
  free = freeMemoryFor(ranks),
): string | null {
  const { memory_check: mode } = config.training;
  if (mode === "off") return null;
  const need = needOf(config, built, world, free);
  if (need === null) return null;
  const verdict = judgeTrainingMemory(need, free);
  if (verdict === "fits") return null;
  const sentence = sentenceOf(need, free, config, built);
  if (verdict === "tight" || mode === "warn") return `Memory may run out. ${sentence}`;
  throw new UserError(
    "memory",
    `This can't fit into memory. ${sentence} Or try all the same: --memory-check warn.`,
  );
}

/** The most samples at once that are estimated to fit; null without an estimate. */
export function mostAtOnce(config: Config, built: Built, localRanks = 1, world = 1): number | null {
  const free = freeMemoryFor(localRanks), need = needOf(config, built, world, free);
  return need &&
    Math.max(0, Math.floor((SHARE * free.free / free.ranks - need.state - need.copy) / need.perSample));
}

/** One rank's gradients, optimizer and averages take so many bytes beside its weights. */
export function stateBytes(config: Config, { arena, amp }: Pick<Built, "arena" | "amp">, world: number) {
  const { training, distributed } = config, { ema, swa_start, optimizer } = training;
  const slots = traitsOf(optimizer).bytesPerWeight(optimizer) / F32 / (distributed.zero === 1 ? world : 1);
  const averages = ema > 0 || swa_start > 0 ? 1 : 0;
  const made = needsWholeGradient(training, amp) ? 0 : 1; // a whole gradient is there already
  const weights = arena.flat.byteLength;
  return { state: (made + slots + averages) * weights, copy: (1 + slots + averages) * weights };
}

function freeMemoryFor(ranks: number): FreeMemory {
  const limit = tightestLimit(), own = limit.of === "address space" || limit.of === "data";
  return { free: freeOf(limit), swap: freeSwap(), ranks: own ? 1 : ranks };
}

export function judgeTrainingMemory(
  { state, copy, perSample, batch }: Need,
  { free, swap, ranks }: FreeMemory,
): "fits" | "tight" | "impossible" {
  if (ranks * (state + copy + perSample * batch) <= SHARE * free) return "fits";
  return ranks * (state + LEAST * perSample * batch) > free + swap ? "impossible" : "tight";
}

function needOf(config: Config, built: Built, world: number, { free, ranks }: FreeMemory): Need | null {
  const { training } = config, { model, data, amp } = built;
  const weights = built.arena.flat.byteLength, batch = Math.min(training.batch_size, data.train.length);
  const { state, copy } = stateBytes(config, built, world);
  const { facts } = data.train;
  const outline = facts.input.shape.reduce((product, size) => product * size, 4);
  if (facts.input.dtype !== "i64" && ranks * (10 * weights + UNLIKELY * outline * batch) < free) return null;
  let perSample: number;
  try {
    const each = perSampleOf(costOf(model, facts.input, 2, false));
    perSample = training.gradient_checkpointing
      ? each.checkpointing
      : amp === "bf16"
      ? each.bf16
      : each.plain;
  } catch {
    return null; // the model may not take zeros
  } finally {
    model.root.train(true);
  }
  if (amp === "fp64") perSample *= 2;
  return { state, copy: copy <= free / 2 ? copy : 0, perSample, batch };
}

const UNLIKELY = 20_000;

function sentenceOf(need: Need, { free, ranks }: FreeMemory, { training }: Config, { amp }: Built): string {
  const { perSample, batch } = need, state = need.state + need.copy;
  const fitting = Math.floor((SHARE * free / ranks - state) / perSample);
  const smaller = fitting >= 1 && fitting < batch ? 2 ** Math.floor(Math.log2(fitting)) : 0;
  const each = ranks > 1 ? ` for each of the ${formatPlural(ranks, "rank")} here` : "";
  const ways = [
    smaller > 0 ? `--batch-size ${smaller}` : "",
    training.gradient_checkpointing ? "" : "--gradient-checkpointing",
    amp === "off" ? "--amp bf16" : amp === "fp64" ? "--amp off" : "",
  ].filter((way) => way !== "");
  return `Training takes about ${formatBytes(state + perSample * batch)} more${each} (${
    formatBytes(state)
  } for gradients, ` +
    `the optimizer and a copy for saves, ${formatBytes(perSample * batch)} for a batch of ${batch}), and ` +
    `${formatBytes(free)} ${ranks > 1 ? "are free for all of them" : "are free"} (see: hpctrain doctor). ` +
    `Less is needed with: ${ways.join(", or ") || "a smaller model"}.`;
}

const held = new WeakMap<Arena, number>();

/** The bytes of a GPU that a run's captured steps hold: what they took when they were captured. */
export const graphMemory = ({ arena }: Pick<Built, "arena">): number => held.get(arena) ?? 0;

export function addGraphMemory(of: Pick<Built, "arena">, bytes: number): void {
  held.set(of.arena, graphMemory(of) + bytes);
}

/** Other errors pass through. */
export function outOfMemory(
  error: unknown,
  trainer: Pick<Run, "config" | "plan" | "cursor" | "arena" | "amp">,
): unknown {
  if (!(error instanceof NativeError) || !error.outOfMemory) return error;
  const { batch_size: batch, gradient_checkpointing: recomputes } = trainer.config.training;
  const half = Math.max(1, Math.floor(batch / 2)), graphs = graphMemory(trainer);
  const ways = [
    graphs > 0 ? `--no-compile (captured steps hold ${formatBytes(graphs)})` : "",
    batch > 1
      ? `--batch-size ${half} --global-batch-size ${trainer.plan.global} (the same training, by accumulation)`
      : "",
    recomputes ? "" : "--gradient-checkpointing",
    trainer.amp === "off" ? "--amp bf16" : trainer.amp === "fp64" ? "--amp off" : "",
  ].filter((way) => way !== "");
  return new UserError(
    "memory",
    `Out of memory at step ${trainer.cursor.step + 1} with a batch of ${batch} (${
      error.native.slice(0, 300)
    }). ` +
      `Less memory is needed with: ${ways.join(", or ") || "a smaller model"}.${othersHeld()}`,
    { cause: error },
  );
}

/** An evaluation's batches have their own size. */
export function evaluationOutOfMemory(error: unknown, batchSize: number): unknown {
  if (!(error instanceof NativeError) || !error.outOfMemory) return error;
  const half = Math.max(1, Math.floor(batchSize / 2));
  return new UserError(
    "memory",
    `Out of memory in an evaluation with a batch of ${batchSize} (${error.native.slice(0, 300)}). ` +
      (batchSize > 1
        ? `Less memory is needed with: --set training.eval_batch_size=${half}.`
        : "Take a smaller model."),
    { cause: error },
  );
}
