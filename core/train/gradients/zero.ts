// --zero 1: each rank updates a part of the weights, and keeps that part of the optimizer's state.
import { constant, uninitialised, zeros } from "../../../ffi/make.ts";
import { cat, clamp_, copy_, mul, narrow, sqrt } from "../../../ffi/ops.ts";
import { keep, scope, type Tensor } from "../../../ffi/tensor.ts";
import type { Config } from "../../settings/settings.ts";
import type { Team } from "../../ranks/team.ts";
import { UserError } from "../../base/errors.ts";
import { formatBytes } from "../../base/format.ts";
import type { Model } from "../../models/model.ts";
import { type Arena, gradientNorm } from "../arena.ts";
import type { Compiler } from "../compiler.ts";
import { createOptimizer, optimizersThat, traitsOf } from "../optimizers.ts";
import type { DeviceUpdate, Optimizer, ParameterGroups } from "../optimizers/optimizer.ts";
import { type Cut, cutByGroups, groupedOptimizer } from "../parameter_groups.ts";
import type { Grouping } from "../trained_parameters.ts";
import { type Bucket, bucketElements, bucketsOf, firstBlocks } from "./buckets.ts";
import type { GradientStrategy } from "./strategy.ts";
import type { Collectives, Ticket } from "../../ranks/collectives.ts";

/** @internal */
export interface Zero {
  readonly owned: Owned;
  /** Rank 0's slots are the whole state, as `gather` left it. */
  readonly optimizer: Optimizer;
  readonly note: string;
  norm(): Tensor;
  /** 1 where it is 1 on any rank, in place. */
  anywhere(found: Tensor): Tensor;
  /** Brings the state to rank 0, for a checkpoint. */
  gather(): void;
  /** Gives every rank its part of rank 0's state. */
  scatter(): void;
}

/** With a `compiler` the update is machine code. */
export function openZero(
  { training, distributed }: Config,
  arena: Arena,
  model: Model,
  team: Team,
  compiler: Compiler | null = null,
  grouping: Grouping | null = null,
  refused?: (why: string) => void,
): Zero {
  const { collectives, world } = team;
  const least = bucketElements(distributed.bucket_mb, collectives);
  const buckets = bucketsOf(arena.starts, arena.flat.numel, firstBlocks(arena, model), least, world);
  const owned = openOwned(arena, buckets, collectives);
  const cut = grouping && cutByGroups(owned.arena, owned.places, arena, grouping);
  const ordinary = cut
    ? groupedOptimizer(training.optimizer, cut.arena, cut.grouping)
    : createOptimizer(training.optimizer, owned.arena);
  const own = cut?.arena ?? owned.arena;
  const inner = compiler?.update(ordinary, training.optimizer, own, undefined, refused) ?? ordinary;
  const bytes = [...inner.slots.values()].flat().reduce((sum, { byteLength }) => sum + byteLength, 0);
  return {
    owned,
    note: `ZeRO-1: each rank has ${formatBytes(bytes)} of the optimizer's state of ${
      formatBytes(world * bytes)
    }`,
    ...stateOf(inner, arena, owned, team, cut && { ...cut, of: grouping!.of }),
    norm: () =>
      scope(() => {
        const norm = gradientNorm(owned.arena);
        const squares = mul(norm, norm);
        collectives.wait(collectives.allReduce(squares, "sum", "norm of the gradient"));
        return sqrt(squares);
      }),
    anywhere(found) {
      collectives.wait(collectives.allReduce(found, "sum", "gradients that are not finite"));
      clamp_(found, null, constant(1, found.dtype, found.device));
      return found;
    },
  };
}

const sharedUpdate = (inner: DeviceUpdate, share: () => void): DeviceUpdate => ({
  ...inner,
  queue(found) {
    inner.queue(found);
    share();
  },
});

/** The same groups, of whole parameters. */
const ofWhole = (inner: ParameterGroups, of: readonly number[]): ParameterGroups => ({
  of,
  ...{ factors: inner.factors, options: inner.options, clipNorms: inner.clipNorms },
  get steps() {
    return inner.steps;
  },
  set steps(steps) {
    inner.steps = steps;
  },
  ...(inner.numbers && { numbers: inner.numbers }),
  begin: inner.begin,
  turn: inner.turn,
});

/** Rank 0 has room for the whole state, in the host's memory. */
function stateOf(
  inner: Optimizer,
  arena: Arena,
  { buckets, share }: Owned,
  { rank, collectives }: Team,
  cut: (Pick<Cut, "pieces"> & Pick<ParameterGroups, "of">) | null,
): Pick<Zero, "optimizer" | "gather" | "scatter"> {
  const { flat } = arena;
  const buffers = new Map(
    rank > 0
      ? []
      : [...inner.slots.keys()].map((slot) => [slot, keep(zeros(flat.shape, { dtype: flat.dtype }))]),
  );
  const each = (act: (part: Tensor, all: Tensor, place: Tensor | null) => void) => {
    for (const [slot, parts] of inner.slots) {
      const whole = cut
        ? cut.pieces.map((pieces) => pieces.map((i) => parts[i]))
        : parts.map((part) => [part]);
      whole.forEach((pieces, i) =>
        scope(() => {
          const { from, to } = buckets[i], memory = buffers.get(slot);
          const all = uninitialised([to - from], flat);
          const part = pieces.length === 1 ? pieces[0] : cat(pieces, 0);
          act(part, all, memory ? narrow(memory, 0, from, to - from) : null);
          if (pieces.length > 1) spread(part, pieces);
        })
      );
    }
  };
  return {
    optimizer: {
      type: inner.type,
      options: inner.options,
      slots: new Map([...buffers].map(([slot, memory]) => [slot, arena.viewsOf(memory)])),
      get steps() {
        return inner.steps;
      },
      set steps(steps) {
        inner.steps = steps;
      },
      step(learningRate, found) {
        inner.step(learningRate, found);
        share();
      },
      ...(inner.move && { move: inner.move }),
      ...(inner.numbers && { numbers: inner.numbers }),
      ...(inner.groups && { groups: ofWhole(inner.groups, cut!.of) }),
      ...(inner.onDevice && { onDevice: sharedUpdate(inner.onDevice, share) }),
    },
    gather: () =>
      each((part, all, place) => {
        collectives.wait(collectives.allGather(all, part, "optimizer's state"));
        if (place) copy_(place, all);
      }),
    scatter: () =>
      each((part, all, place) => {
        if (place) copy_(all, place);
        collectives.wait(collectives.broadcast(all, 0, "optimizer's state"));
        copy_(part, narrow(all, 0, rank * part.numel, part.numel));
      }),
  };
}

/** The parts of a vector go to their places. */
function spread(vector: Tensor, places: readonly Tensor[]): void {
  let from = 0;
  for (const place of places) {
    copy_(place, narrow(vector, 0, from, place.numel));
    from += place.numel;
  }
}

export const partitionedGradients = (overlapped: GradientStrategy, zero: Zero): GradientStrategy => ({
  ...overlapped,
  updated: zero.owned.arena,
  unscale: (scaler) => zero.anywhere(scaler.unscale(zero.owned.arena)),
  norm: zero.norm,
});

export function refuseZero({ training, distributed, output }: Config): void {
  if (distributed.zero === 0) return;
  const { shardable } = traitsOf(training.optimizer);
  const others = optimizersThat(({ shardable }) => shardable === true);
  const other = training.deterministic === "world"
    ? "--deterministic=world, which adds whole gradients up in an order of its own"
    : shardable !== true
    ? `--optimizer ${training.optimizer.type}, ${shardable} (take ${
      others.join(", ").replace(/, (?=\w+$)/, " or ")
    })`
    : output.checkpoint_format === "sharded"
    ? "--checkpoint-format sharded, for which every rank has the whole state (take pt or safetensors)"
    : null;
  if (other === null) return;
  throw new UserError("usage", `--zero 1 does not go together with ${other}: leave one of them out.`);
}

// A rank owns one n-th of each bucket, in the arena.

type Owned = ReturnType<typeof openOwned>;

/** So many buckets may be under way. */
const AHEAD = 4;

function openOwned(arena: Arena, buckets: readonly Bucket[], collectives: Collectives) {
  const { rank, world } = collectives;
  const counts = buckets.map(({ from, to }) => (to - from) / world);
  const slices = (buffer: Tensor) =>
    buckets.map(({ from, to }) => keep(scope(() => narrow(buffer, 0, from, to - from))));
  const parts = (buffer: Tensor) =>
    buckets.map(({ from }, i) => keep(scope(() => narrow(buffer, 0, from + rank * counts[i], counts[i]))));
  const own = ownArena(arena, counts, parts(arena.flat), parts(arena.gradient));
  const weights = slices(arena.flat), gradients = slices(arena.gradient);

  const ahead = Math.min(AHEAD, buckets.length), most = Math.max(...counts);
  const memory = keep(uninitialised([ahead * most], arena.flat));
  const buffers = counts.map((count, i) => keep(scope(() => narrow(memory, 0, (i % ahead) * most, count))));
  const tickets = counts.map((): Ticket => 0);
  const free = (bucket: number, then: (bucket: number) => void) => {
    if (bucket < 0 || tickets[bucket] === 0) return;
    collectives.wait(tickets[bucket]);
    tickets[bucket] = 0;
    then(bucket);
  };
  const settle = (then: (bucket: number) => void) => {
    for (let bucket = buckets.length - ahead; bucket < buckets.length; bucket++) free(bucket, then);
  };
  const put = (bucket: number) => void copy_(own.gradients[bucket], buffers[bucket]);
  const nothing = () => {};
  return {
    buckets,
    /** Its part of each bucket begins here in the arena. */
    places: buckets.map(({ from }, i) => from + rank * counts[i]),
    /** Its "parameters" are parts of buckets: updates are element by element. */
    arena: own,
    reduce(bucket: number): Ticket {
      free(bucket - ahead, put);
      return tickets[bucket] = collectives.reduceScatter(
        buffers[bucket],
        gradients[bucket],
        `gradients, bucket ${bucket + 1}`,
      );
    },
    settle: () => settle(put),
    share() {
      for (let bucket = 0; bucket < buckets.length; bucket++) {
        free(bucket - ahead, nothing);
        copy_(buffers[bucket], own.parameters[bucket]);
        tickets[bucket] = collectives.allGather(weights[bucket], buffers[bucket], "weights");
      }
      settle(nothing);
    },
  };
}

function ownArena(
  { flat, gradient }: Arena,
  counts: readonly number[],
  parameters: readonly Tensor[],
  gradients: readonly Tensor[],
): Arena {
  const starts = counts.map((_, i) => counts.slice(0, i).reduce((sum, count) => sum + count, 0));
  const total = counts.reduce((sum, count) => sum + count, 0);
  return {
    names: counts.map((_, i) => `bucket ${i + 1}`),
    parameters,
    gradients,
    memory: gradients,
    flat: keep(scope(() => narrow(flat, 0, 0, total))), // an optimizer needs its length only
    starts,
    gradient,
    direct: false,
    viewsOf: (buffer) => counts.map((count, i) => keep(scope(() => narrow(buffer, 0, starts[i], count)))),
  };
}
