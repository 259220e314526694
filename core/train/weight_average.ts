// Averages of weights: the moving one (EMA), and stochastic weight averaging (Izmailov and others 2018): the mean of the weights at the ends of epochs, and batch norms'
// statistics as the averaged weights have them. Named and done as torch.optim.swa_utils does.
import { noGrad } from "../../ffi/autograd.ts";
import { autocast } from "../../ffi/context.ts";
import { add, constant, fill_, scalar, zeros } from "../../ffi/make.ts";
import { clone, copy_, div, lerp_, select, sumDim, toDtype } from "../../ffi/ops.ts";
import { keep, scope, type Tensor } from "../../ffi/tensor.ts";
import { forward } from "../models/model.ts";
import { contextOf } from "../models/nn/forward_context.ts";
import type { Module } from "../models/nn/module.ts";
import { BatchNorm } from "../models/nn/norms.ts";
import type { Part } from "../data/source/source.ts";
import type { Team } from "../ranks/team.ts";
import type { Pass } from "./blocks.ts";
import type { Supply } from "./feed.ts";
import { type Arena, exchange } from "./arena.ts";
import type { Ema } from "./optimizers/optimizer.ts";
import { finished } from "./micro_batch.ts";

export function createEma(arena: Arena, decay: number): Ema {
  const average = keep(scope(() => clone(arena.flat)));
  const weight = constant(1 - decay, arena.flat.dtype, arena.flat.device);
  return {
    average,
    update: () => void lerp_(average, arena.flat, weight),
    swap: () => exchange(arena.flat, average),
    reset: () => void copy_(average, arena.flat),
  };
}

/** Longest wait for data before `poll` is called. */
const WAIT_MS = 50;

/** Counts epochs' ends from `start` on; until then the weights themselves are judged. */
export interface WeightAverage extends Ema {
  averaged: number;
  /** Batch norms' statistics, which go with the averaged weights, by their names. */
  readonly statistics: readonly (readonly [string, Tensor])[];
  /** The last step of this epoch, counted from 1, was taken. */
  endEpoch(epoch: number): void;
}

export function createWeightAverage(arena: Arena, root: Module, start: number): WeightAverage {
  const average = keep(scope(() => clone(arena.flat)));
  const pairs = statisticsOf(root).map(([name, own]) => [name, own, keep(scope(() => clone(own)))] as const);
  const made: WeightAverage = {
    average,
    averaged: 0,
    statistics: pairs.map(([name, , kept]) => [name, kept]),
    update() {},
    endEpoch(epoch) {
      if (epoch < start) return;
      const share = 1 / ++made.averaged;
      if (share === 1) copy_(average, arena.flat);
      else scope(() => lerp_(average, arena.flat, constant(share, average.dtype, average.device)));
    },
    swap() {
      if (made.averaged === 0) return;
      exchange(arena.flat, average);
      for (const [, own, kept] of pairs) exchange(own, kept);
    },
    reset: () => void copy_(average, arena.flat),
  };
  return made;
}

const addTo = (sum: Tensor, t: Tensor) => scope(() => copy_(sum, add(sum, toDtype(t, "f64"))));

/** A batch norm that is held keeps what it was given. */
const learningNorms = (root: Module): BatchNorm[] =>
  root.modules().filter((module) => module instanceof BatchNorm && !module.held) as BatchNorm[];

function statisticsOf(root: Module): [string, Tensor][] {
  const own = new Set(learningNorms(root).flatMap(({ statistics }) => statistics));
  return root.namedBuffers().filter(([, t]) => own.has(t));
}

export const hasStatistics = (root: Module): boolean => learningNorms(root).length > 0;

/**
 * Batch norms get the mean of all batches' statistics, each batch counting alike; all else is as in evaluation, so no
 * random number is drawn. The averaged weights are in the model's place. `poll` is called between batches and while data is
 * waited for, and throws where the run stops.
 */
export async function measureStatistics(
  { model, cast, onGpu }: Pass,
  supply: Supply,
  parts: () => readonly Part[] | null,
  team: Team | null,
  shards: number,
  poll: (done: number, between: boolean) => Promise<void>,
): Promise<void> {
  const norms = learningNorms(model.root), context = contextOf(model.root), { ranks } = context;
  const measured = norms.flatMap(({ statistics: [mean, variance] }) => [mean, variance]);
  // Each virtual shard has a row, so that the sums have the same order on any number of ranks.
  const sums = measured.map((t) => keep(zeros([shards, ...t.shape], { dtype: "f64", device: t.device })));
  const momenta = norms.map(({ momentum }) => momentum);
  let steps = 0, batches = 0;
  model.root.train(false);
  context.ranks = null; // a batch is its own rank's here
  for (const norm of norms) Object.assign(norm, { training: true, momentum: 1 });
  try {
    supply.begin(parts);
    for (;;) {
      while (!supply.ready(WAIT_MS)) await poll(steps, false);
      const more = scope(() => {
        const group = supply.take();
        for (const batch of group ?? []) {
          if (batch.input.shape[0] === 0) continue;
          for (const t of measured) fill_(t, 0); // so that one that is not finite leaves nothing behind
          scope(() => noGrad(() => autocast(cast, onGpu, () => forward(model, finished(batch).input))));
          for (const [i, t] of measured.entries()) {
            addTo(select(sums[i], 0, shards > 1 ? batch.shard! : 0), t);
          }
          batches++;
        }
        return group !== null;
      });
      if (!more) break;
      supply.queued();
      supply.ahead();
      await poll(++steps, true);
    }
    const [all] = team?.reduce([batches], "sum", "batches") ?? [batches];
    measured.forEach((t, i) => {
      if (team) team.collectives.wait(team.collectives.allReduce(sums[i], "sum", "statistics"));
      scope(() => copy_(t, div(sumDim(sums[i], [0]), scalar(Math.max(1, all), "f64", t.device))));
    });
    for (const { statistics: [, , count] } of norms) fill_(count, all);
  } finally {
    for (const sum of sums) sum.free();
    norms.forEach((norm, i) => norm.momentum = momenta[i]);
    context.ranks = ranks;
    model.root.train(true);
  }
}
