// The steps of --augment meet a source: it is a picture or a map, its targets follow or don't, and evaluation does a part of
// them.
import { isFloating } from "../../../ffi/dtype.ts";
import type { Config } from "../../settings/settings.ts";
import { UserError } from "../../base/errors.ts";
import { everyStep, kindOf, type List, listOf, setsSize, type Step, stillSteps } from "../augment/list.ts";
import type { Steps } from "../augment/run.ts";
import type { Role } from "../augment/sample.ts";
import type { Field } from "../source/reader.ts";
import type { Source } from "../source/source.ts";

/** Bytes, and image files of 16 bits; all other numbers are quantities on a map. */
const roleOf = ({ usual }: Source, { dtype }: Field): Role =>
  dtype === "u8" || (usual !== undefined && dtype === "f32") ? "picture" : "map";

const isMap = (source: Source, stored: Field): boolean =>
  roleOf(source, stored) === "map" && isFloating(stored.dtype);

export const inputSteps = (steps: readonly Step[], source: Source, stored: Field): Steps => ({
  ...{ steps, role: roleOf(source, stored), target: false },
  outside: isMap(source, stored) ? NaN : null,
});

interface Classes {
  readonly perPixel: boolean;
  readonly ignored: number;
  readonly name: string;
}

export function targetSteps(
  steps: readonly Step[],
  { dtype }: Field,
  { perPixel, ignored, name }: Classes,
): Steps {
  const bytes = dtype === "u8" && (ignored < 0 || ignored > 255);
  const opening = everyStep(steps).find((step) =>
    step.kind !== "random_erasing" && kindOf(step)?.opens?.(step.options)
  );
  if (perPixel && bytes && opening) {
    throw new UserError(
      "usage",
      `--augment "${opening.text}" brings points from outside into the labels of ${name}, which get the ignored class ${ignored}, ` +
        "and their numbers go from 0 to 255: add --set training.ignore_index=255, or another class that does not count.",
    );
  }
  const outside = perPixel ? ignored : isFloating(dtype) ? NaN : 0;
  return { steps, role: perPixel ? "classes" : "map", outside, target: true };
}

/** The sentence for a step that is not for such samples. */
export function checkSteps(steps: readonly Step[], source: Source, stored: Field): void {
  const { name, vectors, facts: { task }, target } = source;
  const refuse = ({ text }: Step, why: string) => new UserError("usage", `--augment "${text}" ${why}.`);
  if (steps.length === 0) return;
  const [first] = steps, shape = `[${stored.shape.join(", ")}]`;
  if (task === "language") {
    throw refuse(first, `is for pictures and maps, and ${name} holds text: leave it out`);
  }
  const series = stored.shape.length === 2;
  const odd = series ? everyStep(steps).find((step) => kindOf(step)?.series !== true) : first;
  if (odd && stored.shape.length !== 3) {
    throw refuse(
      odd,
      `is for pictures and maps of [channels, height, width], and samples of ${name} are ${shape}: leave it out`,
    );
  }
  if (stored.dtype === "f16" || stored.dtype === "bf16") {
    throw refuse(first, `can't calculate with ${stored.dtype}, which ${name} holds: store it as f32`);
  }
  const role = roleOf(source, stored), mapped = target.shape.length > 1;
  for (const step of everyStep(steps)) {
    const kind = kindOf(step);
    if (!kind) continue;
    const coloured = kind.acts === "colours" || kind.acts === "both";
    if (coloured && role === "map") {
      throw refuse(
        step,
        `changes colours, and ${name} holds ${stored.dtype} of ${shape}, which are quantities: store pictures as bytes (u8), ` +
          "or take transforms of places, such as horizontal_flip and rotation",
      );
    }
    if (kind.alone && mapped) {
      throw refuse(
        step,
        "mixes a picture with itself at other places, which masks can't follow: leave it out",
      );
    }
    if (vectors && kind.bends?.(step.options)) {
      throw refuse(step, "bends the map, and --vectors follow turns and flips alone: leave one of them out");
    }
  }
}

/** The settings that words of the list stand for. */
export function withWords(data: Config["data"]): Config["data"] {
  const list = listOf(data.augment);
  if (!list) return data;
  const twice = (flag: string, word: string) =>
    new UserError("usage", `--augment says ${word}, and ${flag} is given as well: leave one of them out.`);
  if (list.mixup > 0 && data.mixup > 0 && list.mixup !== data.mixup) {
    throw twice("--mixup", `mixup(${list.mixup})`);
  }
  if (list.cutmix > 0 && data.cutmix > 0 && list.cutmix !== data.cutmix) {
    throw twice("--cutmix", `cutmix(${list.cutmix})`);
  }
  const { normalise } = list;
  const named = (values: readonly number[]) => values.map(String);
  if (normalise && data.mean.length > 0 && data.mean.map(Number).join() !== normalise.mean.join()) {
    throw twice("--mean", "another mean to normalise with");
  }
  return {
    ...data,
    mixup: list.mixup || data.mixup,
    cutmix: list.cutmix || data.cutmix,
    ...(normalise && { mean: named(normalise.mean), std: named(normalise.std) }),
  };
}

/** Steps of the list that do what a setting does. */
const SAME:
  readonly (readonly [flag: string, given: (data: Config["data"]) => boolean, kinds: readonly string[]])[] = [
    ["--flip", ({ flip }) => flip !== "none", ["horizontal_flip", "vertical_flip"]],
    ["--rotate", ({ rotate }) => rotate, ["rotation", "quarter_turns"]],
    ["--random-crop", ({ random_crop }) => random_crop > 0, ["random_crop", "random_resized_crop"]],
    ["--crop-padding", ({ crop_padding }) => crop_padding > 0, ["random_crop", "pad"]],
  ];

export function refuseTwice(data: Config["data"], list: List): void {
  for (const [flag, given, kinds] of SAME) {
    const step = given(data) && everyStep(list.steps).find(({ kind }) => kinds.includes(kind));
    if (step) {
      throw new UserError(
        "usage",
        `${flag} and "${step.text}" of --augment do the same to each sample: leave one of them out.`,
      );
    }
  }
}

export interface Listed {
  readonly train: readonly Step[];
  readonly still: readonly Step[];
  /** --resize and --centre-crop are evaluation's alone: the list says how large training's samples are. */
  readonly sized: boolean;
  readonly repeats: number;
}

/** The steps of training and those of evaluation. */
export function listed(data: Config["data"], notes: string[]): Listed {
  const list = listOf(data.augment);
  if (!list) return { train: [], still: [], sized: false, repeats: 1 };
  refuseTwice(data, list);
  const sized = setsSize(list), own = data.resize > 0 || data.centre_crop > 0;
  const still = sized && own ? [] : stillSteps(list.steps);
  if (sized && !own) {
    notes.push(
      `Evaluation does ${still.map(stepText).join(", ")} (--resize and --centre-crop set another way)`,
    );
  }
  if (list.done.length > 0) notes.push(`Done without being asked: ${list.done.join(", ")} of --augment`);
  if (list.repeats > 1) {
    notes.push(`Each sample comes ${list.repeats} times in an epoch, with other draws each time`);
  }
  return { train: list.steps, still, sized, repeats: list.repeats };
}

function stepText({ kind, options, text }: Step): string {
  const size = options.size as readonly number[] | undefined;
  return size === undefined
    ? text
    : `${kind}(${new Set(size).size === 1 ? size[0] : `(${size.join(", ")})`})`;
}

/** Maps that are turned or padded get missing points where nothing was. */
export function withGaps<S extends Source>(source: S, steps: readonly Step[], stored: () => Field): S {
  const opening = everyStep(steps).filter((step) => kindOf(step)?.opens?.(step.options));
  if (opening.length === 0 || source.input.shape.length !== 3 || !isMap(source, stored())) return source;
  const moved = opening.some(({ kind }) => kind !== "random_erasing");
  const ofTarget = moved && source.facts.task === "regression" && source.target.shape.length === 3;
  const target = source.missing?.target === true || ofTarget;
  return {
    ...source,
    missing: { input: true, target },
    facts: { ...source.facts, ...(target && { missing: true }) },
    ...(source.threaded && { threaded: { ...source.threaded, missing: true } }),
  };
}

/** The first step that moves points to other places, but for those of these kinds. */
export const movingStep = (augment: string, but: readonly string[]): Step | undefined =>
  everyStep(listOf(augment)?.steps ?? []).find((step) =>
    /places|both/.test(kindOf(step)?.acts ?? "") && !but.includes(step.kind)
  );

/** Samples are mixed in pairs. */
export function isMixing(data: Config["data"]): boolean {
  const { mixup, cutmix } = withWords(data);
  return mixup > 0 || cutmix > 0;
}
