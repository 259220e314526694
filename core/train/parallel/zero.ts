// --zero 1: every rank updates its own part of the weights and has the optimizer's state of that part alone.
// May import ffi, dist (types), its siblings, optimizers.
import { uninitialised, zeros } from "../../../ffi/make.ts";
import { copy_, mul, narrow, sqrt } from "../../../ffi/ops.ts";
import { keep, scope, type Tensor } from "../../../ffi/tensor.ts";
import type { Config } from "../../config/settings.ts";
import type { Team } from "../../dist/team.ts";
import { UserError } from "../../errors.ts";
import { formatBytes } from "../../format.ts";
import type { Model } from "../../models/model.ts";
import type { Arena } from "../arena.ts";
import { gradientNorm } from "../clip.ts";
import { createOptimizer, type Optimizer } from "../optimizers/optimizer.ts";
import { type Bucket, bucketsOf, firstBlocks } from "./buckets.ts";

/** One n-th of every bucket. */
export interface Owned {
  readonly buckets: readonly Bucket[];
  /** Its "parameters" are the pieces of the buckets. Of the weights it has a copy, which is what is updated. */
  readonly arena: Arena;
}

export interface Zero {
  readonly owned: Owned;
  /** Updates what is owned, then hands the weights round. Rank 0's slots are the whole state, as `gather` left it. */
  readonly optimizer: Optimizer;
  /** What a rank has of the optimizer's state, and what there is of it. */
  readonly said: string;
  /** The norm of the whole gradient. */
  norm(): Tensor;
  /** Whether it is so on every rank. */
  all(finite: boolean): boolean;
  /** Brings the state to rank 0, for a checkpoint. */
  gather(): void;
  /** Gives every rank its part of rank 0's state. */
  scatter(): void;
}

export function openZero({ training, distributed }: Config, arena: Arena, model: Model, team: Team): Zero {
  const { collectives, rank, world } = team;
  const least = distributed.bucket_mb * 2 ** 20 / 4;
  const buckets = bucketsOf(arena.starts, arena.flat.numel, firstBlocks(arena, model), least, world);
  const own = ownArena(arena, buckets, world);
  const inner = createOptimizer(training.optimizer, own);
  const weights = buckets.map(({ from, to }) => keep(scope(() => narrow(arena.flat, 0, from, to - from))));
  const part = (whole: Tensor) => narrow(whole, 0, rank * (whole.numel / world), whole.numel / world);
  // Where a checkpoint is made or read: rank 0 alone, in the host's memory.
  const whole = new Map(
    rank > 0 ? [] : [...inner.slots.keys()].map((slot) => {
      const flat = keep(zeros(arena.flat.shape));
      const pieces = buckets.map(({ from, to }) => keep(scope(() => narrow(flat, 0, from, to - from))));
      return [slot, { views: arena.viewsOf(flat), pieces }];
    }),
  );
  const room = ({ from, to }: Bucket) => uninitialised([to - from], { device: arena.flat.device });
  const eachPiece = (act: (piece: Tensor, slot: string, i: number) => void) => {
    for (const [slot, pieces] of inner.slots) pieces.forEach((piece, i) => scope(() => act(piece, slot, i)));
  };
  const stateBytes = [...inner.slots.values()].flat().reduce((sum, { byteLength }) => sum + byteLength, 0);
  return {
    owned: { buckets, arena: own },
    said: `ZeRO-1: each rank has ${formatBytes(stateBytes)} of the optimizer's state of ` +
      `${formatBytes(world * stateBytes)}`,
    optimizer: {
      type: inner.type,
      options: inner.options,
      slots: new Map([...whole].map(([slot, { views }]) => [slot, views])),
      get steps() {
        return inner.steps;
      },
      set steps(steps) {
        inner.steps = steps;
      },
      step(learningRate) {
        scope(() => weights.forEach((all, i) => copy_(own.parameters[i], part(all))));
        inner.step(learningRate);
        let last = 0;
        weights.forEach((all, i) => last = collectives.allGather(all, own.parameters[i], "weights"));
        collectives.wait(last);
      },
    },
    norm: () =>
      scope(() => {
        const norm = gradientNorm(own);
        const squares = mul(norm, norm);
        collectives.wait(collectives.allReduce(squares, "sum", "norm of the gradient"));
        return sqrt(squares);
      }),
    all: (finite) => team.reduce([finite ? 1 : 0], "min", "finite?")[0] === 1,
    gather: () =>
      eachPiece((piece, slot, i) => {
        const all = room(buckets[i]);
        collectives.wait(collectives.allGather(all, piece, "optimizer's state"));
        if (rank === 0) copy_(whole.get(slot)!.pieces[i], all);
      }),
    scatter: () =>
      eachPiece((piece, slot, i) => {
        const all = room(buckets[i]);
        if (rank === 0) copy_(all, whole.get(slot)!.pieces[i]);
        collectives.wait(collectives.broadcast(all, 0, "optimizer's state"));
        copy_(piece, part(all));
      }),
  };
}

/** All updates are element by element, so where one parameter ends and another begins does not matter. */
function ownArena({ flat }: Arena, buckets: readonly Bucket[], world: number): Arena {
  const counts = buckets.map(({ from, to }) => (to - from) / world);
  const starts = counts.map((_, i) => counts.slice(0, i).reduce((sum, count) => sum + count, 0));
  const viewsOf = (buffer: Tensor) =>
    counts.map((count, i) => keep(scope(() => narrow(buffer, 0, starts[i], count))));
  const buffer = () => keep(zeros([flat.numel / world], { device: flat.device }));
  const weights = buffer(), gradient = buffer();
  return {
    names: buckets.map((_, i) => `bucket ${i + 1}`),
    parameters: viewsOf(weights),
    gradients: viewsOf(gradient),
    flat: weights,
    starts,
    gradient,
    direct: false,
    viewsOf,
  };
}

export function refuseZero({ training, distributed }: Config): void {
  if (distributed.zero === 0) return;
  const other = training.deterministic === "world"
    ? "--deterministic=world, which adds whole gradients up in an order of its own"
    : training.optimizer.type === "lamb"
    ? "--optimizer lamb, which needs the norm of each whole parameter: take adamw, adam or sgd"
    : null;
  if (other === null) return;
  throw new UserError("usage", `--zero 1 does not go together with ${other}; or leave --zero out.`);
}
