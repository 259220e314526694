// A search: how the runs of a sweep are chosen, from a space and from how earlier runs ended. Pure.
import { UserError } from "../../base/errors.ts";
import { didYouMean } from "../../base/suggest.ts";
import { key, uniform } from "../../base/random.ts";
import { parseDuration } from "../../settings/setting.ts";
import type { Rungs } from "./rungs.ts";
import { type Dimension, valueAt, valueOf, wordOf } from "./space.ts";
import { suggest, type Tried } from "./tpe.ts";

export const SEARCHES = ["grid", "random", "tpe", "asha"] as const;
export type SearchKind = (typeof SEARCHES)[number];

export interface Search {
  readonly kind: SearchKind;
  readonly space: readonly Dimension[];
  readonly maxRuns: number;
  readonly seed: number;
  /** Early stopping; null lets every run come to its end. */
  readonly rungs: Rungs | null;
}

export interface SearchWords {
  readonly search: string;
  readonly "max-runs"?: string;
  readonly "first-rung"?: string;
  readonly reduce?: string;
}

const MOST_RUNS = 10_000;

export function searchOf(words: SearchWords, space: readonly Dimension[], seed: number): Search {
  const kind = SEARCHES.find((one) => one === words.search);
  if (kind === undefined) {
    throw new UserError(
      "usage",
      `--search should be one of ${SEARCHES.join(", ")}, but got "${words.search}".${
        didYouMean(words.search, SEARCHES)
      }`,
    );
  }
  const size = kind === "grid" ? sizeOfGrid(space) : sizeOf(space);
  const given = words["max-runs"];
  if (given === undefined && kind !== "grid") {
    throw new UserError(
      "usage",
      `--search ${kind} draws runs until there are enough: say how many with --max-runs N.`,
    );
  }
  const maxRuns = given === undefined ? size : Math.min(size, wholeNumber("max-runs", given));
  return { kind, space, maxRuns, seed, rungs: rungsOf(kind, words) };
}

/** Points of a space; a range of fractions has as many as anybody asks for. */
const sizeOf = (space: readonly Dimension[]): number =>
  space.reduce((product, one) => {
    if (one.kind === "choice") return product * one.choices.length;
    return one.kind === "int" ? product * (one.high - one.low + 1) : Infinity;
  }, 1);

function sizeOfGrid(space: readonly Dimension[]): number {
  const range = space.find((one) => one.kind !== "choice");
  if (range) {
    throw new UserError(
      "usage",
      `${range.name} is a range, and a grid has lists: give its values, or draw runs with --search random, tpe or asha.`,
    );
  }
  const size = sizeOf(space);
  if (size <= MOST_RUNS) return size;
  throw new UserError(
    "usage",
    `That would be ${size} runs, and a sweep may have ${MOST_RUNS}: draw some with --search random --max-runs N.`,
  );
}

function rungsOf(kind: SearchKind, { "first-rung": first, reduce }: SearchWords): Rungs | null {
  if (kind !== "asha" && first === undefined) {
    if (reduce === undefined) return null;
    throw new UserError(
      "usage",
      "--reduce says how many runs go on from a rung: it belongs to --search asha, or to --first-rung 1ep.",
    );
  }
  const duration = parseDuration(first ?? "1ep", "epochs");
  const { count, unit } = duration ?? { count: 0, unit: "epochs" };
  if ((unit !== "epochs" && unit !== "steps") || !Number.isSafeInteger(count) || count < 1) {
    throw new UserError(
      "usage",
      `--first-rung should be epochs or steps, such as 1ep or 500steps, but got "${first}".`,
    );
  }
  const factor = reduce === undefined ? 3 : wholeNumber("reduce", reduce);
  if (factor < 2) {
    throw new UserError(
      "usage",
      `--reduce should be 2 or more, as one run of so many goes on, but got ${reduce}.`,
    );
  }
  return { unit, first: count, reduce: factor };
}

export function wholeNumber(name: string, text: string): number {
  const value = Number(text);
  if (text.trim() !== "" && Number.isSafeInteger(value) && value >= 1 && value <= MOST_RUNS) return value;
  throw new UserError(
    "usage",
    `--${name} should be a whole number from 1 to ${MOST_RUNS}, but got "${text}".`,
  );
}

/** An earlier run, as the next choice sees it. */
export interface Earlier extends Omit<Tried, "point"> {
  /** A word for each dimension. */
  readonly words: readonly string[];
}

/** A draw that was made before is made again so often, and then taken. */
const MOST_DRAWS = 200;
/** TPE that comes back to the same run again and again has found what there is; then it looks elsewhere. */
const MOST_GUIDED = 10;

/**
 * The words of run `number`, which no earlier run has. All searches but TPE depend on the seed and the number
 * alone; TPE also on what is known of earlier runs. `value` of those is to be minimised.
 */
export function nextWords(search: Search, number: number, earlier: readonly Earlier[]): string[] {
  if (search.kind === "grid") return gridWords(search.space, number);
  const made = new Set(earlier.map(({ words }) => words.join("\0")));
  for (let again = 0;; again++) {
    const words = drawnWords(search, number + again * MOST_RUNS, { earlier, guided: again < MOST_GUIDED });
    if (again === MOST_DRAWS || !made.has(words.join("\0"))) return words;
  }
}

function drawnWords(
  search: Search,
  number: number,
  { earlier, guided }: { earlier: readonly Earlier[]; guided: boolean },
): string[] {
  const { kind, space, seed } = search;
  const point = (kind === "tpe" && guided ? suggested(search, number, earlier) : null) ??
    space.map((dimension) => valueAt(dimension, uniform(key(seed, "sweep", dimension.name))(number)));
  return space.map((dimension, d) => wordOf(dimension, point[d]));
}

function suggested({ space, seed }: Search, number: number, earlier: readonly Earlier[]): number[] | null {
  const tried = earlier.map(({ words, ...rest }): Tried => ({
    ...rest,
    point: space.map((dimension, d) => valueOf(dimension, words[d])),
  }));
  return suggest(space, tried, key(seed, "sweep", "tpe", number));
}

/** The last dimension goes fastest. */
function gridWords(space: readonly Dimension[], number: number): string[] {
  let rest = number;
  return space.toReversed().map((dimension) => {
    const choices = dimension.kind === "choice" ? dimension.choices : [];
    const word = choices[rest % choices.length];
    rest = Math.floor(rest / choices.length);
    return word;
  }).toReversed();
}
