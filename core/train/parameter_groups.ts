// Parameters with learning rates of their own, and some that begin with a later epoch: an optimizer for each group of them,
// which together are one.
import { longLivedZeros, scale } from "../../ffi/make.ts";
import { copy_, narrow, view } from "../../ffi/ops.ts";
import { keep, scope, type Tensor } from "../../ffi/tensor.ts";
import { UserError } from "../base/errors.ts";
import type { Moved } from "../checkpoint/training_state.ts";
import type { Module } from "../models/nn/module.ts";
import { alignedStarts, type Arena } from "./arena.ts";
import { createOptimizer, optimizersThat, traitsOf } from "./optimizers.ts";
import type { Optimizer, OptimizerSettings } from "./optimizers/optimizer.ts";
import type { TrainedParameters } from "./trained_parameters.ts";

/** An optimizer has to know this of its parameters. */
export type Rates = Pick<TrainedParameters, "factors" | "waiting">;

interface Group {
  readonly factor: number;
  readonly waits: boolean;
}

interface Grouping {
  readonly groups: readonly Group[];
  /** The group of each parameter. */
  readonly of: readonly number[];
}

/** The ordinary optimizer where all parameters are alike. */
export function optimizerFor(
  settings: OptimizerSettings,
  arena: Arena,
  rates: Rates,
  root: Module,
): Optimizer {
  const grouping = groupingOf(rates);
  return grouping === null
    ? createOptimizer(settings, arena, root)
    : groupedOptimizer(settings, arena, grouping);
}

/** Null where all parameters are alike. */
export function groupingOf({ factors, waiting }: Rates): Grouping | null {
  if (waiting.size === 0 && factors.every((factor) => factor === 1)) return null;
  const groups: Group[] = [];
  const of = factors.map((factor, i) => {
    const waits = waiting.has(i);
    const known = groups.findIndex((group) => group.factor === factor && group.waits === waits);
    return known >= 0 ? known : groups.push({ factor, waits }) - 1;
  });
  return { groups, of };
}

export function groupedOptimizer(
  settings: OptimizerSettings,
  arena: Arena,
  { groups, of }: Grouping,
): Optimizer {
  refuseWhole(settings);
  const parts = groups.map(({ factor, waits }, group) => {
    const members = of.flatMap((one, i) => one === group ? [i] : []);
    const own = partOf(arena, members);
    return { factor, waits, members, own, optimizer: createOptimizer(settings, own) };
  });
  let waiting = true, taken = 0;
  const active = () => parts.filter(({ waits }) => !(waits && waiting));
  const [{ optimizer: { type, options, slots } }] = parts;
  const slotOf = (name: string) => {
    const all: Tensor[] = [];
    for (const { members, optimizer } of parts) {
      members.forEach((at, i) => all[at] = optimizer.slots.get(name)![i]);
    }
    return all;
  };
  const gather = () => {
    if (!arena.direct) return;
    for (const { members, own } of parts) {
      members.forEach((at, i) => (own.gradients as Tensor[])[i] = arena.gradients[at]);
    }
  };
  const numbers = parts.flatMap(({ optimizer: { numbers } }) => numbers ? [numbers] : []);
  const updates = parts.every(({ optimizer }) => optimizer.onDevice !== undefined);
  const rate = updates ? keep(longLivedZeros([], { device: arena.flat.device })) : null;
  return {
    type,
    options,
    slots: new Map([...slots.keys()].map((name) => [name, slotOf(name)])),
    get steps() {
      return taken;
    },
    set steps(steps) {
      taken = steps;
      for (const { optimizer } of active()) optimizer.steps = steps;
    },
    groups: {
      of,
      factors: groups.map(({ factor }) => factor),
      get steps() {
        return parts.map(({ optimizer }) => optimizer.steps);
      },
      set steps(steps) {
        parts.forEach(({ optimizer }, i) => optimizer.steps = steps[i]);
      },
      ...(numbers.length > 0 && { numbers }),
      wait(on) {
        waiting = on;
      },
    },
    ...(parts.every(({ optimizer }) => optimizer.move) && {
      move: (to: Moved) => parts.forEach(({ optimizer }) => optimizer.move!(to)),
    }),
    step(lr, found = null) {
      taken++;
      gather();
      for (const { optimizer, factor, members } of active()) {
        // Where another rank updates this group, its numbers are kept here all the same.
        if (members.length > 0 || optimizer.numbers) optimizer.step(lr * factor, found);
        else optimizer.steps++;
      }
    },
    ...(rate !== null && {
      onDevice: {
        rate,
        queue(found) {
          gather();
          for (const { optimizer: { onDevice }, factor, members } of active()) {
            if (members.length === 0) continue;
            scope(() => copy_(onDevice!.rate, scale(rate, factor)));
            onDevice!.queue(found);
          }
        },
        begin() {
          taken++;
          for (const { optimizer } of active()) optimizer.onDevice!.begin();
        },
        takeBack() {
          taken--;
          for (const { optimizer } of active()) optimizer.onDevice!.takeBack();
        },
      },
    }),
  };
}

function refuseWhole(settings: OptimizerSettings): void {
  if (traitsOf(settings).perElement) return;
  throw new UserError(
    "usage",
    `--optimizer ${settings.type} takes all weights together: --lr-for, --layer-decay and --freeze-until need one of ` +
      `${optimizersThat(({ perElement }) => perElement).join(", ")}.`,
  );
}

/** Some of the arena's parameters, for an optimizer that goes through them one by one. */
function partOf(arena: Arena, members: readonly number[]): Arena {
  const of = <T>(all: readonly T[]) => members.map((i) => all[i]);
  const parameters = of(arena.parameters), counts = parameters.map(({ numel }) => numel);
  const aligned = alignedStarts(counts);
  const { starts, total } = aligned.total <= arena.flat.numel ? aligned : alignedStarts(counts, 1);
  return {
    names: of(arena.names),
    parameters,
    gradients: arena.direct ? [] : of(arena.gradients),
    memory: arena.memory,
    flat: keep(scope(() => narrow(arena.flat, 0, 0, total))), // an optimizer needs its length and its place only
    starts,
    gradient: arena.gradient,
    direct: arena.direct,
    viewsOf: (buffer) =>
      parameters.map(({ shape }, i) =>
        keep(scope(() => view(narrow(buffer, 0, starts[i], counts[i]), shape)))
      ),
  };
}

// With --zero 1 a rank updates parts of buckets, which are cut where the next parameter is of another group.

export interface Cut {
  readonly arena: Arena;
  readonly grouping: Grouping;
  /** The pieces of each part of a bucket, in order. */
  readonly pieces: readonly (readonly number[])[];
}

/** `places` are the first elements of `own`'s parts in the arena. */
export function cutByGroups(
  own: Arena,
  places: readonly number[],
  { starts }: Pick<Arena, "starts">,
  { groups, of }: Grouping,
): Cut {
  const parameters: Tensor[] = [], gradients: Tensor[] = [], group: number[] = [];
  const pieces = own.parameters.map((part, i) => {
    const from = places[i], to = from + part.numel;
    const edges = starts.flatMap((start, p) =>
      p > 0 && of[p] !== of[p - 1] && start > from && start < to ? [start] : []
    );
    return [from, ...edges].map((at, k) => {
      const end = edges[k] ?? to, cut = (t: Tensor) => keep(scope(() => narrow(t, 0, at - from, end - at)));
      parameters.push(cut(part));
      gradients.push(cut(own.gradients[i]));
      return group.push(of[starts.findLastIndex((start) => start <= at)]) - 1;
    });
  });
  const counts = parameters.map(({ numel }) => numel), { starts: ownStarts } = alignedStarts(counts, 1);
  const arena = {
    ...own,
    names: counts.map((_, i) => `part ${i + 1}`),
    parameters,
    gradients,
    starts: ownStarts,
    viewsOf: (buffer: Tensor) =>
      counts.map((count, i) => keep(scope(() => narrow(buffer, 0, ownStarts[i], count)))),
  };
  return { arena, grouping: { groups, of: group }, pieces };
}
