// Geometry applies where samples are read, values and mixing where the batch is. For a model on the CPU,
// loader threads write floats while a row is in their cache; bytes go to a GPU as they are.
import { readBytes, tensor, uninitialised, zero_ } from "../../../ffi/make.ts";
import { scope } from "../../../ffi/tensor.ts";
import { type Batch, batchOf, type Part, plainPart, readRows, type Source } from "../source.ts";

import type { Config } from "../../settings/settings.ts";
import { UserError } from "../../base/errors.ts";

import { statisticsOf } from "../statistics.ts";
import { cropped } from "./crop.ts";
import type { Geometry } from "./geometry.ts";
import { givenIn, IMAGENET, type Normalisation, valuesOf } from "./values.ts";
import { mixer } from "./mix.ts";
import type { Threaded } from "../reading/reader.ts";
import { type Patches } from "../../models/patches.ts";
import { windowOf } from "./patches.ts";
import { climateWanted, type Climatology } from "../climatology.ts";
import { checkClimate, meansOfInputs, withAnomalies, withClimateChannels } from "./climate.ts";
import { besideMask, filledByNearest } from "./nearest.ts";
import type { Rollout } from "../../models/rollout.ts";
import { type RolloutRows, shortened, stepsAt } from "../rollout.ts";
import { chooseScale, type ScaleChoice, type ScaleRequest } from "./scale_choice.ts";
import { oddScales } from "./odd_scale.ts";
import { targetScaleOf, withScaledTargets } from "./targets.ts";
import { checkMaskChannel, type Fill, fillNote, fillOf, withMaskChannel, withoutGaps } from "../missing.ts";

function onHost(source: Source): Source {
  const { threaded, bytewise } = source;
  if (!bytewise || threaded?.input.dtype !== "u8") return source;
  const levels = levelsOf(source, threaded);
  const now = { ...threaded, levels, input: { ...threaded.input, dtype: "f32" as const } };
  const [channels, ...rest] = threaded.input.shape;
  const finish = ({ input, target }: Batch, part: Part): Batch => {
    // The targets are finished beside images of no pixels.
    const none = uninitialised([target.shape[0], channels, ...rest.map(() => 0)], { dtype: "u8" });
    return { input, target: source.finish({ input: none, target }, part).target };
  };
  return { ...source, host: { ...source, threaded: now, finish, ...readRows(now) } };
}

/** `finish` of 256 plain images gives its own bits; threads share the table. */
function levelsOf(source: Source, threaded: Threaded): Float32Array {
  const [channels, ...rest] = threaded.input.shape, { shape, dtype } = threaded.target;
  return scope(() => {
    const ones = rest.map(() => 1);
    const bytes = tensor(Uint8Array.from({ length: 256 * channels }, (_, i) => Math.floor(i / channels)), [
      256,
      channels,
      ...ones,
    ]);
    const target = zero_(uninitialised([256, ...shape], { dtype }));
    const ids = new Int32Array(256);
    const { input } = source.finish({ input: bytes, target }, plainPart(ids));
    const found = new Float32Array(readBytes(input).buffer);
    const levels = new Float32Array(new SharedArrayBuffer(4 * found.length));
    for (let i = 0; i < found.length; i++) levels[i % channels * 256 + Math.floor(i / channels)] = found[i];
    return levels;
  });
}

interface Pair {
  readonly train: Source;
  readonly val: Source | null;
  readonly test?: Source | null;
}

interface Transformed extends Pair {
  readonly test: Source | null;
  readonly notes: string[];
  readonly normalisation: Normalisation | null;
  readonly scale: ScaleChoice;
  readonly warnings: readonly string[];
  /** These means stand for missing inputs, in the data's own units; null where nothing was measured for it. */
  readonly fill: readonly number[] | null;
  readonly climatology: Climatology | null;
  readonly rollout: Rollout | null;
}

interface Settings extends Partial<Pick<ScaleRequest, "byDefault" | "saved">> {
  readonly data: Config["data"];
  readonly seed: number;
  /** Inputs and targets that nobody says how to scale are looked at. */
  readonly warnsOfScale?: boolean;
  readonly features?: readonly string[];
  readonly plain?: boolean;
  readonly quiet?: boolean;
  /** The rows that a model is fed with. */
  readonly rows?: RolloutRows | null;
  readonly epochs?: number;
  readonly loss?: string;
  /** Nobody has told the targets: data is only predicted from. */
  readonly untold?: boolean;
  /** Training samples are patches of these; others are whole maps. */
  readonly patches?: Patches | null;
  /** Points of this class do not count. */
  readonly ignored?: number;
}

/** Only training samples are random. */
export function transformed(given: Pair, settings: Settings): Transformed {
  const { seed, quiet = true, plain, patches = null, ignored = NaN, rows = null, untold = false } = settings;
  const { loss = "auto", byDefault = false, saved = null } = settings;
  const { data, choice, notes: chosen } = chooseScale(settings.data, given.train, { loss, byDefault, saved });
  const notes: string[] = [...chosen];
  const wanted = climateWanted(data);
  if (wanted) checkClimate(wanted, data, given.train);
  if (data.anomaly.length > 0 && data.fill.join() === "nearest") {
    throw new UserError(
      "usage",
      "--fill nearest takes values of another place, whose climatology is another: with --anomaly use --fill climatology.",
    );
  }
  const apart = (source: Source) => withAnomalies(source, data.anomaly);
  const pair = {
    train: apart(given.train),
    val: given.val && apart(given.val),
    test: given.test && apart(given.test),
  };
  if (wanted) notes.push(climateNote(given.train, data));
  const plan = planOf(data, patches);
  const { folded, name } = pair.train;
  if (folded && plan && (plan.rotate || plan.flip !== "none")) {
    throw new UserError(
      "usage",
      `${name}: ${folded.join(", ")} ${
        folded.length === 1 ? "is" : "are"
      } finer than the maps, so the points within ` +
        "each pixel are channels, which --flip and --rotate don't turn: leave those out.",
    );
  }
  const { vectors } = pair.train;
  if (data.vectors.length > 0 && !vectors && !plain) {
    throw new UserError(
      "usage",
      `--vectors ${data.vectors.join(",")} names variables or columns, and ${name} has none: leave it out.`,
    );
  }
  const cut = (source: Source, own: number | null) =>
    plan === null || patches && own === null ? source : cropped(source, plan, own, {
      ignored,
      times: patches ? data.patches_per_sample : 1,
    });
  const still = (source?: Source | null) => source ? cut(source, null) : null;
  const train = cut(pair.train, plain ? null : seed), val = still(pair.val), test = still(pair.test);
  const own = data.history * (rows?.channels ?? 0); // a rollout's model sees so many of the channels at once
  const first = (list: readonly number[]) => rows && list.length > own ? list.slice(0, own) : list;
  const all = normalisationOf(() => cut(pair.train, null), data, pair.train.usual ?? null, notes, quiet);
  const normalisation = all && { mean: first(all.mean), std: first(all.std) };
  const missing = [pair.train, pair.val, pair.test].some((source) => source?.missing?.input === true);
  const gaps = missing
    ? fillerOf(() => cut(pair.train, null), data, normalisation !== null, quiet)
    : { fill: null, measured: null, notes: [] };
  notes.push(...gaps.notes);
  const fill = typeof gaps.fill === "object" && gaps.fill ? first(gaps.fill) : gaps.fill;
  const shape = rows ? train.input.shape.with(0, own) : train.input.shape, channel = data.mask_channel;
  if (channel) {
    checkMaskChannel(pair.train.facts, pair.train.name);
    notes.push("The last channel of the input is 1 where nothing was missing (--mask-channel)");
  }
  const scaled = valuesOf(data, shape, normalisation, notes), byClimate = data.fill.join() === "climatology";
  const byNearest = missing && data.fill.join() === "nearest";
  const valued = (stored: Source) => {
    if (rows) return data.climatology_channel ? withClimateChannels(stored) : stored;
    const source = byNearest ? filledByNearest(stored, channel) : stored;
    const standIn = missing && byClimate ? meansOfInputs(source, data.anomaly) : null;
    const sample = { shape, history: data.history };
    const known = byNearest && channel; // the mask is there already, behind the channels
    const plain = withoutGaps({ fill, standIn, channel: channel && !known }, scaled, sample);
    const values = plain && known ? besideMask(plain, shape[0]) : plain;
    const done = values ? then(source, (b, { ids }) => ({ ...b, input: values(b.input, ids) })) : source;
    const wide = channel && !known ? withMaskChannel(done) : done;
    const masked = channel && !known
      ? { ...wide, facts: withMaskChannel(wide.facts), bytewise: false }
      : done;
    return data.climatology_channel ? withClimateChannels(masked) : masked;
  };
  // Logarithms of vectors have other bits than single ones in libtorch, so there is no table.
  const hosted = (source: Source) => data.scaling === "none" ? onHost(source) : source;
  const mix = mixer(data, train.facts, seed);
  const mixed = (source: Source, training: boolean) =>
    mix
      ? {
        ...then(source, (batch, part) => mix.apply(batch, part, training)),
        target: mix.target(source.target, training),
      }
      : source;
  const done = (source: Source, training: boolean) => mixed(hosted(valued(source)), training);
  const judged = (source: Source | null) => source && done(source, false);
  const extra = rows && data.climatology_channel ? 1 + Math.max(...rows.fed) : 0;
  const rollout = rows &&
    rolloutOver({ ...rows, most: rows.steps.most, extra, fill }, data, train.input.shape, normalisation);
  const scaledBy = (source: Source | null) =>
    source && withScaledTargets(source, scale, { untold, judged: true });
  const trained = done(train, !plain), { epochs = 1 } = settings;
  const odd = settings.warnsOfScale
    ? oddScales(pair.train, {
      inputs: settings.data.normalise === "auto" && data.normalise === "usual" && data.mean.length === 0 &&
        data.std.length === 0 && data.scaling === "none",
      targets: settings.data.normalise !== "none" && settings.data.normalise_targets === "auto" &&
        data.normalise_targets === "off" && data.rollout === "" && loss !== "bce",
      features: settings.features ?? [],
    })
    : [];
  const scale = targetScaleOf(data, pair.train, loss, notes, untold);
  const short = (source: Source) =>
    rows && !plain
      ? shortened(source, (epoch) => stepsAt(rows.steps, epoch, epochs), rows.steps.most)
      : source;
  return {
    train: countedFromHere(withScaledTargets(short(trained), scale, { untold, judged: plain })),
    ...{ val: scaledBy(judged(val)), test: scaledBy(judged(test)) },
    ...{
      notes,
      normalisation,
      scale: choice,
      warnings: odd,
      fill: gaps.measured && first(gaps.measured),
      rollout,
    },
    climatology: given.train.climate?.climatology ?? null,
  };
}

/** Bad samples that were passed over while all were measured are none of training's. */
function countedFromHere(source: Source): Source {
  const { passedOver } = source, before = passedOver?.() ?? 0;
  return passedOver ? { ...source, passedOver: () => passedOver() - before } : source;
}

/** Rows become what a model sees of them, by the statistics of its training. */
export function rolloutOver(
  { most, ahead, channels, fed, extra, fill }: Omit<Rollout, "history" | "prepare">,
  data: Config["data"],
  input: readonly number[],
  normalisation: Normalisation | null,
): Rollout {
  const none = new Int32Array(0), { history, mask_channel: channel } = data;
  const shape = input.with(0, history * channels);
  const prepare = withoutGaps({ fill, channel }, valuesOf(data, shape, normalisation), { shape, history });
  return { most, history, channels, ahead, extra, fed, fill, prepare: (x) => prepare ? prepare(x, none) : x };
}

function climateNote({ climate }: Source, { anomaly }: Config["data"]): string {
  const { seasons, means } = climate!.climatology;
  const apart = anomaly.length > 0 ? `; ${anomaly.join(", ")} is taken as the difference from it` : "";
  return `Climatology of ${Object.keys(means).join(", ")} by ${seasons}, over the training samples${apart}`;
}

function planOf(data: Config["data"], patches: Patches | null): Geometry | null {
  const { resize, centre_crop, random_crop, crop_padding, flip, rotate } = data;
  if (patches) {
    const others = {
      resize,
      "centre-crop": centre_crop,
      "random-crop": random_crop,
      "crop-padding": crop_padding,
    };
    const other = Object.entries(others).find(([, value]) => value > 0);
    if (other) {
      throw new UserError(
        "usage",
        `--patch ${data.patch} cuts patches out of the data's own maps, and --${other[0]} ${
          other[1]
        } changes those: leave one of them out.`,
      );
    }
  }
  const plan = {
    patch: patches && windowOf(patches),
    resize,
    centreCrop: centre_crop,
    randomCrop: random_crop,
    padding: crop_padding,
    flip,
    rotate,
  };
  return patches || resize || centre_crop || random_crop || crop_padding || rotate || flip !== "none"
    ? plan
    : null;
}

function then(source: Source, more: (batch: Batch, part: Part) => Batch): Source {
  const finish = (raw: Batch, part: Part) => more(source.finish(raw, part), part);
  return { ...source, finish, host: source.host && then(source.host, more) };
}

/** `data.mean` and `data.std` win over statistics, and those over the kind's default. */
function normalisationOf(
  still: () => Source,
  data: Config["data"],
  usual: Normalisation | null,
  notes: string[],
  quiet: boolean,
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
      const { statistics, notes: measured } = measuredOf(still(), data, quiet);
      notes.push(...measured);
      return statistics;
    }
  }
}

/** `train` makes no random choices. Values are scaled first. */
function measuredOf(train: Source, data: Config["data"], quiet: boolean) {
  const {
    type,
    features,
    targets,
    sel,
    sample_dim,
    anomaly,
    climatology,
    resample,
    coarsen,
    resize,
    centre_crop,
    random_crop,
    scaling,
    softening,
    bad_samples,
  } = data;
  const scaled = valuesOf(data, train.input.shape, null);
  const batch = (ids: Int32Array) => {
    const { input, target } = batchOf(train, plainPart(ids));
    return { input: scaled ? scaled(input) : input, target };
  };
  const what = {
    path: data.data_path,
    settings: {
      type,
      features,
      targets,
      resize,
      centre_crop,
      random_crop,
      scaling,
      softening,
      bad_samples,
      ...(anomaly.length > 0 && { anomaly, climatology }),
      ...(sel.length > 0 && { sel }),
      ...(resample !== "" && { resample }),
      ...(coarsen.length > 0 && { coarsen }),
      ...(sample_dim !== "" && { sample_dim }), // what was measured without it is still known
    },
    indices: train.indices,
  };
  return statisticsOf({ ...train, batch }, what, quiet);
}

interface Filler {
  readonly fill: Fill;
  readonly measured: readonly number[] | null;
  readonly notes: readonly string[];
}

/** The mean has to be measured before scaling where nothing is normalised. */
function fillerOf(still: () => Source, data: Config["data"], normalised: boolean, quiet: boolean): Filler {
  const wanted = fillOf(data.fill);
  if (wanted === "mean" && !normalised) {
    const { statistics: { mean }, notes } = measuredOf(still(), { ...data, scaling: "none" }, quiet);
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
