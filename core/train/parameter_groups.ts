// Groups of parameters with settings of their own, of which some begin with a later epoch: an optimizer for each, which
// together are one.
import { addressOf, longLivedZeros, scale, tensorAt } from "../../ffi/make.ts";
import { copy_, narrow, view } from "../../ffi/ops.ts";
import { keep, scope, type Tensor } from "../../ffi/tensor.ts";
import { UserError } from "../base/errors.ts";
import type { Moved } from "../checkpoint/training_state.ts";
import type { Module } from "../models/nn/module.ts";
import { alignedStarts, type Arena } from "./arena.ts";
import { createOptimizer, optimizersThat, traitsOf } from "./optimizers.ts";
import type { Optimizer, OptimizerSettings } from "./optimizers/optimizer.ts";
import type { Grouping } from "./trained_parameters.ts";

/** The ordinary optimizer where all parameters are alike. */
export function optimizerFor(
  settings: OptimizerSettings,
  arena: Arena,
  grouping: Grouping | null,
  root: Module,
): Optimizer {
  return grouping === null
    ? createOptimizer(settings, arena, root)
    : groupedOptimizer(settings, arena, grouping);
}

type Parts = ReturnType<typeof partsOf>;

function partsOf(settings: OptimizerSettings, arena: Arena, { groups, of }: Grouping) {
  return groups.map(({ factor, begins, turn, optimizer: more }, group) => {
    const members = of.flatMap((one, i) => one === group ? [i] : []);
    const own = { ...settings, ...more }, whole = partOf(arena, members);
    const part = turn === undefined ? whole : apart(whole);
    return {
      factor,
      begins,
      turn,
      members,
      settings: own,
      arena: part,
      optimizer: createOptimizer(own, part),
    };
  });
}

/**
 * The same weights by tensors of their own. All views of a tensor share the count of writes by which autograd knows that a saved
 * value was written over, and a turn's update must not spoil what another turn's weights have saved.
 */
function apart(part: Arena): Arena {
  const { flat, parameters } = part;
  if (flat.device !== "cpu") return part;
  const own = (t: Tensor) => keep(scope(() => view(tensorAt(addressOf(t), t.numel), t.shape)));
  return { ...part, flat: own(flat), parameters: parameters.map(own) };
}

export function groupedOptimizer(settings: OptimizerSettings, arena: Arena, grouping: Grouping): Optimizer {
  refuseWhole(settings);
  const { groups, of } = grouping, parts = partsOf(settings, arena, grouping);
  refuseOtherState(parts);
  let epoch = 0, taken = 0, now: number | null = null;
  const begun = () => parts.filter(({ begins }) => begins <= epoch);
  const active = () => now === null ? begun() : begun().filter(({ turn }) => turn === now);
  const [{ optimizer: { type, options, slots } }] = parts;
  const gather = () => {
    if (!arena.direct) return;
    for (const { members, arena: own } of parts) {
      members.forEach((at, i) => (own.gradients as Tensor[])[i] = arena.gradients[at]);
    }
  };
  const numbers = parts.flatMap(({ optimizer: { numbers } }) => numbers ? [numbers] : []);
  const updates = parts.every(({ optimizer }) => optimizer.onDevice !== undefined);
  const base = parts.find(({ factor }) => factor === 1)?.optimizer.onDevice;
  const rate = updates ? base?.rate ?? keep(longLivedZeros([], { device: arena.flat.device })) : null;
  return {
    type,
    options,
    slots: new Map([...slots.keys()].map((name) => [name, slotOf(parts, name)])),
    get steps() {
      return taken;
    },
    set steps(steps) {
      taken = steps;
      for (const { optimizer } of begun()) optimizer.steps = steps;
    },
    advance: () => ++taken,
    groups: {
      ...{ of, parts },
      factors: groups.map(({ factor }) => factor),
      options: parts.map(({ optimizer: { options } }) => options),
      clipNorms: groups.map(({ clipNorm }) => clipNorm),
      get steps() {
        return parts.map(({ optimizer }) => optimizer.steps);
      },
      set steps(steps) {
        parts.forEach(({ optimizer }, i) => optimizer.steps = steps[i]);
      },
      ...(numbers.length > 0 && { numbers }),
      begin(next) {
        epoch = next;
      },
      turn(next) {
        now = next;
      },
    },
    ...(parts.every(({ optimizer }) => optimizer.move) && {
      move: (to: Moved) => parts.forEach(({ optimizer }) => optimizer.move!(to)),
    }),
    step(lr, found = null) {
      if (!now) taken++; // a step of several turns is one
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
            if (onDevice !== base) {
              scope(() => copy_(onDevice!.rate, factor === 1 ? rate : scale(rate, factor)));
            }
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

/** The state of this name, in the arena's order. */
function slotOf(parts: Parts, name: string): Tensor[] {
  const all: Tensor[] = [];
  for (const { members, optimizer } of parts) {
    members.forEach((at, i) => all[at] = optimizer.slots.get(name)![i]);
  }
  return all;
}

function refuseWhole(settings: OptimizerSettings): void {
  if (traitsOf(settings).perElement) return;
  throw new UserError(
    "usage",
    `--optimizer ${settings.type} takes all weights together: groups with rates, settings or beginnings of their own ` +
      `(--param-group, --lr-for, --layer-decay, --freeze-until, --unfreeze) need one of ` +
      `${optimizersThat(({ perElement }) => perElement).join(", ")}.`,
  );
}

/** A checkpoint has the same state of each parameter. */
function refuseOtherState(parts: Parts): void {
  const kept = parts.map(({ optimizer: { slots } }) => [...slots.keys()].join(", "));
  const other = kept.findIndex((names) => names !== kept[0]);
  if (other < 0) return;
  throw new UserError(
    "usage",
    `--param-group gives one group the state ${kept[0] || "of none"} and another ${
      kept[other] || "none"
    }: settings that ` +
      "decide what an optimizer keeps (amsgrad, centered, a momentum of 0) are the same for all groups.",
  );
}

/** Some of the arena's parameters, which lie side by side, but for those of a rank's parts of buckets. */
function partOf(arena: Arena, members: readonly number[]): Arena {
  const of = <T>(all: readonly T[]) => members.map((i) => all[i]), { flat, gradient, direct } = arena;
  const parameters = of(arena.parameters), counts = parameters.map(({ numel }) => numel);
  const aligned = alignedStarts(counts), [first] = members, last = members.at(-1)!;
  const piece = arena.memory.length === 1 && arena.memory[0] === gradient && members.length > 0 &&
    last - first === members.length - 1;
  const end = piece ? arena.starts[last + 1] ?? flat.numel : 0;
  const place = (t: Tensor) =>
    keep(scope(() => narrow(t, 0, arena.starts[first], end - arena.starts[first])));
  const { starts, total } = piece
    ? { starts: members.map((i) => arena.starts[i] - arena.starts[first]), total: end - arena.starts[first] }
    : aligned.total <= flat.numel
    ? aligned
    : alignedStarts(counts, 1);
  const own = piece && !direct ? place(gradient) : gradient, gradients = direct ? [] : of(arena.gradients);
  return {
    ...{ names: of(arena.names), parameters, starts, direct, gradients },
    flat: piece ? place(flat) : keep(scope(() => narrow(flat, 0, 0, total))), // its length and its place only
    gradient: own,
    memory: piece ? [own] : gradients,
    ...(arena.sumsAsTorch && { sumsAsTorch: arena.sumsAsTorch }),
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
