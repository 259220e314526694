// Diagnostics of an evaluation, for the report: errors by place, confused classes, and samples with what the
// model makes of them. Sums stay on the device until the evaluation ends, and failing to make them fails nothing.
import { Buffer } from "node:buffer";
import { add, constant, ones, sub, toNumbers, zeros } from "../../ffi/make.ts";
import {
  argmax,
  cat,
  ge,
  gt,
  logicalAnd,
  lt,
  mul,
  ne,
  reshape,
  scatterAdd_,
  square,
  sumDim,
  toDtype,
  where,
  zerosLike,
} from "../../ffi/ops.ts";
import { keep, scope, type Tensor } from "../../ffi/tensor.ts";
import { timeCoding } from "../data/arrays/calendar.ts";
import { isLatitudeUnits, isLongitudeUnits, meansAlong } from "../data/preview/axes.ts";
import type { Grid, GridCoordinate } from "../data/arrays/grid.ts";
import { axisText } from "../data/arrays/coordinate.ts";
import { tokenizerBeside } from "../data/text/open.ts";
import { shrunkPlane } from "../data/preview/look.ts";
import { encodePng } from "../data/preview/picture.ts";
import { ownTargets, plainPart, type Source } from "../data/source/source.ts";
import { forecastLeads } from "../data/tables/windows.ts";
import type { Loss } from "../models/losses.ts";
import { areScores, classesSecond, isSoft, toLabels } from "../models/targets.ts";
import { validPoints } from "../models/valid_points.ts";
import {
  type DiagnosedAxis,
  type Diagnostics,
  packMap,
  type PlacedErrors,
  type ShownSample,
} from "../run/diagnostics.ts";
import type { ConfusionNote } from "../run/events.ts";
import type { Config } from "../settings/settings.ts";
import type { Team } from "../ranks/team.ts";
import type { Pass } from "./blocks.ts";
import { examplesOf, textExamples } from "./examples.ts";
import { asMap, isPicture, type MediaSample, mediaSamples, pictureOf, predicted } from "./media.ts";
import { pointsIn, shiftedParts } from "./metrics.ts";
import type { Metrics } from "./measure.ts";

/** Sums of one evaluation. */
export interface Tally {
  observe(output: Tensor, target: Tensor): void;
  /** All ranks call it. Null where a sum could not be made. */
  sums(team: Team | null): Float64Array | null;
  close(): void;
}

/** A matrix of more classes is no longer read. */
const MOST_CLASSES = 64;
/** Points of larger maps have their errors by rows alone; several ranks send theirs to each other. */
const MOST_POINTS = 2 ** 18, MOST_SENT = 2 ** 14;

type Judged = Pick<Loss, "name" | "like" | "ignored" | "point">;

/** Null where nothing is added up. */
export function openTally(source: Source, loss: Judged, alone: boolean): Tally | null {
  const { facts: { task, targetless }, target } = source, name = loss.like ?? loss.name;
  if (targetless || name === "none") return null;
  if (task === "regression") {
    return target.shape.length === 3 && name !== "bce" ? errorTally(source, loss, alone) : null;
  }
  const count = confusedClasses(source, loss);
  return count === 0 ? null : confusionTally(count, name === "bce", loss.ignored ?? -1);
}

/** The classes of which an evaluation counts which is taken for which; 0 where it counts none. */
export function confusedClasses(
  { facts: { task, outputs, targetless } }: Pick<Source, "facts">,
  loss: Pick<Loss, "name" | "like">,
): number {
  const name = loss.like ?? loss.name, oneLogit = name === "bce";
  const among = !targetless && (task === "classification" || task === "segmentation");
  const count = oneLogit ? 2 : outputs;
  return among && (oneLogit || name === "cross_entropy") && count <= MOST_CLASSES ? count : 0;
}

/** For the outputs that want it. Null where evaluations count no classes. */
export function openConfusion(
  source: Source | null,
  loss: Pick<Loss, "name" | "like">,
  wanted: number,
  note: (note: ConfusionNote) => void,
): ((step: number, sums: Float64Array | null) => void) | null {
  const count = source === null || wanted === 0 ? 0 : confusedClasses(source, loss);
  if (count === 0) return null;
  const { names = [] } = source!;
  const classes = Array.from({ length: count }, (_, k) => names.length === count ? names[k] : String(k));
  return (step, sums) => {
    if (sums === null) return;
    note({ kind: "confusion", t: Date.now() / 1000, step, classes, counts: confusionOf(sums) });
  };
}

/** `next` makes the sums anew from those before. */
function tally(size: number, next: (before: Tensor | null, output: Tensor, target: Tensor) => Tensor): Tally {
  let all: Tensor | null = null, broken = false;
  const close = () => {
    all?.free();
    all = null;
  };
  return {
    observe(output, target) {
      if (broken) return;
      try {
        const made = scope(() => keep(next(all, output, target)));
        close();
        all = made;
      } catch {
        broken = true; // memory may be short; the evaluation goes on
      }
    },
    sums(team) {
      const own = all && !broken ? [...scope(() => toNumbers(all!))] : new Array<number>(size).fill(0);
      const both = [broken ? 1 : 0, ...own];
      const [wrong, ...sums] = team ? team.reduce(both, "sum", "evaluation") : both;
      return wrong > 0 ? null : Float64Array.from(sums);
    },
    close,
  };
}

const SUMS = 3;

/** Count, error and its square: [3, outputs, rows, columns], or summed over columns. */
function errorTally({ target: { shape }, facts }: Source, { point = 0 }: Judged, alone: boolean): Tally {
  const [count, height, width] = shape, byPoint = count * height * width <= (alone ? MOST_POINTS : MOST_SENT);
  const size = SUMS * count * height * (byPoint ? width : 1);
  return tally(size, (before, output, target) => {
    const { device } = target;
    const error = toDtype(sub(pointsIn(output, target, point * count, count), target), "f64");
    const valid = facts.missing ? validPoints(target, 0) : null;
    const known = valid ? where(valid, error, constant(0, "f64", device)) : error;
    const counted = valid ? toDtype(valid, "f64") : ones(target.shape, { dtype: "f64", device });
    const dims = byPoint ? [0] : [0, 3];
    const parts = [counted, known, square(known)].map((t) => reshape(sumDim(t, dims, false, "f64"), [-1]));
    const made = cat(parts, 0);
    return before ? add(before, made) : made;
  });
}

/** Counts of [class, predicted class], and of what does not count. */
function confusionTally(count: number, oneLogit: boolean, ignored: number): Tally {
  return tally(count * count + 1, (before, output, target) => {
    const none = zeros([count * count + 1], { dtype: "f64", device: output.device });
    if (!oneLogit && !areScores(output, target, count)) return before ?? none;
    const { device } = output;
    const labels = oneLogit
      ? toDtype(ne(target, zerosLike(target)), "i64")
      : toDtype(isSoft(target) && target.shape[1] > 1 ? argmax(target, 1) : target, "i64");
    const scores = oneLogit ? output : toLabels(classesSecond(output, labels), labels);
    const found = oneLogit ? toDtype(gt(scores, zerosLike(scores)), "i64") : argmax(scores, 1);
    const known = validPoints(target, ignored);
    const inRange = logicalAnd(
      ge(labels, constant(0, "i64", device)),
      lt(labels, constant(count, "i64", device)),
    );
    const valid = reshape(isSoft(target) ? inRange : logicalAnd(inRange, reshape(known, labels.shape)), [-1]);
    const cell = add(mul(reshape(labels, [-1]), constant(count, "i64", device)), reshape(found, [-1]));
    const index = where(valid, cell, constant(count * count, "i64", device));
    const counts = none;
    scatterAdd_(counts, 0, index, ones(index.shape, { dtype: "f64", device }));
    return before ? add(before, counts) : counts;
  });
}

// From sums and samples to what the report shows.

/** Samples, outputs of each, and points of all maps. */
const MOST_SHOWN = 2, MOST_OUTPUTS = 3, MOST_INPUTS = 2, MOST_PACKED = 700_000;

export interface Evaluated {
  readonly step: number;
  readonly epoch: number;
  /** The run ends with it. */
  readonly last: boolean;
  readonly better: boolean;
  readonly samples: number;
  readonly metrics: Metrics;
  readonly sums: Float64Array | null;
}

export function diagnosed(
  source: Source,
  pass: Pass,
  evaluated: Evaluated,
  data: Config["data"],
  grid: Grid | null,
): Diagnostics {
  const { facts: { task }, names = [], target } = source, { step, epoch, samples, metrics, sums } = evaluated;
  const regression = task === "regression", count = regression ? target.shape[0] ?? 1 : 0;
  const leads = forecastLeads(data), targets = count / leads.length;
  const several = leads.length > 1 || leads[0] > 0;
  const about = (k: number) => {
    const own = grid?.targets[k % targets];
    const name = own?.name ?? names[k] ?? String(k),
      units = own?.attributes.get("units") ?? source.about?.[name]?.units;
    return { name, units: typeof units === "string" && units !== "1" ? units : "" };
  };
  const isMaps = target.shape.length === 3;
  return {
    version: 1,
    ...{ step, epoch, samples },
    task: task as Diagnostics["task"],
    names: regression && names.length !== count ? Array.from({ length: count }, (_, k) => String(k)) : names,
    outputs: Array.from({ length: count }, (_, k) => ({
      target: about(k).name,
      lead: several ? leads[Math.floor(k / targets)] : null,
      units: about(k).units,
    })),
    metrics: Object.fromEntries(Object.entries(metrics).map(([name, value]) => [name, finite(value)])),
    errors: sums && regression && isMaps ? errorsOf(source, sums, grid) : null,
    confusion: sums && task !== "language" && !regression ? confusionOf(sums) : null,
    axes: grid && axesOf(grid),
    shown: isMaps || task === "segmentation" ? shownOf(source, pass, grid) : [],
    examples: orNone(() => examplesOf(source, pass)),
    // Hidden tokens are no continuation of a text.
    texts: task === "language" && !source.facts.masked
      ? orNone(() => textExamples(source, pass, tokenizerBeside(data)))
      : [],
  };
}

/** The rest of a report does not go without its examples. */
function orNone<T>(examples: () => readonly T[]): readonly T[] {
  try {
    return examples();
  } catch {
    return [];
  }
}

const finite = (value: number): number | null => Number.isFinite(value) ? Number(value.toPrecision(7)) : null;

function confusionOf(sums: Float64Array): number[][] {
  const count = Math.floor(Math.sqrt(sums.length));
  return Array.from({ length: count }, (_, i) => [...sums.subarray(i * count, (i + 1) * count)]);
}

function errorsOf(
  { target: { shape: [count, height, width] }, units }: Source,
  sums: Float64Array,
  grid: Grid | null,
): PlacedErrors {
  const size = sums.length / SUMS, each = size / (count * height);
  const { along, of } = groupsOf(grid, height, each), groups = along.values!.length;
  const outputs = Array.from({ length: count }, (_, k) => {
    const std = units?.std[k] ?? 1;
    const total = Array.from({ length: SUMS }, () => new Float64Array(groups));
    for (let i = 0; i < height * each; i++) {
      total.forEach((part, p) => part[of(i)] += sums[p * size + k * height * each + i]);
    }
    const [n, error, squares] = total;
    return {
      rmse: Array.from(n, (n, g) => finite(std * Math.sqrt(squares[g] / n))),
      bias: Array.from(n, (n, g) => finite(std * error[g] / n)),
    };
  });
  const maps = each !== width ? [] : someOf(count, MOST_OUTPUTS).map((k) => {
    const std = units?.std[k] ?? 1;
    const values = Float64Array.from({ length: height * width }, (_, i) => {
      const at = k * height * width + i;
      return std * Math.sqrt(sums[2 * size + at] / sums[at]);
    });
    return packMap({ width, height, values });
  });
  return { along, outputs, rmse: maps };
}

const MOST_BANDS = 24;

/** Rows of the map; bands of latitude where each point has its own. */
function groupsOf(
  grid: Grid | null,
  height: number,
  each: number,
): { along: DiagnosedAxis; of: (i: number) => number } {
  const y = grid && axesOf(grid)?.y;
  const latitude = grid?.coordinates.find(({ role, shape, attributes, values }) =>
    role === "auxiliary" && shape.length === 2 && values.length === height * each &&
    isLatitudeUnits(attributes.get("units"))
  );
  if (latitude) {
    const values = Array.from(latitude.values as ArrayLike<number>, Number);
    const known = values.filter(Number.isFinite);
    const least = known.reduce((a, b) => Math.min(a, b)), most = known.reduce((a, b) => Math.max(a, b));
    const count = Math.min(MOST_BANDS, height), wide = (most - least) / count || 1;
    const units = String(latitude.attributes.get("units"));
    return {
      along: {
        name: "latitude",
        units,
        values: Array.from({ length: count }, (_, g) => least + (g + 0.5) * wide),
      },
      of: (i) => Math.min(count - 1, Math.max(0, Math.floor((values[i] - least) / wide) || 0)),
    };
  }
  const rows = y?.values?.length === height ? y.values : Array.from({ length: height }, (_, row) => row);
  return {
    along: { name: y?.name ?? "row", units: y?.values?.length === height ? y.units : "", values: rows },
    of: (i) => Math.floor(i / each),
  };
}

/** The first ones, or the first, the middle and the last. */
export const someOf = (count: number, most: number): number[] =>
  count <= most
    ? Array.from({ length: count }, (_, k) => k)
    : Array.from({ length: most }, (_, i) => Math.round(i * (count - 1) / (most - 1)));

function axesOf({ targets: [target], coordinates }: Grid): Diagnostics["axes"] {
  const axis = (name: string): DiagnosedAxis => {
    const own = coordinates.find((one) => one.role === "coordinate" && one.name === name);
    const units = own?.attributes.get("units");
    return {
      name,
      units: typeof units === "string" ? units : "",
      values: own ? Array.from(own.values as ArrayLike<number>, Number) : null,
    };
  };
  if (target.dimensions.length < 3) return null;
  const sides = target.dimensions.slice(-2), [y, x] = sides.map(axis);
  if (y.values || x.values) return { x, y };
  // Each point has its own latitude and longitude: rows and columns have means of them.
  const curved = (
    is: (units: unknown) => boolean,
    along: "rows" | "columns",
    other: DiagnosedAxis,
  ): DiagnosedAxis => {
    const own = coordinates.find(({ role, dimensions, attributes }) =>
      role === "auxiliary" && dimensions.join() === sides.join() && is(attributes.get("units"))
    );
    const means = own && meansAlong(Array.from(own.values as ArrayLike<number>, Number), own.shape, along);
    return own && means
      ? { name: own.name, units: String(own.attributes.get("units")), values: [...means] }
      : other;
  };
  return { x: curved(isLongitudeUnits, "columns", x), y: curved(isLatitudeUnits, "rows", y) };
}

function shownOf(source: Source, pass: Pass, grid: Grid | null): ShownSample[] {
  const { facts: { task, input: { history = 1 } }, units, target: { shape } } = source;
  const count = Math.min(MOST_SHOWN, source.length), segments = task === "segmentation";
  const ids = Array.from({ length: count }, (_, i) => Math.floor((i + 0.5) * source.length / count));
  return scope(() => {
    const part = plainPart(ids), raw = source.raw(part);
    const batch = source.finish(raw, part), { input, target } = batch;
    const sides = (t: Tensor) => t.shape.slice(-2).join();
    const held = raw.input.shape.length === 4 && sides(raw.input) === sides(input) ? raw.input : input;
    const { loss, loss: { point = 0 } } = pass, answer = predicted(pass, input);
    const own = ownTargets(source, batch, ids);
    const full = source.restore ? source.restore(answer, ids, shiftedParts(loss)) : answer;
    const made = segments ? full : pointsIn(full, target, point * shape[0], shape[0]);
    const [inputs, targets, outputs] = [held, own, made].map((t) => mediaSamples(t, count));
    const channels = inputs[0].shape.length === 3 ? inputs[0].shape[0] : 0;
    const image = isPicture(inputs[0].shape) && history === 1 && (channels === 3 || raw.input.dtype === "u8")
      ? pictureOf(raw.input.dtype, inputs)
      : null;
    const recent = channels / history, maps = image ? [] : someOf(Math.min(MOST_INPUTS, recent), MOST_INPUTS);
    const shown = segments ? [0] : someOf(shape[0], MOST_OUTPUTS);
    const most = Math.floor(MOST_PACKED / (count * (maps.length + 2 * shown.length)));
    const packed = (
      { values, shape }: MediaSample,
      channel: number,
      change: (value: number) => number = (one) => one,
    ) => {
      const [height, width] = shape.slice(-2), size = height * width;
      const plane = { width, height, values: values.slice(channel * size, (channel + 1) * size).map(change) };
      return packMap(segments ? plane : shrunkPlane(plane, most));
    };
    return ids.map((id, i) => ({
      name: timeText(source, grid, id) ?? `sample ${source.indices?.[id] ?? id}`,
      image: image && Buffer.from(encodePng(image(inputs[i]))).toString("base64"),
      inputs: maps.map((channel) => ({
        name: recent > 1 ? String(channel) : "",
        map: packed(inputs[i], (history - 1) * recent + channel),
      })),
      outputs: shown.map((k) => {
        const own = (value: number) => units ? value * units.std[k] + units.mean[k] : value;
        const known = asMap(targets[i], segments), made = asMap(outputs[i], segments);
        const hidden = segments ? (value: number) => value < 0 ? NaN : value : own;
        return {
          output: k,
          target: packed(known, k, hidden),
          prediction: packed(made, k, segments ? undefined : own),
        };
      }),
    }));
  });
}

/** The sample's own time; null where samples have none. */
function timeText({ indices }: Source, grid: Grid | null, id: number): string | null {
  if (!grid || grid.pointwise) return null;
  const [{ name }] = grid.dimensions;
  const own = grid.coordinates.find((one: GridCoordinate) => one.role === "coordinate" && one.name === name);
  const text = (key: string) => {
    const value = own?.attributes.get(key);
    return typeof value === "string" ? value : undefined;
  };
  const times = timeCoding(text("units") ?? "", text("calendar"));
  if (!own || typeof times === "string") return null;
  return axisText({ times }, Number(own.values[indices?.[id] ?? id]));
}
