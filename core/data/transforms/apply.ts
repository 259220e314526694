// Geometry applies where samples are read, values and mixing where the batch is. For a model on the CPU,
// loader threads write floats while a row is in their cache; bytes go to a GPU as they are.
import { readBytes, tensor, uninitialised, zero_ } from "../../../ffi/make.ts";
import { scope } from "../../../ffi/tensor.ts";
import { type Batch, batchOf, type Part, plainPart, readRows, type Source } from "../source.ts";

import type { Config } from "../../settings/settings.ts";
import { UserError } from "../../base/errors.ts";

import { spreadOver, statisticsOf } from "../statistics.ts";
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

/** Inputs and targets of this many numbers are 1 GiB as f32, which is read in some seconds. */
const MOST_NUMBERS = 2 ** 28;

/** Only training samples are random. */
export function transformed(given: Pair, settings: Settings): Transformed {
  const { seed, plain, rows = null, untold = false, epochs = 1 } = settings;
  const { loss = "auto", byDefault = false, saved = null } = settings;
  const chosen = chooseScale(settings.data, given.train, { loss, byDefault, saved }),
    { data, choice } = chosen;
  const notes: string[] = [...chosen.notes], most = chosen.unasked ? MOST_NUMBERS : Infinity;
  const pair = anomaliesOf(given, data, notes);
  const cut = cutterOf(pair.train, data, settings);
  const still = (source?: Source | null) => source ? cut(source, null) : null;
  const train = cut(pair.train, plain ? null : seed), val = still(pair.val), test = still(pair.test);
  const inputs = inputsOf(pair, cut, data, { ...settings, most }, notes);
  const valued = valuedBy(inputs, modelShape(train, data, rows), pair.train, { data, rows }, notes);
  const mixed = mixedBy(data, train.facts, seed);
  // Logarithms of vectors have other bits than single ones in libtorch, so there is no table.
  const hosted = (source: Source) => data.scaling === "none" ? onHost(source) : source;
  const done = (source: Source, training: boolean) => mixed(hosted(valued(source)), training);
  const extra = rows && data.climatology_channel ? 1 + Math.max(...rows.fed) : 0;
  const { normalisation, fill, measured } = inputs;
  const rollout = rows &&
    rolloutOver({ ...rows, most: rows.steps.most, extra, fill }, data, train.input.shape, normalisation);
  const trained = done(train, !plain);
  const warnings = settings.warnsOfScale ? oddScalesOf(pair.train, data, settings) : [];
  const scale = targetScaleOf(data, pair.train, loss, notes, { untold, most });
  const judged = (source: Source | null) =>
    source && withScaledTargets(done(source, false), scale, { untold, judged: true });
  const short = rows && !plain
    ? shortened(trained, (epoch) => stepsAt(rows.steps, epoch, epochs), rows.steps.most)
    : trained;
  return {
    train: countedFromHere(withScaledTargets(short, scale, { untold, judged: plain })),
    val: judged(val),
    test: judged(test),
    notes,
    normalisation,
    scale: choice,
    warnings,
    fill: measured,
    rollout,
    climatology: given.train.climate?.climatology ?? null,
  };
}

/** Variables of --anomaly become their differences from the climatology. */
function anomaliesOf({ train, val, test }: Pair, data: Config["data"], notes: string[]): Pair {
  const wanted = climateWanted(data);
  if (wanted) checkClimate(wanted, data, train);
  if (data.anomaly.length > 0 && data.fill.join() === "nearest") {
    throw new UserError(
      "usage",
      "--fill nearest takes values of another place, whose climatology is another: with --anomaly use --fill climatology.",
    );
  }
  const apart = (source: Source) => withAnomalies(source, data.anomaly);
  const pair = { train: apart(train), val: val && apart(val), test: test && apart(test) };
  if (wanted) notes.push(climateNote(train, data));
  return pair;
}

/** The seed draws what is random of a sample's crop; null takes the middle, or the whole map where patches are cut. */
type Cut = (source: Source, seed: number | null) => Source;

function cutterOf(
  { folded, name, vectors }: Source,
  data: Config["data"],
  { patches = null, ignored = NaN, plain }: Settings,
): Cut {
  const plan = planOf(data, patches);
  if (folded && plan && (plan.rotate || plan.flip !== "none")) {
    throw new UserError(
      "usage",
      `${name}: ${folded.join(", ")} ${
        folded.length === 1 ? "is" : "are"
      } finer than the maps, so the points within ` +
        "each pixel are channels, which --flip and --rotate don't turn: leave those out.",
    );
  }
  if (data.vectors.length > 0 && !vectors && !plain) {
    throw new UserError(
      "usage",
      `--vectors ${data.vectors.join(",")} names variables or columns, and ${name} has none: leave it out.`,
    );
  }
  const times = patches ? data.patches_per_sample : 1;
  return (source, seed) =>
    plan === null || patches && seed === null ? source : cropped(source, plan, seed, { ignored, times });
}

/** How inputs are scaled, and what stands where they are missing, by channel of what the model sees. */
interface Inputs {
  readonly normalisation: Normalisation | null;
  readonly missing: boolean;
  readonly fill: Fill;
  readonly measured: readonly number[] | null;
}

function inputsOf(
  pair: Pair,
  cut: Cut,
  data: Config["data"],
  { rows = null, quiet = true, most }: Settings & { readonly most: number },
  notes: string[],
): Inputs {
  const still = () => cut(pair.train, null), own = seenAtOnce(data, rows);
  const first = (list: readonly number[]) => rows && list.length > own ? list.slice(0, own) : list;
  const all = normalisationOf(still, data, pair.train.usual ?? null, notes, { quiet, most });
  const normalisation = all && { mean: first(all.mean), std: first(all.std) };
  const missing = [pair.train, pair.val, pair.test].some((source) => source?.missing?.input === true);
  if (!missing) return { normalisation, missing, fill: null, measured: null };
  const gaps = fillerOf(still, data, normalisation !== null, quiet);
  notes.push(...gaps.notes);
  const fill = typeof gaps.fill === "object" && gaps.fill ? first(gaps.fill) : gaps.fill;
  return { normalisation, missing, fill, measured: gaps.measured && first(gaps.measured) };
}

/** A rollout's model sees so many of the channels at once. */
const seenAtOnce = ({ history }: Config["data"], rows: RolloutRows | null): number =>
  history * (rows?.channels ?? 0);

const modelShape = ({ input: { shape } }: Source, data: Config["data"], rows: RolloutRows | null) =>
  rows ? shape.with(0, seenAtOnce(data, rows)) : shape;

/** Fills and scales the inputs, and puts channels beside them. Rows of a rollout are filled and scaled as they are fed. */
function valuedBy(
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
    const done = values ? then(source, (b, { ids }) => ({ ...b, input: values(b.input, ids) })) : source;
    if (!channel || known) return beside(done);
    const wide = withMaskChannel(done);
    return beside({ ...wide, facts: withMaskChannel(wide.facts), bytewise: false });
  };
}

function mixedBy(
  data: Config["data"],
  facts: Source["facts"],
  seed: number,
): (source: Source, training: boolean) => Source {
  const mix = mixer(data, facts, seed);
  if (!mix) return (source) => source;
  return (source, training) => ({
    ...then(source, (batch, part) => mix.apply(batch, part, training)),
    target: mix.target(source.target, training),
  });
}

/** Looks at what nobody has said how to scale. `data` has what was chosen, and the settings what was asked for. */
function oddScalesOf(
  train: Source,
  data: Config["data"],
  { data: asked, features = [], loss = "auto" }: Settings,
): string[] {
  return oddScales(train, {
    inputs: asked.normalise === "auto" && data.normalise === "usual" && data.mean.length === 0 &&
      data.std.length === 0 && data.scaling === "none",
    targets: asked.normalise !== "none" && asked.normalise_targets === "auto" &&
      data.normalise_targets === "off" && data.rollout === "" && loss !== "bce",
    features,
  });
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
      const { statistics, notes: measured } = measuredOf(still(), data, how);
      notes.push(...measured);
      return statistics;
    }
  }
}

/** `train` makes no random choices. Values are scaled first. */
function measuredOf(
  train: Source,
  data: Config["data"],
  { quiet, most = Infinity }: { readonly quiet: boolean; readonly most?: number },
) {
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
  const scaled = valuesOf(data, train.input.shape, null), chosen = spreadOver(train, most);
  const batch = (ids: Int32Array) => {
    const { input, target } = batchOf(train, plainPart(ids.map((id) => chosen[id])));
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
      ...(chosen.length < train.length && { spread: chosen.length }),
    },
    indices: train.indices,
  };
  return statisticsOf({ ...train, batch, length: chosen.length }, what, quiet);
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
    const { statistics: { mean }, notes } = measuredOf(still(), { ...data, scaling: "none" }, { quiet });
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
