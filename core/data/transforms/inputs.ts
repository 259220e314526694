// How inputs are scaled, what stands where they are missing, and the channels that come beside them.
import {
  type Batch,
  batchOf,
  finishThen,
  type Ids,
  type Normalisation,
  type Part,
  plainPart,
  readRows,
  type Source,
} from "../source/source.ts";
import type { Config } from "../../settings/settings.ts";
import { spreadOver, statisticsOf } from "./statistics.ts";
import { givenIn, IMAGENET, valuesOf } from "./values.ts";
import { meansOfInputs, withClimateChannels } from "./climate.ts";
import type { RolloutRows } from "../source/rollout.ts";
import {
  checkMaskChannel,
  type Fill,
  fillNote,
  fillOf,
  withMaskChannel,
  withoutGaps,
} from "../source/missing.ts";
import { borrowBytes, readBytes, uninitialised } from "../../../ffi/make.ts";
import { cat, narrow, toDtype } from "../../../ffi/ops.ts";
import { scope, type Tensor } from "../../../ffi/tensor.ts";
import { openNearest } from "../source/pipeline.ts";
import type { Field, Threaded } from "../source/reader.ts";
import { UserError } from "../../base/errors.ts";

/** How inputs are scaled, and what stands where they are missing, by channel of what the model sees. */
export interface Inputs {
  readonly normalisation: Normalisation | null;
  readonly missing: boolean;
  readonly fill: Fill;
  readonly measured: readonly number[] | null;
}

/** `uncut` gives the training samples without random choices. */
export function inputsOf(
  { train, val, test }: {
    readonly train: Source;
    readonly val: Source | null;
    readonly test?: Source | null;
  },
  uncut: () => Source,
  data: Config["data"],
  { rows = null, quiet = true, most }: {
    readonly rows?: RolloutRows | null;
    readonly quiet?: boolean;
    /** So many numbers of the data are measured. */
    readonly most: number;
  },
  notes: string[],
): Inputs {
  const own = seenAtOnce(data, rows);
  const first = (list: readonly number[]) => rows && list.length > own ? list.slice(0, own) : list;
  const all = normalisationOf(uncut, data, train.usual ?? null, notes, { quiet, most });
  const normalisation = all && { mean: first(all.mean), std: first(all.std) };
  const missing = [train, val, test].some((source) => source?.missing?.input === true);
  if (!missing) return { normalisation, missing, fill: null, measured: null };
  const gaps = fillerOf(uncut, data, normalisation !== null, quiet);
  notes.push(...gaps.notes);
  const fill = typeof gaps.fill === "object" && gaps.fill ? first(gaps.fill) : gaps.fill;
  return { normalisation, missing, fill, measured: gaps.measured && first(gaps.measured) };
}

/** A rollout's model sees so many of the channels at once. */
const seenAtOnce = ({ history }: Config["data"], rows: RolloutRows | null): number =>
  history * (rows?.channels ?? 0);

export const modelShape = ({ input: { shape } }: Source, data: Config["data"], rows: RolloutRows | null) =>
  rows ? shape.with(0, seenAtOnce(data, rows)) : shape;

/** Fills and scales the inputs, and puts channels beside them. Rows of a rollout are filled and scaled as they are fed. */
export function valuedBy(
  { normalisation, missing, fill }: Inputs,
  shape: readonly number[],
  { facts, name }: Source,
  { data, rows }: { readonly data: Config["data"]; readonly rows: RolloutRows | null },
  notes: string[],
): (stored: Source) => Source {
  const channel = data.mask_channel, filling = data.fill.join();
  if (channel) {
    checkMaskChannel(facts, name);
    notes.push("The last channel of the input is 1 where nothing was missing (--mask-channel)");
  }
  const scaled = valuesOf(data, shape, normalisation, notes);
  const beside = (source: Source) => data.climatology_channel ? withClimateChannels(source) : source;
  if (rows) return beside;
  const byNearest = missing && filling === "nearest", sample = { shape, history: data.history };
  const known = byNearest && channel; // the mask is there already, behind the channels
  return (stored) => {
    const source = byNearest ? filledByNearest(stored, channel) : stored;
    const standIn = missing && filling === "climatology" ? meansOfInputs(source, data.anomaly) : null;
    const plain = withoutGaps({ fill, standIn, channel: channel && !known }, scaled, sample);
    const values = plain && known ? besideMask(plain, shape[0]) : plain;
    const done = values
      ? finishThen(source, (b, { ids }) => ({ ...b, input: values(b.input, ids) }), standIn === null)
      : source;
    if (!channel || known) return beside(done);
    const wide = withMaskChannel(done);
    return beside({ ...wide, facts: withMaskChannel(wide.facts), bytewise: false });
  };
}

/** `data.mean` and `data.std` win over statistics, and those over the kind's default. */
function normalisationOf(
  uncut: () => Source,
  data: Config["data"],
  usual: Normalisation | null,
  notes: string[],
  how: { readonly quiet: boolean; readonly most: number },
): Normalisation | null {
  if (data.mean.length > 0 || data.std.length > 0) return givenIn(data);
  switch (data.normalise) {
    case "none":
      return null;
    case "auto": // chooseScale leaves none
    case "usual":
      return usual;
    case "imagenet":
      return IMAGENET;
    case "measured": {
      const { statistics, notes: measured } = measuredOf(uncut(), data, how);
      if (how.most === Infinity) notes.push(...measured); // what nobody asked for has one line for all
      return statistics;
    }
  }
}

/** These always decide what is measured, in this order. */
const MEASURED_BY = [
  ...["type", "features", "targets", "resize", "centre_crop", "random_crop"] as const,
  ...["scaling", "softening", "bad_samples"] as const,
];

/** `train` makes no random choices. Values are scaled first. */
function measuredOf(
  train: Source,
  data: Config["data"],
  { quiet, most = Infinity }: { readonly quiet: boolean; readonly most?: number },
) {
  const { anomaly, climatology, sel, resample, coarsen, sample_dim, augment } = data;
  const scaled = valuesOf(data, train.input.shape, null), { count, at } = spreadOver(train, most);
  const batch = (ids: Int32Array) => {
    const { input, target } = batchOf(train, plainPart(ids.map(at)));
    return { input: scaled ? scaled(input) : input, target };
  };
  const what = {
    path: data.data_path,
    settings: {
      ...Object.fromEntries(MEASURED_BY.map((setting) => [setting, data[setting]])),
      ...(anomaly.length > 0 && { anomaly, climatology }),
      ...(sel.length > 0 && { sel }),
      ...(resample !== "" && { resample }),
      ...(coarsen.length > 0 && { coarsen }),
      ...(augment !== "" && { augment }),
      ...(sample_dim !== "" && { sample_dim }), // what was measured without it is still known
      ...(count < train.length && { spread: count }),
    },
    indices: train.indices,
  };
  return statisticsOf({ ...train, batch, length: count }, what, quiet);
}

interface Filler {
  readonly fill: Fill;
  readonly measured: readonly number[] | null;
  readonly notes: readonly string[];
}

/** The mean has to be measured before scaling where nothing is normalised. */
function fillerOf(uncut: () => Source, data: Config["data"], normalised: boolean, quiet: boolean): Filler {
  const wanted = fillOf(data.fill);
  if (wanted === "mean" && !normalised) {
    const { statistics: { mean }, notes } = measuredOf(uncut(), { ...data, scaling: "none" }, { quiet });
    return { fill: mean, measured: mean, notes: [...notes, fillNote(mean, { mean: true, normalised })] };
  }
  const fill = wanted === "none" ? null : typeof wanted === "string" ? "zero" : wanted;
  const climatology = wanted === "climatology";
  return {
    fill,
    measured: null,
    notes: [fillNote(fill, { mean: false, normalised, climatology }, wanted === "nearest")],
  };
}

/** The last channel is no value. */
const besideMask =
  (values: (x: Tensor, ids: Ids) => Tensor, channels: number) => (x: Tensor, ids: Ids): Tensor =>
    scope(() =>
      cat([values(narrow(x, 1, 0, channels), ids), narrow(x, 1, channels, x.shape[1] - channels)], 1)
    );

/** The raw rows are filled, so that statistics before it know nothing of it. */
function filledByNearest(source: Source, mask: boolean): Source {
  const { threaded } = source, { shape, dtype } = storedFields(source).input;
  const refuse = (why: string) => new UserError("usage", `${source.name}: --fill nearest ${why}.`);
  if (shape.length < 3) throw refuse("looks for the nearest point of a map, and samples here are numbers");
  if (threaded?.reader.whole) throw refuse("is not for a reader of your own: fill them there");
  if (threaded && dtype !== "f32") throw refuse(`fills floats of 32 bits, and these are ${dtype}`);
  const nearest = { shape, mask };
  const wide = mask ? shape.with(0, shape[0] + 1) : shape;
  const input = { ...source.input, shape: wide };
  const whole = {
    ...source,
    input,
    facts: { ...source.facts, input: { ...source.facts.input, shape: wide } },
    bytewise: false,
  };
  if (threaded) {
    const now = { ...threaded, nearest, input: { ...threaded.input, shape: wide } };
    return { ...whole, threaded: now, ...readRows(now) };
  }
  const fill = openNearest(nearest);
  const raw = (part: Part): Batch =>
    scope(() => {
      const { input, target } = source.raw(part), rows = part.ids.length;
      const made = uninitialised([rows, ...wide]),
        into = new Float32Array(borrowBytes(made).buffer, borrowBytes(made).byteOffset, made.numel);
      const stored = toDtype(input, "f32"), from = new Float32Array(readBytes(stored).buffer);
      const [each, room] = [from.length / rows, into.length / rows];
      for (let row = 0; row < rows; row++) {
        const own = into.subarray(row * room, (row + 1) * room);
        own.set(from.subarray(row * each, (row + 1) * each));
        fill(own);
      }
      return { input: made, target };
    });
  return { ...whole, raw };
}

/** The fields of raw rows. */
export function storedFields(source: Source): Pick<Threaded, "input" | "target"> {
  if (source.threaded) return source.threaded;
  return scope(() => {
    const { input, target } = source.raw(plainPart([0]));
    const field = (of: Field, { shape, dtype }: Tensor) => ({ ...of, shape: shape.slice(1), dtype });
    return { input: field(source.input, input), target: field(source.target, target) };
  });
}
