// A run keeps the means of seasons, and forecasts are compared with others.
import type { Config } from "../../settings/settings.ts";

export type Seasons = "month" | "day";

/** One variable's means: [seasons, points of a step, channels, ...map], each season's and point's own. */
interface Means {
  readonly values: Float32Array;
  readonly shape: readonly number[];
}

export interface Climatology {
  readonly seasons: Seasons;
  /** Data that lacks the targets has them by these. */
  readonly targets: readonly VariableSpan[];
  readonly means: Readonly<Record<string, Means>>;
}

/** A variable's part of a row. */
export interface VariableSpan {
  readonly name: string;
  /** [channels, ...map] */
  readonly shape: readonly number[];
}

/**
 * The climatology, and where the samples of a source lie in it.
 * @internal
 */
export interface Climate {
  readonly climatology: Climatology;
  readonly features: readonly VariableSpan[];
  readonly targets: readonly VariableSpan[];
  /** False where the data lacks the targets. */
  readonly hasTargets: boolean;
  /** Rows from a sample's own to those of its inputs and of its targets. */
  readonly inputs: readonly number[];
  readonly leads: readonly number[];
  /** A row's season and point among all; rows may go beyond the last. */
  place(row: number): number;
}

const NAMED = {
  anomaly: "--anomaly",
  fill: "--fill climatology",
  climatology_channel: "--climatology-channel",
} as const;

/** The settings that need a climatology, as users write them; null where none does. */
export function climateWanted(data: Config["data"]): string | null {
  if (data.anomaly.length > 0) return `${NAMED.anomaly} ${data.anomaly.join(",")}`;
  if (data.fill.join() === "climatology") return NAMED.fill;
  return data.climatology_channel ? NAMED.climatology_channel : null;
}

/** @internal */
export interface Baselines {
  /** The root mean square error of each output. */
  readonly persistence: readonly number[];
  /** NaN where nothing is known of a judged season from another year; null where that is so of all outputs, and without dates. */
  readonly climatology: readonly number[] | null;
  /** Null where climatology has a number for each output. */
  readonly lack: Lack | null;
}

/** Why there is no climatology to compare with, or not for each output. */
export type Lack = "judged alone" | "no dates" | "too large" | "other seasons";

const LACKS: Readonly<Record<Lack, string>> = {
  "judged alone": "this data is judged whole, so its means by season would know what is judged",
  "no dates": "the samples have no dates, and so no seasons",
  "too large": "its means by season have other sizes than these samples, or are too many to hold",
  "other seasons": "training has seen no target of another year in the seasons that are judged",
};

export const lackNote = ({ climatology, lack }: Baselines): string | null =>
  lack &&
  `No skill over climatology${climatology?.some(Number.isFinite) ? " for some of the outputs" : ""}: ${
    LACKS[lack]
  }.`;

/** Means of each point and season. */
export interface Seasonal {
  readonly daily: boolean;
  /** All numbers of one step. */
  readonly size: number;
  /** The means over all years but this one; NaN where nothing is left. */
  without(year: number): Float32Array;
}
