// Missing points of maps are NaN from the file to the loss. Here: which data may have them, how many there
// are, and what stands for them in a model's input.
import * as ops from "../../../ffi/ops.ts";
import { isFloating } from "../../../ffi/dtype.ts";
import { constant, constantRowBeside, toNumbers } from "../../../ffi/make.ts";
import { type Device, scope, type Tensor } from "../../../ffi/tensor.ts";
import { UserError } from "../../base/errors.ts";
import { formatPlural } from "../../base/format.ts";
import type { Facts } from "../../models/model.ts";
import type { Config } from "../../settings/settings.ts";
import type { Table } from "../arrays/table.ts";
import type { Ids } from "./source.ts";

/**
 * `sample` is a field's shape, with channels first. Maps have two dimensions behind them, or three. Whoever
 * skips bad samples has said what is to become of missing points.
 */
export const keepsMissing = (
  { missing, bad_samples }: Pick<Config["data"], "missing" | "bad_samples">,
  sample: readonly number[],
): boolean => missing === "mask" || (missing === "auto" && bad_samples === "fail" && sample.length >= 3);

/** A column's share of missing points, above 0. */
export interface MissingPoints {
  readonly name: string;
  readonly share: number;
}

export function missingIn(name: string, values: Tensor): MissingPoints[] {
  const count = scope(() => Number(ops.sum(ops.isnan(values)).itemBigInt()));
  return count === 0 ? [] : [{ name, share: count / values.numel }];
}

/** NaN is not infinite. */
export const notInfinite = (values: Tensor): Tensor =>
  ops.ne(ops.abs(values), constant(Infinity, values.dtype, values.device));

interface KeptField {
  readonly missing: readonly MissingPoints[];
  readonly values: Tensor;
}

export function refuseMissing({ path, noun }: Table, fields: readonly Pick<KeptField, "missing">[]): void {
  const nothing = fields.flatMap(({ missing }) => missing).find(({ share }) => share === 1);
  if (!nothing) return;
  throw new UserError(
    "data",
    `${path}: the ${noun} "${nothing.name}" is missing (NaN) at every point of every sample, so nothing can be ` +
      "learnt from it. Choose others with --features and --targets.",
  );
}

/** `features` is null where they are read a sample at a time. */
export function missingNotes(features: readonly MissingPoints[] | null, target: KeptField): string[] {
  const inputs = features ?? [];
  const all = [...inputs, ...target.missing.filter(({ name }) => inputs.every((one) => one.name !== name))];
  const notes: string[] = [];
  if (all.length > 0) {
    const shares = all.map(({ name, share }) => `${name} ${percent(share)}`).join(", ");
    notes.push(`Missing points: ${shares}; they count in no loss, metric or statistic`);
  }
  const samples = target.values.shape[0], without = target.missing.length > 0 ? withoutAny(target.values) : 0;
  if (without > 0) {
    notes.push(`${without} of ${formatPlural(samples, "sample")} have no target at all, and count nowhere`);
  }
  return notes;
}

const percent = (share: number) => `${Number((100 * share).toPrecision(3))}%`;

const withoutAny = (values: Tensor): number =>
  scope(() => {
    const present = ops.toDtype(ops.reshape(ops.eq(values, values), [values.shape[0], -1]), "u8");
    return toNumbers(ops.amax(present, [1])).reduce((count, any) => count + 1 - any, 0);
  });

// Inputs have no gaps when a model sees them.

/** Stands for a missing input: 0 after normalising, numbers before scaling, or nothing. */
export type Fill = "zero" | readonly number[] | null;

interface Inputs {
  readonly fill: Fill;
  /** It stands for missing inputs of these samples before all else; its own missing points are left to `fill`. */
  readonly standIn?: ((ids: Ids, device: Device) => Tensor) | null;
  /** Another channel says where nothing was missing. */
  readonly channel: boolean;
}

/** `null` is for data that is as it should be. `values` scales and normalises. */
export function withoutGaps(
  { fill, standIn = null, channel }: Inputs,
  values: ((x: Tensor) => Tensor) | null,
  { shape, history = 1 }: { readonly shape: readonly number[]; readonly history?: number },
): ((x: Tensor, ids: Ids) => Tensor) | null {
  if (fill === null && !channel) return values;
  const numbers = fill === null || fill === "zero" ? null : perChannel(inSteps(fill, shape, history), shape);
  return (x, ids) =>
    scope(() => {
      if (!channel && isWhole(x)) return values ? values(x) : ops.alias(x);
      const present = ops.eq(x, x);
      const before = standIn
        ? ops.where(present, x, standIn(ids, x.device))
        : numbers
        ? ops.where(present, x, numbers(x))
        : x;
      const valued = values ? values(before) : before;
      const known = standIn ? ops.eq(valued, valued) : present;
      const whole = fill === "zero" ? ops.where(known, valued, constant(0, valued.dtype, x.device)) : valued;
      if (!channel) return whole;
      return ops.cat([whole, ops.toDtype(ops.amin(ops.toDtype(present, "u8"), [1], true), whole.dtype)], 1);
    });
}

/** Most batches of most data lack nothing, and a sum shows it in one pass. A GPU is not asked: that would wait for it. */
const isWhole = (x: Tensor): boolean => x.device === "cpu" && Number.isFinite(scope(() => ops.sum(x).item()));

/** The steps of a history have the same channels, one step after the other. */
const inSteps = (numbers: readonly number[], [channels = 1]: readonly number[], history: number) =>
  numbers.length > 1 && numbers.length * history === channels
    ? Array.from({ length: channels }, (_, i) => numbers[i % numbers.length])
    : numbers;

function perChannel(numbers: readonly number[], shape: readonly number[]): (x: Tensor) => Tensor {
  const channels = shape[0] ?? 1;
  if (numbers.length > 1 && numbers.length !== channels) {
    throw new UserError(
      "usage",
      `--fill gives ${numbers.length} numbers, and samples of [${shape.join(", ")}] have ${
        formatPlural(channels, "channel")
      }: give one for all channels, or one for each.`,
    );
  }
  return constantRowBeside(numbers, [numbers.length, ...shape.slice(1).map(() => 1)]);
}

const FILL_WORDS = ["mean", "none", "climatology", "nearest"] as const;
type FillWord = typeof FILL_WORDS[number];

/** Numbers, or a word; "" stands for the default. */
export function fillOf(texts: Config["data"]["fill"]): "" | FillWord | readonly number[] {
  if (texts.length === 0) return "";
  const [first] = texts, word = FILL_WORDS.find((word) => word === first);
  if (texts.length === 1 && word) return word;
  return texts.map((text) => {
    const value = text.trim() === "" ? NaN : Number(text);
    if (Number.isFinite(value)) return value;
    throw new UserError(
      "usage",
      `data.fill (--fill) has "${text}": give mean, climatology, nearest, none, or a number in the data's own units, one for all channels or ` +
        "one for each.",
    );
  });
}

/** The input has one channel more. */
export function withMaskChannel<S extends { readonly input: { readonly shape: readonly number[] } }>(
  of: S,
): S {
  const [channels, ...rest] = of.input.shape;
  return { ...of, input: { ...of.input, shape: [channels + 1, ...rest] } };
}

export function checkMaskChannel({ task, input }: Facts, name: string): void {
  const refuse = (why: string) => new UserError("usage", `--mask-channel ${why}: leave it out.`);
  if (task === "language") throw refuse("is for numbers, and here samples are tokens");
  if (!isFloating(input.dtype)) throw refuse(`can't go beside whole numbers, such as those of ${name}`);
  if (input.columns) throw refuse("has no place among the columns that an exported program takes apart");
}

/** `mean`: the numbers are the training samples' means. */
export function fillNote(
  fill: Fill,
  { mean, normalised, climatology = false }: { mean: boolean; normalised: boolean; climatology?: boolean },
  nearest = false,
): string {
  if (nearest) {
    return "Missing inputs are filled with the nearest point of their map, and with 0 where it has none";
  }
  if (climatology) {
    return "Missing inputs are filled with their climatology, and with 0 where that is missing";
  }
  if (fill === null) return "Missing inputs stay NaN";
  if (fill !== "zero") {
    const numbers = fill.map((value) => Number(value.toPrecision(6))).join(", ");
    return `Missing inputs are filled with ${numbers}${mean ? ", the mean over the training samples" : ""}`;
  }
  return normalised
    ? "Missing inputs are filled with 0 after normalising"
    : "Missing inputs become 0 in the data's own units: --fill mean takes each input's mean instead, and " +
      "--normalise measured makes 0 the mean";
}
