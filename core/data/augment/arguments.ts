// The arguments of transforms: their names in torchvision's order, their ranges, and the sentence for one that is
// not right.
import { type Call, isCall, type Value } from "../../base/calls.ts";
import { UserError } from "../../base/errors.ts";
import { didYouMean } from "../../base/suggest.ts";

export interface Argument<T> {
  /** Undefined where the value is none of these. */
  readonly read: (value: Value) => T | undefined;
  /** "it takes ..." */
  readonly says: string;
  /** Absent where it has to be given. */
  readonly otherwise?: T;
}

// deno-lint-ignore no-explicit-any
export type Arguments = Readonly<Record<string, Argument<any>>>;

/** The arguments of these declarations have these types. */
export type Read<A extends Arguments> = {
  readonly [K in keyof A]: A[K] extends Argument<infer T> ? T : never;
};

export interface Bounds {
  readonly min?: number;
  readonly max?: number;
  /** `min` itself is outside. */
  readonly above?: boolean;
}

const inside = (value: number, { min = -Infinity, max = Infinity, above = false }: Bounds): boolean =>
  value <= max && (above ? value > min : value >= min);

function range({ min, max, above }: Bounds): string {
  if (min !== undefined && max !== undefined) {
    return above ? ` above ${min}, up to ${max}` : ` from ${min} to ${max}`;
  }
  if (min === undefined) return max === undefined ? "" : ` up to ${max}`;
  return above ? ` above ${min}` : min === 0 ? " that is not negative" : ` of ${min} or more`;
}

export const number = (otherwise?: number, bounds: Bounds = {}): Argument<number> => ({
  read: (value) => typeof value === "number" && inside(value, bounds) ? value : undefined,
  says: `a number${range(bounds)}`,
  otherwise,
});

export const whole = (otherwise?: number, bounds: Bounds = {}): Argument<number> => ({
  read: (value) =>
    typeof value === "number" && Number.isInteger(value) && inside(value, bounds) ? value : undefined,
  says: `a whole number${range(bounds)}`,
  otherwise,
});

export const chance = (otherwise?: number): Argument<number> => ({
  ...number(otherwise, { min: 0, max: 1 }),
  says: "a probability from 0 to 1",
});

const isNumbers = (value: Value): value is readonly number[] =>
  Array.isArray(value) && value.every((one) => typeof one === "number");

type Pair = readonly [number, number];

/** Rising: (0.08, 1). */
export const pair = (otherwise: Pair | undefined, example: Pair, bounds: Bounds = {}): Argument<Pair> => ({
  read: (value) =>
    isNumbers(value) && value.length === 2 && value[0] <= value[1] &&
      value.every((one) => inside(one, bounds))
      ? [value[0], value[1]]
      : undefined,
  says: `two numbers${range(bounds)}, of which the first is not the larger, such as (${example.join(", ")})`,
  otherwise,
});

/** One number for both, or two, in no order. */
export const both = (otherwise: Pair | undefined, bounds: Bounds = {}): Argument<Pair> => ({
  read: (value) => {
    const two = typeof value === "number" ? [value, value] : value;
    return isNumbers(two) && two.length === 2 && two.every((one) => inside(one, bounds))
      ? [two[0], two[1]]
      : undefined;
  },
  says: `a number${range(bounds)}, or two`,
  otherwise,
});

/** A number n stands for (-n, n); two are the least and the most. */
export const angles = (otherwise?: readonly number[], lengths: readonly number[] = [2]) => ({
  read: (value: Value): readonly number[] | undefined => {
    if (typeof value === "number") return value >= 0 ? [-value, value] : undefined;
    if (!isNumbers(value) || !lengths.includes(value.length)) return undefined;
    return value.every((one, i) => i % 2 === 0 || one >= value[i - 1]) ? value : undefined;
  },
  says: "degrees: a number n, 0 or more, for -n to n, or the least and the most, such as (-10, 30)",
  otherwise,
});

/** A factor around 1: a number n stands for 1 - n to 1 + n. */
export const factor = (): Argument<Pair | null> => ({
  read: (value) => {
    if (value === null) return null;
    if (typeof value === "number") return value >= 0 ? [Math.max(0, 1 - value), 1 + value] : undefined;
    return isNumbers(value) && value.length === 2 && 0 <= value[0] && value[0] <= value[1]
      ? [value[0], value[1]]
      : undefined;
  },
  says: "a number n for factors from 1 - n to 1 + n, or the least and the most, such as (0.8, 1.2)",
  otherwise: null,
});

export const hue = (): Argument<Pair | null> => ({
  read: (value) => {
    if (value === null) return null;
    const two = typeof value === "number" ? [-value, value] : value;
    return isNumbers(two) && two.length === 2 && -0.5 <= two[0] && two[0] <= two[1] && two[1] <= 0.5
      ? [two[0], two[1]]
      : undefined;
  },
  says: "a share of the circle of hues from 0 to 0.5, or two from -0.5 to 0.5, such as (-0.1, 0.1)",
  otherwise: null,
});

export type Size = readonly [height: number, width: number];

export const LARGEST_SIDE = 65536;

/** A side, or (height, width). */
export const size = (): Argument<Size> => ({
  read: (value) => {
    const two = typeof value === "number"
      ? [value, value]
      : isNumbers(value) && value.length === 1
      ? [value[0], value[0]]
      : value;
    const good = (one: number) => Number.isInteger(one) && one > 0 && one <= LARGEST_SIDE;
    return isNumbers(two) && two.length === 2 && two.every(good) ? [two[0], two[1]] : undefined;
  },
  says: "pixels: a side, or (height, width)",
});

/** One number stays one: the shorter side. */
export const sides = (): Argument<readonly number[]> => ({
  read: (value) => {
    const list = typeof value === "number" ? [value] : value;
    const good = (one: number) => Number.isInteger(one) && one > 0 && one <= LARGEST_SIDE;
    return isNumbers(list) && (list.length === 1 || list.length === 2) && list.every(good) ? list : undefined;
  },
  says: "pixels: the shorter side, or (height, width)",
});

/** [left, top, right, bottom] */
export type Edges = readonly [number, number, number, number];

export const edges = (otherwise?: Edges): Argument<Edges> => ({
  read: (value) => {
    if (value === null) return [0, 0, 0, 0];
    const list = typeof value === "number" ? [value] : value;
    const good = (one: number) => Number.isInteger(one) && one >= 0 && one <= LARGEST_SIDE;
    if (!isNumbers(list) || !list.every(good)) return undefined;
    const [a, b, c, d] = list;
    return list.length === 1
      ? [a, a, a, a]
      : list.length === 2
      ? [a, b, a, b]
      : list.length === 4
      ? [a, b, c, d]
      : undefined;
  },
  says: "pixels: one number, (left and right, top and bottom), or (left, top, right, bottom)",
  otherwise,
});

export const word = <const W extends string>(words: readonly W[], otherwise?: W): Argument<W> => ({
  // An enumeration's name stands before a dot: InterpolationMode.BILINEAR.
  read: (value) => {
    const text = typeof value === "string"
      ? value.slice(value.lastIndexOf(".") + 1).toLowerCase()
      : undefined;
    return words.find((one) => one === text);
  },
  says: words.join(" or "),
  otherwise,
});

export const truth = (otherwise: boolean): Argument<boolean> => ({
  read: (value) => typeof value === "boolean" ? value : undefined,
  says: "true or false",
  otherwise,
});

/** It changes nothing here, and may have this value only. */
export const only = <T extends Value>(wanted: T, why: string): Argument<T> => ({
  read: (value) => value === wanted || value === null ? wanted : undefined,
  says: why,
  otherwise: wanted,
});

/** It stands outside: one number for all channels, or one for each. */
export const fill = (otherwise: readonly number[] | null): Argument<readonly number[] | null> => ({
  read: (value) =>
    value === null
      ? null
      : typeof value === "number"
      ? [value]
      : isNumbers(value) && value.length > 0
      ? value
      : undefined,
  says: "a number, or one for each channel",
  otherwise,
});

/** Any number of numbers. */
export const numbers = (): Argument<readonly number[]> => ({
  read: (value) =>
    typeof value === "number" ? [value] : isNumbers(value) && value.length > 0 ? value : undefined,
  says: "numbers, one for each channel, such as (0.485, 0.456, 0.406)",
});

/** Any number of tokens. */
export const numbersOfTokens = (): Argument<readonly number[]> => ({
  read: (value) => {
    const list = typeof value === "number" ? [value] : value;
    return isNumbers(list) && list.every((one) => Number.isInteger(one) && one >= 0) ? list : undefined;
  },
  says: "numbers of tokens, such as (0, 101, 102)",
});

/** Null where it is not given. */
export const optional = <T>({ read, says }: Argument<T>): Argument<T | null> => ({
  read: (value) => value === null ? null : read(value),
  says,
  otherwise: null,
});

export const anything = (): Argument<Value> => ({ read: (value) => value, says: "", otherwise: null });

/** The options of a call, in the order of what it takes. */
export function optionsOf(call: Call, takes: Arguments, shown: string): Record<string, unknown> {
  const names = Object.keys(takes);
  const refuse = (why: string) => new UserError("usage", `--augment "${call.text}": ${why}`);
  const usage = names.length === 0 ? `${shown} takes no arguments.` : `It takes ${names.join(", ")}.`;
  if (call.values.length > names.length) {
    throw refuse(`${shown} has ${call.values.length} arguments. ${usage}`);
  }
  const given = new Map<string, Value>(call.values.map((value, i) => [names[i], value]));
  for (const [name, value] of call.named) {
    if (!names.includes(name)) throw refuse(`${shown} has no "${name}".${didYouMean(name, names)} ${usage}`);
    if (given.has(name)) throw refuse(`${name} of ${shown} is given twice.`);
    given.set(name, value);
  }
  return Object.fromEntries(names.map((name) => {
    const { read, says, otherwise } = takes[name];
    const value = given.get(name);
    if (value === undefined) {
      if (otherwise !== undefined) return [name, otherwise];
      throw refuse(`${shown} needs ${name}: ${says}.`);
    }
    const found = read(value);
    if (found === undefined) throw refuse(`${name} of ${shown} is ${textOf(value)}, and takes ${says}.`);
    return [name, found];
  }));
}

export function textOf(value: Value): string {
  if (Array.isArray(value)) return `(${value.map(textOf).join(", ")})`;
  if (typeof value === "object" && value !== null && isCall(value)) return value.text;
  return String(value);
}
