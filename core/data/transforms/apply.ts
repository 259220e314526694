// Geometry applies where samples are read, values and mixing where the batch is. For a model on the CPU,
// loader threads write floats while a row is in their cache; bytes go to a GPU as they are.
import { readBytes, tensor, uninitialised, zero_ } from "../../../ffi/make.ts";
import { scope } from "../../../ffi/tensor.ts";
import {
  type Batch,
  finishThen,
  type Normalisation,
  type Part,
  plainPart,
  readRows,
  type Source,
} from "../source/source.ts";
import { lossOfOwnValues } from "../../settings/losses.ts";
import type { Config } from "../../settings/settings.ts";
import { UserError } from "../../base/errors.ts";
import { cropped } from "./crop.ts";
import { AS_IT_IS, type Geometry, patchOf } from "../source/geometry.ts";
import { inputsOf, modelShape, storedFields, valuedBy } from "./inputs.ts";
import { hiddenBy } from "./hidden.ts";
import { listOf } from "../augment/list.ts";
import { type Listed, listed, withGaps, withWords } from "./steps.ts";
import { valuesOf } from "./values.ts";
import { mixer } from "./mix.ts";
import type { Threaded } from "../source/reader.ts";
import type { Patches } from "../../models/patches.ts";
import { climateWanted, type Climatology } from "../source/climate.ts";
import type { Rollout } from "../../models/rollout.ts";
import { type RolloutRows, shortened, stepsAt } from "../source/rollout.ts";
import { chooseScale, oddScales, type ScaleChoice, type ScaleRequest } from "./scale_choice.ts";
import { targetScaleOf, withScaledTargets } from "./targets.ts";
import { withoutGaps } from "../source/missing.ts";
import { withAnomalies } from "./climate.ts";

function onHost(source: Source): Source {
  const { threaded, bytewise } = source;
  if (!bytewise || threaded?.input.dtype !== "u8" || source.input.dtype !== "f32") return source;
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

export interface Transformed extends Pair {
  readonly test: Source | null;
  readonly notes: readonly string[];
  readonly normalisation: Normalisation | null;
  readonly scale: ScaleChoice;
  readonly warnings: readonly string[];
  /** These means stand for missing inputs, in the data's own units; null where nothing was measured for it. */
  readonly fill: readonly number[] | null;
  readonly climatology: Climatology | null;
  /** The model is fed with its own predictions so; null where it isn't. */
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
  readonly silent?: boolean;
  /** Training samples are patches of these; others are whole maps. */
  readonly patches?: Patches | null;
  /** Points of this class do not count. */
  readonly ignored?: number;
  /** The model's vocabulary can't grow. */
  readonly settled?: boolean;
}

/** Inputs and targets of this many numbers are 1 GiB as f32, which is read in some seconds. */
const MOST_NUMBERS = 2 ** 28;

/** Only training samples are random. */
export function transformed(given: Pair, asked: Settings): Transformed {
  const settings = { ...asked, data: withWords(asked.data) };
  const { seed, plain, rows = null, silent = false, epochs = 1 } = settings;
  const { loss = "auto", byDefault = false, saved = null } = settings;
  const chosen = chooseScale(settings.data, given.train, { loss, byDefault, saved }),
    { data, choice } = chosen;
  const notes: string[] = [...chosen.notes];
  const most = (of: "inputs" | "targets") => chosen.unasked[of] ? MOST_NUMBERS : Infinity;
  const list = listed(data, notes);
  const hidden = hiddenBy(
    given,
    listOf(data.augment),
    { seed, plain: plain === true, ignored: settings.ignored ?? -100, settled: settings.settled === true },
    notes,
  );
  const pair = gapsOf(anomaliesOf(hidden, data, notes), list);
  const cut = cutterOf(pair.train, data, settings, list);
  const uncut = (source?: Source | null) => source ? cut(source, null) : null;
  const train = cut(pair.train, plain ? null : seed), val = uncut(pair.val), test = uncut(pair.test);
  const inputs = inputsOf(
    pair,
    () => cut(pair.train, null),
    data,
    { ...settings, most: most("inputs") },
    notes,
  );
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
  const scale = targetScaleOf(data, pair.train, loss, notes, { silent, most: most("targets") });
  const judged = (source: Source | null) =>
    source && withScaledTargets(done(source, false), scale, { silent, judged: true });
  const short = rows && !plain
    ? shortened(trained, (epoch) => stepsAt(rows.steps, epoch, epochs), rows.steps.most)
    : trained;
  return {
    train: countedFromStart(withScaledTargets(short, scale, { silent, judged: plain })),
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
  const withoutClimate = (source: Source) => withAnomalies(source, data.anomaly);
  const pair = {
    train: withoutClimate(train),
    val: val && withoutClimate(val),
    test: test && withoutClimate(test),
  };
  if (wanted) notes.push(climateNote(train, data));
  return pair;
}

/** Turned and padded maps have missing points. */
function gapsOf({ train, val, test }: Pair, { train: steps }: Listed): Pair {
  const gaps = (source: Source) => withGaps(source, steps, () => storedFields(source).input);
  return steps.length === 0
    ? { train, val, test }
    : { train: gaps(train), val: val && gaps(val), test: test && gaps(test) };
}

/** Means have the data's own places, which crops and turns would leave. */
function checkClimate(wanted: string, data: Config["data"], source: Source): void {
  const { climate, name } = source;
  const refuse = (why: string) => new UserError("usage", `${wanted} ${why}.`);
  if (!climate) {
    throw refuse(`is for tables and grids with times, and ${name} is none`);
  }
  if (
    data.resize || data.centre_crop || data.random_crop || data.crop_padding || data.rotate ||
    data.flip !== "none" || data.augment !== ""
  ) {
    throw refuse(
      "compares each point with its own mean, so maps can't be cropped, resized, flipped or turned",
    );
  }
  if (data.patch !== "") throw refuse("is for whole maps: leave --patch out");
  if (data.bad_samples === "skip") {
    throw refuse(
      "needs each sample's own time, and --bad-samples skip puts others in their place: leave it out",
    );
  }
  if (source.facts.task !== "regression" && (data.anomaly.length > 0 || data.climatology_channel)) {
    throw refuse("is for quantities, and the target here is classes");
  }
}

/** The seed draws what is random of a sample's crop; null takes the middle, or the whole map where patches are cut. */
type Cut = (source: Source, seed: number | null) => Source;

function cutterOf(
  { folded, name, vectors }: Source,
  data: Config["data"],
  { patches = null, ignored = NaN, plain }: Settings,
  list: Listed,
): Cut {
  const plan = planOf(data, patches);
  if (folded && plan && (plan.rotate || plan.flip !== "none" || list.train.length > 0)) {
    throw new UserError(
      "usage",
      `${name}: ${folded.join(", ")} ${
        folded.length === 1 ? "is" : "are"
      } finer than the maps, so the points within ` +
        "each pixel are channels, which --flip, --rotate and --augment don't turn: leave those out.",
    );
  }
  if (data.vectors.length > 0 && !vectors && !plain) {
    throw new UserError(
      "usage",
      `--vectors ${data.vectors.join(",")} names variables or columns, and ${name} has none: leave it out.`,
    );
  }
  const times = (patches ? data.patches_per_sample : 1) * list.repeats;
  // Training's samples get their size from the list, where it has one for them.
  const before = list.sized ? planOf({ ...data, resize: 0, centre_crop: 0 }, patches) : plan;
  return (source, seed) => {
    if (patches && seed === null) return source;
    const [own, steps] = seed === null ? [plan, list.still] : [before, list.train];
    if (own === null && steps.length === 0 && (seed === null || times === 1)) return source;
    return cropped(source, own ?? AS_IT_IS, seed, { ignored, times: seed === null ? 1 : times, steps });
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
    ...finishThen(source, (batch, part) => mix.apply(batch, part, training)),
    target: mix.target(source.target, training),
  });
}

/** Looks at what nobody has said how to scale. `data` has what was chosen, and the settings what was asked for. */
function oddScalesOf(
  train: Source,
  data: Config["data"],
  { data: dataSettings, features = [], loss = "auto" }: Settings,
): string[] {
  return oddScales(train, {
    inputs: dataSettings.normalise === "auto" && data.normalise === "usual" && data.mean.length === 0 &&
      data.std.length === 0 && data.scaling === "none",
    targets: dataSettings.normalise !== "none" && dataSettings.normalise_targets === "auto" &&
      data.normalise_targets === "off" && data.rollout === "" && lossOfOwnValues(loss) === null,
    features,
  });
}

/** Bad samples that were passed over while all were measured are none of training's. */
function countedFromStart(source: Source): Source {
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
  const anomalyNote = anomaly.length > 0 ? `; ${anomaly.join(", ")} is taken as the difference from it` : "";
  return `Climatology of ${
    Object.keys(means).join(", ")
  } by ${seasons}, over the training samples${anomalyNote}`;
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
    patch: patches && patchOf(patches),
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
