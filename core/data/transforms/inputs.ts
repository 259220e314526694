// How inputs are scaled, what stands where they are missing, and the channels that come beside them.
import { batchOf, finishThen, type Normalisation, plainPart, type Source } from "../source/source.ts";
import type { Config } from "../../settings/settings.ts";
import { spreadOver, statisticsOf } from "./statistics.ts";
import { givenIn, IMAGENET, valuesOf } from "./values.ts";
import { meansOfInputs, withClimateChannels } from "./climate.ts";
import { besideMask, filledByNearest } from "./nearest.ts";
import type { RolloutRows } from "../source/rollout.ts";
import {
  checkMaskChannel,
  type Fill,
  fillNote,
  fillOf,
  withMaskChannel,
  withoutGaps,
} from "../source/missing.ts";

/** How inputs are scaled, and what stands where they are missing, by channel of what the model sees. */
export interface Inputs {
  readonly normalisation: Normalisation | null;
  readonly missing: boolean;
  readonly fill: Fill;
  readonly measured: readonly number[] | null;
}

/** `still` gives the training samples without random choices. */
export function inputsOf(
  { train, val, test }: {
    readonly train: Source;
    readonly val: Source | null;
    readonly test?: Source | null;
  },
  still: () => Source,
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
  const all = normalisationOf(still, data, train.usual ?? null, notes, { quiet, most });
  const normalisation = all && { mean: first(all.mean), std: first(all.std) };
  const missing = [train, val, test].some((source) => source?.missing?.input === true);
  if (!missing) return { normalisation, missing, fill: null, measured: null };
  const gaps = fillerOf(still, data, normalisation !== null, quiet);
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
      ? finishThen(source, (b, { ids }) => ({ ...b, input: values(b.input, ids) }))
      : source;
    if (!channel || known) return beside(done);
    const wide = withMaskChannel(done);
    return beside({ ...wide, facts: withMaskChannel(wide.facts), bytewise: false });
  };
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
      if (how.most === Infinity) notes.push(...measured); // what nobody asked for has one line for all
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
  const scaled = valuesOf(data, train.input.shape, null), { count, at } = spreadOver(train, most);
  const batch = (ids: Int32Array) => {
    const { input, target } = batchOf(train, plainPart(ids.map(at)));
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
