// Forward and backward through a model's blocks, straight or with gradient checkpointing; seeds keyed by step and
// block.
import { autocast, manualSeed } from "../../ffi/context.ts";
import { backward, boundary, gradOf, requiresGradient } from "../../ffi/autograd.ts";
import { isFloating } from "../../ffi/dtype.ts";
import { add } from "../../ffi/make.ts";
import { cat, detach, div, mul, narrow, reshape, sum } from "../../ffi/ops.ts";
import { handedOn, tape, unrecorded } from "../../ffi/tape.ts";
import { scope, type Tensor } from "../../ffi/tensor.ts";
import type { Loss } from "../models/losses.ts";
import type { UserMetrics } from "../models/user/made.ts";
import { type Activation, forward, type Model } from "../models/model.ts";
import { type Patches, wholeMaps } from "../models/patches.ts";
import type { RolledOut } from "../models/rollout.ts";
import type { RequestedMetrics } from "./requested_metrics.ts";
import { inPass } from "../models/nn/forward_context.ts";
import { key } from "../base/random.ts";

/** The way of a batch through the model. */
export interface Pass {
  /** The model itself. */
  readonly model: Model;
  /** The loss of its output. */
  readonly loss: Loss;
  /** Type of autocast, or null. */
  readonly cast: "bf16" | "f16" | null;
  /** True where the model is on a GPU. */
  readonly onGpu: boolean;
  /** The first blocks that learn nothing: no gradient goes through them. Absent: none. It may fall with an epoch. */
  atRest?: number;
  /** The head computes the logits of so many tokens at once; 0 or absent: of all. */
  readonly tokensAtOnce?: number;
  /** The model goes so many steps by its own predictions; null or absent where it goes one. */
  readonly rollout?: RolledOut["rollout"] | null;
  /** The user's, beside the task's own. */
  readonly metrics?: UserMetrics | null;
  /** Those that --metrics asks for. */
  readonly requested?: RequestedMetrics | null;
  /** Where judging draws random numbers: the place of the batch that comes next, and its samples. */
  begin?(sample: number, ids: Int32Array): void;
  /** Seeds the generator before a block draws random numbers; null where nothing is drawn. */
  readonly seeds: KeyedSeeds | null;
  /** The model learns from patches of these, and answers whole maps patch by patch. */
  readonly patches?: Patches | null;
}

/** Evaluation and prediction see these answers. */
export const answersTo = ({ model, patches }: Pass, input: Tensor): Activation =>
  forward(patches ? wholeMaps(model, patches) : model, input);

/** Backward begins with it; null stands for 1. */
export type Weight = Tensor | null;

/** The result of one micro-batch. */
export interface Outcome {
  /** Mean over the micro-batch's valid items. */
  readonly loss: Tensor;
  /** The model's output. Its graph is used up. */
  readonly output: Tensor;
}

/** An evaluation judges this. */
export function answered(p: Pass, input: Tensor, target: Tensor): Outcome {
  const output = outputOf(answersTo(p, input));
  return { output, loss: p.loss.apply(output, target) };
}

/** One graph over all blocks. Made in the caller's scope. */
export function straight(p: Pass, input: Tensor, target: Tensor, weight: Weight): Outcome {
  const parts = inParts(p, target);
  const { output, loss } = autocast(p.cast, p.onGpu, () => {
    let x: Activation = input;
    const blocks = p.model.blocks;
    for (let i = 0; i < blocks.length - (parts ? 1 : 0); i++) {
      tape.recorder?.entered(i);
      p.seeds?.seed(i);
      const before: Activation = x;
      x = scope(() => blocks[i].forward(before)); // what backward does not need is freed at once
    }
    const output = outputOf(x);
    return { output, loss: parts ? null : p.loss.apply(output, target) };
  });
  if (loss === null) return headInParts(p, output, target, weight);
  backward(loss, weight);
  return { loss, output };
}

/** Called for each block, from the last to the first, when its parameters' gradients are added up. */
export type BlockDone = (block: number) => void;

/** Keeps only what passes between blocks; each block runs again, with a graph, when its backward is due. */
export function checkpointed(
  p: Pass,
  input: Tensor,
  target: Tensor,
  weight: Weight,
  done: BlockDone | null = null,
): Outcome {
  const { blocks } = p.model;
  const last = blocks.length - 1;
  const run = (i: number, x: Activation) =>
    autocast(p.cast, p.onGpu, () => {
      tape.recorder?.entered(i);
      p.seeds?.seed(i);
      return blocks[i].forward(x);
    });
  const inputs: Activation[] = [input];
  // Without a graph libtorch chooses other kernels, of other bits, for some blocks; the graph goes at the
  // block's end.
  inPass(p.model.root, "first", () => {
    for (let i = 0; i < last; i++) inputs.push(scope(() => withoutGraph(inputs[i], (x) => run(i, x))));
  });
  const atRest = p.atRest ?? 0;
  const top = scope(() => {
    const x = leaf(inputs[last], atRest < last);
    if (inParts(p, target)) {
      const { loss, output } = headInParts(p, outputOf(x), target, weight);
      return { loss, output, gradients: tensorList(x).map(gradient) };
    }
    const outcome = autocast(p.cast, p.onGpu, () => {
      tape.recorder?.entered(last);
      p.seeds?.seed(last);
      const output = outputOf(blocks[last].forward(x));
      return { output, loss: p.loss.apply(output, target) };
    });
    backward(outcome.loss, weight);
    const { loss, output } = outcome;
    return {
      loss: handedOn(loss, detach),
      output: handedOn(output, detach),
      gradients: tensorList(x).map(gradient),
    };
  });
  done?.(last);
  let gradients = top.gradients;
  for (let i = last - 1; i >= 0; i--) {
    const before = gradients;
    gradients = scope(() => {
      if (i < atRest) return tensorList(inputs[i]).map(() => null);
      const x = leaf(inputs[i], atRest < i);
      backwardFrom(tensorList(inPass(p.model.root, "second", () => run(i, x))), before);
      return tensorList(x).map(gradient);
    });
    // An earlier block needs what was only handed on.
    const handedOn = tensorList(inputs[i]);
    for (const t of [...before, ...tensorList(inputs[i + 1])]) if (t && !handedOn.includes(t)) t.free();
    done?.(i);
  }
  return top;
}

const isList = (x: Activation): x is readonly Tensor[] => Array.isArray(x);
export const tensorList = (x: Activation): readonly Tensor[] => isList(x) ? x : [x];
/** The last block gives one tensor. */
export const outputOf = (x: Activation): Tensor => isList(x) ? x[0] : x;
export const mapped = (x: Activation, one: (t: Tensor) => Tensor): Activation =>
  isList(x) ? x.map(one) : one(x);

/** Token ids cannot ask for a gradient; none is wanted behind blocks that learn nothing. */
function leaf(x: Activation, wanted = true): Activation {
  return mapped(x, (t) => isFloating(t.dtype) ? handedOn(t, wanted ? boundary : detach) : t);
}

/** Tensors that a block only hands on stay the same objects. */
function withoutGraph(x: Activation, forward: (x: Activation) => Activation): Activation {
  const start = leaf(x);
  const before = tensorList(x), handed = tensorList(start);
  return mapped(
    forward(start),
    (t) => handed.includes(t) ? before[handed.indexOf(t)] : handedOn(t, (made) => detach(made)),
  );
}

const gradient = (t: Tensor): Tensor | null => isFloating(t.dtype) ? gradOf(t) : null;

/** sum(y * dy) has the gradient dy for each y, exactly. An output without a graph sends nothing back. */
export function backwardFrom(
  outputs: readonly Tensor[],
  gradients: readonly (Tensor | null)[],
  again = false,
): void {
  const pairs = outputs.flatMap((y, i) => {
    const dy = gradients[i];
    return dy !== null && requiresGradient(y) ? [[y, dy] as const] : [];
  });
  if (pairs.length === 0) return;
  if (pairs.length === 1) return backward(pairs[0][0], pairs[0][1], again);
  const products = pairs.map(([y, dy]) => sum(mul(y, dy)));
  backward(products.reduce((a, b) => add(a, b)), null, again);
}

// The head of a language model in parts: the logits of all tokens and their gradients are the largest tensors of a
// step, and are never whole. Each part goes forward and backward before the next begins.

/** Fewer tokens at once would keep matrix products from their speed. */
const LEAST_TOKENS = 256;
const F32 = 4;

/** So many tokens' logits fit into `mebibytes` as f32; 0 stands for all, as it does where `mebibytes` is 0. */
export function tokensAtOnce(mebibytes: number, vocabulary: number): number {
  if (mebibytes === 0) return 0;
  return Math.max(LEAST_TOKENS, Math.floor(mebibytes * 2 ** 20 / (F32 * vocabulary)));
}

/** True where the head takes these targets in parts. */
export const inParts = ({ model, loss, tokensAtOnce, metrics }: Pass, target: Tensor): boolean =>
  tokensAtOnce !== undefined && tokensAtOnce > 0 && target.numel > tokensAtOnce && !metrics &&
  model.head !== undefined && loss.total !== undefined;

/**
 * The last block, the loss and backward, from what the block before gave. The outcome has no logits. Who records it sees
 * a loss that is the sum of the parts', and derives its gradient by himself.
 */
export function headInParts(p: Pass, x: Tensor, target: Tensor, weight: Weight): Outcome {
  const head = p.model.head!, { sum, count } = p.loss.total!, atOnce = p.tokensAtOnce!;
  const last = p.model.blocks.length - 1;
  const hidden = autocast(p.cast, p.onGpu, () => {
    tape.recorder?.entered(last);
    p.seeds?.seed(last);
    return head.hidden(x);
  });
  const tokens = target.numel;
  const rows = reshape(handedOn(hidden, detach), [tokens, -1]),
    labels = reshape(target, [tokens]),
    all = count(labels);
  const gradients: Tensor[] = [];
  let loss: Tensor | null = null;
  for (let from = 0; from < tokens; from += atOnce) {
    const size = Math.min(atOnce, tokens - from);
    const part = scope(() => {
      const leaf = handedOn(narrow(rows, 0, from, size), boundary);
      const mean = autocast(
        p.cast,
        p.onGpu,
        () => div(sum(head.logits(leaf), narrow(labels, 0, from, size)), all),
      );
      unrecorded(() => backward(mean, weight));
      return { loss: handedOn(mean, detach), gradient: unrecorded(() => gradOf(leaf)!) };
    });
    gradients.push(part.gradient);
    loss = loss === null ? part.loss : add(loss, part.loss);
  }
  if (requiresGradient(hidden)) {
    backward(hidden, unrecorded(() => reshape(cat(gradients, 0), hidden.shape)));
  }
  return { loss: loss!, output: rows };
}

// Dropout is a function of (seed, step, share, micro-batch, block): a resumed or recomputed block draws the
// same numbers, and no generator state is saved.

/** @internal */
interface KeyedSeeds {
  step: number;
  /** The number of the virtual shard, or of the rank where there are none. */
  share: number;
  micro: number;
  /** The turn, where losses take turns. */
  turn: number;
  /** Nothing is seeded while a step is captured. */
  held: boolean;
  seed(block: number): void;
  /** They are told each step's key, before its first draw. */
  readonly followers: Set<(key: bigint) => void>;
}

/**
 * Null for a model that draws nothing. `unknown`: its code may draw; seeding costs a microsecond a block. `once`: the
 * first block of a step's first micro-batch is seeded, and what follows draws on, as a captured step does.
 */
export function keyedSeeds(
  model: Model,
  seed: number,
  { unknown = false, once = false } = {},
): KeyedSeeds | null {
  const dropped = model.root.modules().some((m) => "p" in m && Number(m.p) > 0);
  if (!dropped && !model.draws && !unknown) return null;
  return {
    step: 0,
    share: 0,
    micro: 0,
    turn: 0,
    held: false,
    followers: new Set(),
    seed(block) {
      if (this.held) return;
      if (!once || block === 0 && this.micro === 0) {
        const drawn = key(seed, "dropout", this.step, this.share, this.micro, block + this.turn);
        manualSeed(drawn);
        if (block === 0 && this.micro === 0) { for (const follow of this.followers) follow(drawn); }
      }
      tape.recorder?.seeds(block);
    },
  };
}
