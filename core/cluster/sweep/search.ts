// A search: how the runs of a sweep are chosen, from a space and from how earlier runs ended. Pure.
import { UserError } from "../../base/errors.ts";
import { didYouMean } from "../../base/suggest.ts";
import { key, uniform } from "../../base/random.ts";
import { parseDuration } from "../../settings/setting.ts";
import { PARTS, type Parts } from "../../parts.ts";
import { formatChoices } from "../../base/format.ts";
import type { Climber, Rungs } from "./metric.ts";
import { dimensionValue, type SearchDimension, wordOf } from "./space.ts";

/** A search beside grid and random. */
export interface SearchMethod {
  /** It tells how its runs came about: "chosen by TPE". */
  readonly how: string;
  /** Who compares its settings should know it. */
  readonly beware?: string;
  /** The next point of the space; null leaves it to chance. */
  suggest?(search: Search, number: number, earlier: readonly Earlier[]): number[] | null;
  /** It stops losers early. */
  readonly climb?: Climber;
}

const METHODS: Parts<{ readonly method: SearchMethod }> = PARTS.searches;
const OWN = ["grid", "random"];
/** It judges early stopping, of other searches too. */
const STOPS = "asha";

const SEARCHES: readonly string[] = [...OWN, ...Object.keys(METHODS)];

/** Null for grid and random. */
export async function methodOf(kind: string): Promise<SearchMethod | null> {
  if (OWN.includes(kind)) return null;
  if (Object.hasOwn(METHODS, kind)) return (await METHODS[kind].load()).method;
  throw new UserError("usage", `This hpctrain is built without the search ${kind}: use one that has it.`);
}

export async function climberOf({ rungs }: Search): Promise<Climber | null> {
  return rungs === null ? null : (await methodOf(STOPS))?.climb ?? null;
}

export interface Search {
  readonly kind: string;
  readonly space: readonly SearchDimension[];
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

export function searchOf(words: SearchWords, space: readonly SearchDimension[], seed: number): Search {
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
  const maxRuns = given === undefined ? size : Math.min(size, runCount("max-runs", given));
  return { kind, space, maxRuns, seed, rungs: rungsOf(kind, words) };
}

/** Points of a space; a range of fractions has as many as anybody asks for. */
const sizeOf = (space: readonly SearchDimension[]): number =>
  space.reduce((product, one) => {
    if (one.kind === "choice") return product * one.choices.length;
    return one.kind === "int" ? product * (one.high - one.low + 1) : Infinity;
  }, 1);

function sizeOfGrid(space: readonly SearchDimension[]): number {
  const range = space.find((one) => one.kind !== "choice");
  if (range) {
    throw new UserError(
      "usage",
      `${range.name} is a range, and a grid has lists: give its values, or draw runs with --search ${
        formatChoices(SEARCHES.slice(1))
      }.`,
    );
  }
  const size = sizeOf(space);
  if (size <= MOST_RUNS) return size;
  throw new UserError(
    "usage",
    `That would be ${size} runs, and a sweep may have ${MOST_RUNS}: draw some with --search random --max-runs N.`,
  );
}

function rungsOf(kind: string, { "first-rung": first, reduce }: SearchWords): Rungs | null {
  if (!Object.hasOwn(METHODS, STOPS)) {
    if (first === undefined && reduce === undefined) return null;
    throw new UserError(
      "usage",
      "This hpctrain is built without early stopping: leave out --first-rung and --reduce.",
    );
  }
  if (kind !== STOPS && first === undefined) {
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
  const factor = reduce === undefined ? 3 : runCount("reduce", reduce);
  if (factor < 2) {
    throw new UserError(
      "usage",
      `--reduce should be 2 or more, as one run of so many goes on, but got ${reduce}.`,
    );
  }
  return { unit, first: count, reduce: factor };
}

export function runCount(name: string, text: string): number {
  const value = Number(text);
  if (text.trim() !== "" && Number.isSafeInteger(value) && value >= 1 && value <= MOST_RUNS) return value;
  throw new UserError(
    "usage",
    `--${name} should be a whole number from 1 to ${MOST_RUNS}, but got "${text}".`,
  );
}

/** An earlier run, as the next choice sees it. */
export interface Earlier {
  /** A word for each dimension. */
  readonly words: readonly string[];
  readonly state: "done" | "pruned" | "failed" | "running";
  /** Less is better; null where there is none. */
  readonly value: number | null;
  /** How far a pruned run came. */
  readonly step: number;
}

/** A draw that was made before is made again so often, and then taken. */
const MOST_DRAWS = 200;
/** A method that comes back to the same run again and again has found what there is; then chance looks elsewhere. */
const MOST_GUIDED = 10;

/**
 * The words of run `number`, which no earlier run has. They depend on the seed and the number, and where a method
 * suggests them also on what is known of earlier runs.
 */
export async function nextWords(
  search: Search,
  number: number,
  earlier: readonly Earlier[],
): Promise<string[]> {
  if (search.kind === "grid") return gridWords(search.space, number);
  const method = await methodOf(search.kind);
  const made = new Set(earlier.map(({ words }) => words.join("\0")));
  for (let again = 0;; again++) {
    const draw = number + again * MOST_RUNS;
    const suggested = again < MOST_GUIDED ? method?.suggest?.(search, draw, earlier) ?? null : null;
    const words = drawnWords(search, draw, suggested);
    if (again === MOST_DRAWS || !made.has(words.join("\0"))) return words;
  }
}

function drawnWords({ space, seed }: Search, number: number, suggested: readonly number[] | null): string[] {
  const point = suggested ??
    space.map((dimension) => dimensionValue(dimension, uniform(key(seed, "sweep", dimension.name))(number)));
  return space.map((dimension, d) => wordOf(dimension, point[d]));
}

/** The last dimension goes fastest. */
function gridWords(space: readonly SearchDimension[], number: number): string[] {
  let rest = number;
  return space.toReversed().map((dimension) => {
    const choices = dimension.kind === "choice" ? dimension.choices : [];
    const word = choices[rest % choices.length];
    rest = Math.floor(rest / choices.length);
    return word;
  }).toReversed();
}
