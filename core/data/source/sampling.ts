// --sampling: which samples an epoch takes. By default each comes once; classes can come equally often, or samples by weights that
// a column has. Each position of an epoch is computed from seed, epoch and position, like the plain order.
import { toNumbers } from "../../../ffi/make.ts";
import { scope } from "../../../ffi/tensor.ts";
import { UserError } from "../../base/errors.ts";
import { formatPlural } from "../../base/format.ts";
import { key, permutation, uniform } from "../../base/random.ts";
import type { Config } from "../../settings/settings.ts";
import { type Order, order } from "./order.ts";
import { batchOf, plainPart, type Source } from "./source.ts";

export interface Sampling {
  /** The order of an epoch. */
  of(epoch: number): Order;
  /** It is told at the start; null where each sample comes once. */
  readonly note: string | null;
}

type Settings = Pick<Config["data"], "shuffle" | "sampling">;

const WEIGHTS = /^weights:\s*(\S.*)$/;

/** The column that says how often a sample comes; null where none does. */
export const weightsColumn = ({ sampling }: Pick<Settings, "sampling">): string | null =>
  WEIGHTS.exec(sampling)?.[1].trim() ?? null;

export function openSampling({ shuffle, sampling }: Settings, seed: number, source: Source): Sampling {
  if (sampling === "") return { of: (epoch) => order(source.length, seed, epoch, shuffle), note: null };
  if (!shuffle) {
    throw new UserError(
      "usage",
      `--sampling ${sampling} draws another order in each epoch, and --no-shuffle keeps the data's: leave one of them out.`,
    );
  }
  return sampling === "balanced" ? balanced(source, seed) : weighted(source, seed, sampling);
}

/**
 * Each run of as many positions as there are classes has every class once. The samples of a class come one
 * after the other, in an order that is drawn anew when all have been there.
 */
function balanced(source: Source, seed: number): Sampling {
  const members = membersOf(source), count = members.length, { length } = source;
  const sizes = members.map((samples) => samples.length);
  return {
    note:
      `Balanced sampling: an epoch takes ${
        formatPlural(length, "sample")
      }, as many of each of ${count} classes ` +
      `(the data has ${Math.min(...sizes)} to ${Math.max(...sizes)} of each)`,
    of(epoch) {
      const ofBlock = remembered((block) => permutation(count, key(seed, "balanced classes", epoch, block)));
      const ofClass = sizes.map((size, own) =>
        remembered((round) => permutation(size, key(seed, "balanced samples", epoch, own, round)))
      );
      return {
        length,
        at(position) {
          const block = Math.floor(position / count), own = ofBlock(block)(position % count);
          const size = sizes[own], round = Math.floor(block / size);
          return members[own][ofClass[own](round)(block % size)];
        },
      };
    },
  };
}

/** Positions come in order, so the last one made is nearly always the one asked for. */
function remembered<T>(make: (i: number) => T): (i: number) => T {
  let last = -1, made: T;
  return (i) => {
    if (i !== last) made = make(last = i);
    return made;
  };
}

const AT_ONCE = 256;

/** The samples of each class that has some, in their order. */
function membersOf(source: Source): Int32Array[] {
  const { facts: { task, outputs, targetless }, name } = source;
  if (task !== "classification" || targetless) {
    throw new UserError(
      "usage",
      `--sampling balanced takes each class equally often, and a sample of ${name} has no class: leave it out, or give a ` +
        "table's or grid's own weights by --sampling weights:COLUMN.",
    );
  }
  const labels = source.labels?.() ?? labelsRead(source);
  const all = Array.from({ length: Math.max(2, outputs) }, (): number[] => []);
  for (let i = 0; i < source.length; i++) all[labels[i]]?.push(i);
  const present = all.filter((samples) => samples.length > 0).map((samples) => Int32Array.from(samples));
  if (present.length > 0) return present;
  throw new UserError("data", `--sampling balanced: no training sample of ${name} has a known class.`);
}

function labelsRead(source: Source): Float64Array {
  const labels = new Float64Array(source.length);
  for (let from = 0; from < source.length; from += AT_ONCE) {
    const ids = Int32Array.from({ length: Math.min(AT_ONCE, source.length - from) }, (_, i) => from + i);
    scope(() => {
      const { target } = batchOf(source, plainPart(ids));
      if (target.numel !== ids.length) {
        throw new UserError(
          "usage",
          `--sampling balanced needs one class for each sample, and the targets of ${source.name} are [${
            target.shape.slice(1).join(", ")
          }] of each: leave it out.`,
        );
      }
      labels.set(toNumbers(target), from);
    });
  }
  return labels;
}

/** Drawn with replacement, as PyTorch's WeightedRandomSampler draws. */
function weighted(source: Source, seed: number, sampling: string): Sampling {
  const { length, name } = source, column = weightsColumn({ sampling });
  const weights = source.sampleWeights;
  if (!weights) {
    throw new UserError(
      "usage",
      `--sampling ${sampling} takes weights from a column of a table or a variable of a grid, and ${name} has none: use ` +
        "--sampling balanced, or leave it out.",
    );
  }
  const odd = weights.findIndex((weight) => !(weight >= 0 && weight < Infinity));
  if (odd >= 0) {
    throw new UserError(
      "data",
      `${column} of ${name} is ${
        weights[odd]
      } at training sample ${odd} (counted from 0), which is no weight: give ` +
        "numbers from 0 on.",
    );
  }
  const upTo = new Float64Array(length);
  let total = 0;
  weights.forEach((weight, i) => upTo[i] = total += weight);
  if (!(total > 0)) {
    throw new UserError("data", `${column} of ${name} is 0 for all training samples: none can be drawn.`);
  }
  return {
    note: `Weighted sampling: an epoch draws ${
      formatPlural(length, "sample")
    } by ${column}, some more than once`,
    of(epoch) {
      const draw = uniform(key(seed, "weighted", epoch));
      return { length, at: (position) => firstAbove(upTo, draw(position) * total) };
    },
  };
}

/** The first place whose value is greater. */
function firstAbove(values: Float64Array, wanted: number): number {
  let from = 0, to = values.length - 1;
  while (from < to) {
    const middle = (from + to) >> 1;
    if (values[middle] > wanted) to = middle;
    else from = middle + 1;
  }
  return from;
}
