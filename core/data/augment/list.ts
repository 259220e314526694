// `--augment`: a list of transforms by torchvision's names, or ours, becomes steps, which are plain data for threads.
import { type Call, isCall, parseCalls, type Value } from "../../base/calls.ts";
import { UserError } from "../../base/errors.ts";
import { didYouMean } from "../../base/suggest.ts";
import {
  anything,
  type Arguments,
  chance,
  number,
  numbers,
  optionsOf,
  textOf,
  truth,
  whole,
} from "./arguments.ts";
import type { Scale } from "./erase.ts";
import type { Kind, Options, Shape } from "./kind.ts";
import { KINDS } from "./kinds.ts";
import { MASKED_LANGUAGE, type MaskedLanguage } from "./masked_language.ts";
import { DRAWS_OF_A_STEP, FIRST_DRAW } from "./sample.ts";

export interface Step {
  readonly kind: string;
  readonly options: Options;
  /** The number of its first draw. */
  readonly first: number;
  /** A choice among steps has them. */
  readonly inner?: readonly Step[];
  /** As it was written. */
  readonly text: string;
}

export interface List {
  readonly steps: readonly Step[];
  readonly mixup: number;
  readonly cutmix: number;
  /** So often comes each sample in an epoch. */
  readonly repeats: number;
  readonly normalise: { readonly mean: readonly number[]; readonly std: readonly number[] } | null;
  /** Tokens of a text are hidden so. */
  readonly masked: MaskedLanguage | null;
  /** Words of scripts that ask for what is done anyway. */
  readonly done: readonly string[];
}

const CHOICES: Readonly<Record<string, Arguments>> = {
  random_apply: { transforms: anything(), p: chance(0.5) },
  random_choice: { transforms: anything(), p: anything() },
  random_order: { transforms: anything() },
};

/** These are no steps of a sample. */
const WORDS: Readonly<Record<string, Arguments>> = {
  mixup: { alpha: number(1, { min: 0, above: true, max: 100 }), num_classes: anything() },
  cutmix: { alpha: number(1, { min: 0, above: true, max: 100 }), num_classes: anything() },
  repeated_augmentation: { times: whole(3, { min: 1, max: 1000 }) },
  normalize: { mean: numbers(), std: numbers(), inplace: truth(false) },
  masked_language: MASKED_LANGUAGE,
  compose: { transforms: anything() },
};

/** Samples become numbers without them. */
const DONE = [
  "ToTensor",
  "PILToTensor",
  "ToImage",
  "ToImageTensor",
  "ToPureTensor",
  "ToDtype",
  "ConvertImageDtype",
  "RGB",
  "Identity",
];
const SHARES = ["totensor", "todtype", "convertimagedtype"];

const US: readonly (readonly [RegExp, string])[] = [
  [/colour/g, "color"],
  [/centre/g, "center"],
  [/grey/g, "gray"],
  [/normalise/g, "normalize"],
];

/** T.RandomResizedCrop and random_resized_crop are one, and centre and center. */
const plain = (name: string): string =>
  US.reduce(
    (text, [from, to]) => text.replace(from, to),
    name.slice(name.lastIndexOf(".") + 1).toLowerCase().replaceAll(/[_-]/g, ""),
  );

const NAMES = new Map<string, string>();
for (const [name, { also = [] }] of Object.entries(KINDS)) {
  for (const one of [name, ...also]) {
    NAMES.set(plain(one), name);
    if (!NAMES.has(`random${plain(one)}`)) NAMES.set(`random${plain(one)}`, name);
  }
}
for (const name of ["random_grayscale", ...Object.keys(CHOICES), ...Object.keys(WORDS)]) {
  NAMES.set(plain(name), name);
}
for (const name of DONE) NAMES.set(plain(name), plain(name));

const SHOWN = [...Object.keys(KINDS), ...Object.keys(CHOICES), ...Object.keys(WORDS)];

interface Reading {
  count: number;
  shares: boolean;
  normalise: List["normalise"];
  masked: MaskedLanguage | null;
  mixup: number;
  cutmix: number;
  repeats: number;
  done: string[];
}

const lists = new Map<string, List>();

/** Null of an empty text. */
export function listOf(text: string): List | null {
  if (text.trim() === "") return null;
  const known = lists.get(text);
  if (known) return known;
  const reading: Reading = {
    ...{ count: 0, shares: false, normalise: null, masked: null, mixup: 0, cutmix: 0, repeats: 1, done: [] },
  };
  const steps = stepsOf(parseCalls(text, "--augment"), reading, true);
  const { mixup, cutmix, repeats, normalise, masked, done } = reading;
  const list = { steps, mixup, cutmix, repeats, normalise, masked, done };
  lists.set(text, list);
  return list;
}

const stepsOf = (calls: readonly Call[], reading: Reading, outermost: boolean): Step[] =>
  calls.flatMap((call) => stepOf(call, reading, outermost));

function stepOf(call: Call, reading: Reading, outermost: boolean): Step[] {
  const name = NAMES.get(plain(call.name));
  if (name === undefined) {
    const bare = call.name.slice(call.name.lastIndexOf(".") + 1);
    const hint = didYouMean(bare, SHOWN) || didYouMean(bare.replace(/^random_?/i, ""), SHOWN) ||
      ` The transforms are ${SHOWN.join(", ")}.`;
    throw new UserError("usage", `--augment "${call.text}" is no transform that is known here.${hint}`);
  }
  const first = FIRST_DRAW + reading.count++ * DRAWS_OF_A_STEP;
  if (Object.hasOwn(CHOICES, name)) {
    const { transforms, ...options } = optionsOf(call, CHOICES[name], name);
    const inner = stepsOf(callsOf(transforms as Value, call), reading, false);
    return [{ kind: name, options: weighed(options, inner.length, call), first, inner, text: call.text }];
  }
  if (Object.hasOwn(KINDS, name)) {
    const options = optionsOf(call, KINDS[name].takes, name);
    const { shares, normalise } = reading;
    const after: Scale = { shares, mean: normalise?.mean ?? null, std: normalise?.std ?? null };
    return [{
      kind: name,
      options: "after" in options ? { ...options, after } : options,
      first,
      text: call.text,
    }];
  }
  if (name !== "compose" && !outermost) {
    throw new UserError(
      "usage",
      `--augment "${call.text}" is for a whole list, and can't be one of a choice.`,
    );
  }
  return wordOf(name, call, reading, outermost);
}

function wordOf(name: string, call: Call, reading: Reading, outermost: boolean): Step[] {
  if (!Object.hasOwn(WORDS, name)) {
    reading.done.push(call.text);
    reading.shares ||= SHARES.includes(name);
    return [];
  }
  const options = optionsOf(call, WORDS[name], name) as Record<string, number> & { transforms: Value };
  switch (name) {
    case "compose":
      return stepsOf(callsOf(options.transforms, call), reading, outermost);
    case "mixup":
    case "cutmix":
      reading[name] = options.alpha;
      return [];
    case "repeated_augmentation":
      reading.repeats = options.times;
      return [];
    case "masked_language":
      reading.masked = maskedIn(options as unknown as MaskedLanguage, call);
      return [];
    default: {
      const { mean, std } = options as unknown as { mean: readonly number[]; std: readonly number[] };
      if (std.some((value) => value <= 0)) {
        throw new UserError(
          "usage",
          `--augment "${call.text}": values are divided by std, so it must be above 0.`,
        );
      }
      reading.normalise = { mean, std };
      reading.shares = true;
      return [];
    }
  }
}

function maskedIn(options: MaskedLanguage, { text }: Call): MaskedLanguage {
  const { mask_replace_prob, random_replace_prob } = options;
  if (mask_replace_prob + random_replace_prob <= 1 + 1e-9) return options;
  throw new UserError(
    "usage",
    `--augment "${text}": mask_replace_prob and random_replace_prob are shares of the hidden tokens, and come to more than 1.`,
  );
}

function callsOf(value: Value, of: Call): Call[] {
  const list = Array.isArray(value) ? value : [value];
  return list.map((one: Value): Call => {
    if (typeof one === "object" && one !== null && isCall(one)) return one;
    if (typeof one === "string") return { name: one, values: [], named: new Map(), text: one };
    throw new UserError(
      "usage",
      `--augment "${of.text}": ${of.name} takes a list of transforms, such as ${of.name}([horizontal_flip, rotation(10)]), and not ${
        textOf(one)
      }.`,
    );
  });
}

/** A choice's weights become shares of 1. */
function weighed(options: Options, count: number, call: Call): Options {
  if (!/choice$/i.test(call.name)) return options;
  const weights: unknown = options.p ?? Array.from({ length: count }, () => 1);
  const good = Array.isArray(weights) && weights.length === count &&
    weights.every((one) => typeof one === "number" && one >= 0) && weights.some((one) => one > 0);
  if (!good) {
    throw new UserError(
      "usage",
      `--augment "${call.text}": p has a weight for each of the ${count} transforms, such as [0.7, 0.3].`,
    );
  }
  const sum = (weights as number[]).reduce((a, b) => a + b, 0);
  return { p: (weights as number[]).map((one) => one / sum) };
}

/** All steps, those within choices too. */
export const everyStep = (steps: readonly Step[]): Step[] =>
  steps.flatMap((step) => [step, ...everyStep(step.inner ?? [])]);

/** Steps of a table's kind, in which a choice is none. */
export const kindOf = ({ kind }: Step): Kind | undefined =>
  Object.hasOwn(KINDS, kind) ? KINDS[kind] : undefined;

/** Evaluation does all that is not random, and takes the middle for a random crop. */
export function stillSteps(steps: readonly Step[]): Step[] {
  return steps.flatMap((step): Step[] => {
    if (step.kind === "random_order") return stillSteps(step.inner ?? []);
    const still = kindOf(step)?.still;
    if (!still) return [];
    if (still === true) return [step];
    return still(step.options).map(([kind, options]) => ({ ...step, kind, options }));
  });
}

const SIZES = ["random_resized_crop", "resize", "centre_crop", "random_crop"];

/** The list itself says how large training's samples are. */
export const setsSize = (list: List | null): boolean =>
  list !== null && everyStep(list.steps).some(({ kind }) => SIZES.includes(kind));

/** The shape that a sample of this one comes to, or why it doesn't. */
export function shapeAfter(steps: readonly Step[], from: Shape): Shape | string {
  let shape = from;
  for (const step of steps) {
    const next = shapeAfterOne(step, shape);
    if (typeof next === "string") return next;
    shape = next;
  }
  return shape;
}

function shapeAfterOne(step: Step, from: Shape): Shape | string {
  const { inner } = step;
  if (!inner) {
    if (kindOf(step)!.acts === "colours" && from[0] !== 1 && from[0] !== 3) {
      return `has ${from[0]} channels, and ${step.kind} is for pictures of 1 or 3`;
    }
    return kindOf(step)!.after?.(step.options, from) ?? from;
  }
  const ways = step.kind === "random_choice"
    ? inner.map((one) => shapeAfterOne(one, from))
    : [shapeAfter(inner, from), ...(step.kind === "random_apply" ? [from] : [])];
  const problem = ways.find((way) => typeof way === "string");
  if (problem !== undefined) return problem;
  if (ways.every((way) => String(way) === String(ways[0]))) return ways[0] ?? from;
  return `comes out of ${step.kind} in several sizes, and a batch needs one: put what changes the size before or behind it`;
}
