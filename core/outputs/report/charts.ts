// The charts of a report: large ones that training is judged by, small ones that it was steered by, and machines
// folded.
import type { Diagnostics } from "../../run/diagnostics.ts";
import type { Curve } from "../../run/curve.ts";
import { EVENT_FIELDS, type EventField, type Unit } from "../../run/events.ts";
import type { RunData } from "../../run/run_data.ts";
import { TIME_PART_LABELS, TIME_PARTS } from "../../run/account.ts";
import { type Headline, headlineOf, higherIsBetter, isShare, lowered, measureLabel } from "./measures.ts";

/** "large" is the first screen, "training" and "measures" are small, and "machine" is folded. */
export type ChartPlace = "large" | "training" | "measures" | "time" | "machine";

interface Mark {
  readonly run: number;
  readonly x: number;
  readonly y: number;
}

/** A point or a height that is marked, with what it is. */
interface Annotations {
  readonly best?: readonly Mark[];
  readonly rules?: readonly { readonly y: number; readonly label: string }[];
}

export interface Planned extends Annotations {
  readonly title: string;
  readonly note?: string;
  readonly unit: Unit;
  /** The name of the vertical axis. */
  readonly axis: string;
  readonly place: ChartPlace;
  readonly zero?: boolean;
  readonly log?: boolean;
  /** Lines are parts of a whole, one above the other. */
  readonly stacked?: boolean;
  readonly lines: readonly PlannedLine[];
}

interface PlannedLine {
  readonly label: string;
  readonly hue: number;
  readonly run: number;
  /** It is drawn as it is, without smoothing. */
  readonly steady?: true;
  readonly curve: Curve;
}

export const MOST_LINES = 16;

const { step, times, ranks, system }: Record<string, Record<string, EventField>> = EVENT_FIELDS;
const CURVES: Readonly<Record<string, EventField>> = { ...times, ...step, ranks_spread: ranks.spread };
const TRAINING = ["lr", "grad_norm", "noise_scale", "loss_scale", "skipped_steps"];
const SPEED = ["samples_per_s", "tokens_per_s", "mfu", "ranks_spread", "memory_bytes"];
/** Other charts show these, or none does. */
const NOT_SHOWN = ["loss", "val_loss", "epoch_loss", "flops", "data_s"];

const AXES: Readonly<Record<Unit, string>> = {
  value: "",
  rate: "a second",
  bytes: "bytes",
  seconds: "time",
  share: "share",
  percent: "percent",
  count: "number",
};

const chartOf = ({ label = "", unit, zero, log }: EventField, place: ChartPlace) => ({
  title: label,
  unit,
  place,
  axis: AXES[unit],
  ...(zero ? { zero } : {}),
  ...(log === undefined ? {} : { log: true }),
});

const steady = (name: string) =>
  /^(val|train)_/.test(name) || CURVES[name]?.steady ? { steady: true } as const : {};

const LOSS_NAMES: Readonly<Record<string, string>> = {
  cross_entropy: "cross-entropy, nats",
  mse: "mean squared error",
  l1: "mean absolute error",
};

/** The loss's own name, where the settings have one. */
function lossAxis({ config }: RunData): string {
  const { training, data } = config as {
    training?: { loss?: unknown };
    data?: { normalise_targets?: unknown };
  };
  const name = typeof training?.loss === "string" ? training.loss : "auto";
  const scaled = data?.normalise_targets === "on" ? ", of scaled targets" : "";
  return `${name === "auto" ? "loss" : `loss (${LOSS_NAMES[name] ?? name})`}${scaled}`;
}

export function chartsOfRun(data: RunData, found: Diagnostics | null): Planned[] {
  const { curves, best } = data, headline = headlineOf(data, found);
  const line = (name: string, label: string, hue: number): PlannedLine[] => {
    const curve = curves.get(name);
    return curve && curve.length > 0 ? [{ label, hue, run: 0, curve, ...steady(name) }] : [];
  };
  const measure = (metric: string, place: ChartPlace): Planned => ({
    title: measureLabel(metric),
    unit: isShare(metric) ? "share" : "value",
    axis: place === "large" && headline?.units
      ? `${headline.label}, ${headline.units}`
      : measureLabel(metric),
    place,
    ...(metric === "perplexity" ? { log: true } : {}),
    ...bestOf(data, metric),
    ...(place === "large" ? rulesOf(headline) : {}),
    lines: [...line(`train_${metric}`, "training", 0), ...line(`val_${metric}`, "validation", 1)],
  });
  const others = metricsOf(data).filter((metric) => metric !== headline?.name);
  return [
    {
      ...{ title: "Loss", unit: "value", axis: lossAxis(data), place: "large", log: true },
      ...(best ? { best: [{ run: 0, x: best.step, y: best.loss }] } : {}),
      lines: [...line("loss", "training, each step", 0), ...line("val_loss", "validation", 1)],
    },
    ...(headline ? [measure(headline.name, "large")] : []),
    ...TRAINING.map((name) => ({
      ...chartOf(CURVES[name], "training"),
      lines: line(name, CURVES[name].label ?? name, 0),
    })),
    ...others.map((metric) => measure(metric, "measures")),
    ...inUnitsOnly(byName(data)).map(([metric, names]): Planned => ({
      title: `${measureLabel(metric)} of each`,
      unit: isShare(metric) ? "share" : "value",
      axis: measureLabel(metric),
      place: "measures",
      lines: names.slice(0, MOST_LINES).flatMap((name, i) => line(`val_${metric}/${name}`, name, i)),
      note: names.length > MOST_LINES ? `the first ${MOST_LINES} of ${names.length}` : undefined,
    })),
    ...othersOf(data).map((name): Planned => ({
      ...{ title: name, unit: "value", axis: name, place: "measures" },
      lines: line(name, name, 0),
    })),
    stepTime(data),
    ...SPEED.map((name) => ({
      ...chartOf(CURVES[name], "machine"),
      lines: line(name, CURVES[name].label ?? name, 0),
    })),
    ...systemCharts(data),
  ];
}

/** The measure at the evaluation with the best loss, whose weights are kept. */
function bestOf({ best, bestMetrics }: RunData, metric: string): Annotations {
  const y = Object.hasOwn(bestMetrics, metric) ? bestMetrics[metric] : null;
  return best && typeof y === "number" && Number.isFinite(y) ? { best: [{ run: 0, x: best.step, y }] } : {};
}

const rulesOf = (headline: Headline | null): Annotations =>
  headline?.baseline ? { rules: [{ y: headline.baseline.value, label: headline.baseline.of }] } : {};

/** Parts that take no time are left out; the parts lie one above the other and make the whole step. */
function stepTime({ curves }: RunData): Planned {
  const labels: Readonly<Record<string, string>> = TIME_PART_LABELS;
  const known = TIME_PARTS.map((part) => `time_${part}`);
  const names = [
    ...known,
    ...[...curves.keys()].filter((name) =>
      name.startsWith("time_") && !known.includes(name as typeof known[number])
    ),
  ];
  // A part has its colour in the table of the run's time too.
  const parts = names.flatMap((name, hue) => {
    const curve = curves.get(name), part = name.slice("time_".length);
    return curve && curve.greatest > 0 ? [{ label: labels[part] ?? part, curve, hue }] : [];
  });
  return {
    ...{ title: "Time of a step", unit: "seconds", axis: "time", place: "time", zero: true, stacked: true },
    lines: parts.slice(0, MOST_LINES).map((part) => ({ ...part, run: 0, steady: true })),
  };
}

export function chartsOfRuns(runs: readonly RunData[]): Planned[] {
  const lines = (name: string) =>
    runs.flatMap(({ name: label, curves }, run) => {
      const curve = curves.get(name);
      return curve && curve.length > 0 ? [{ label, hue: run, run, curve, ...steady(name) }] : [];
    });
  const metrics = [...new Set(runs.flatMap(metricsOf))];
  const first = metrics.find((name) => runs.some((run) => headlineOf(run, null)?.name === name));
  const loss = { unit: "value", axis: "loss", log: true } as const;
  const best = runs.flatMap(({ best }, run) => best ? [{ run, x: best.step, y: best.loss }] : []);
  const measure = (metric: string): Planned => ({
    title: `Validation ${lowered(measureLabel(metric))}`,
    unit: isShare(metric) ? "share" : "value",
    axis: measureLabel(metric),
    place: metric === first ? "large" : "measures",
    lines: lines(`val_${metric}`),
    note:
      { true: "higher is better", false: "lower is better", null: undefined }[String(higherIsBetter(metric))],
  });
  const validated = runs.some(({ best }) => best !== null);
  return [
    { ...loss, title: "Validation loss", place: "large", best, lines: lines("val_loss") },
    {
      ...loss,
      title: "Training loss of each step",
      place: validated ? "training" : "large",
      lines: lines("loss"),
    },
    ...metrics.map(measure),
    ...TRAINING.map((name) => ({ ...chartOf(CURVES[name], "training"), lines: lines(name) })),
    ...SPEED.map((name) => ({ ...chartOf(CURVES[name], "machine"), lines: lines(name) })),
  ];
}

const metricsOf = ({ metrics }: RunData): string[] => [...metrics].slice(0, MOST_LINES);

const BY_NAME = /^val_([^/]+)\/(.*)$/;

function byName({ curves }: RunData): [metric: string, names: string[]][] {
  const found = new Map<string, string[]>();
  for (const curve of curves.keys()) {
    const [, metric, name] = BY_NAME.exec(curve) ?? [];
    if (metric !== undefined) found.set(metric, [...found.get(metric) ?? [], name]);
  }
  return [...found];
}

/** A measure in the targets' own units is not shown scaled as well. */
const inUnitsOnly = <T>(all: readonly (readonly [metric: string, T])[]) =>
  all.filter(([metric]) => !all.some(([other]) => other === `${metric}_in_units`));

/** Another version may have written more fields. */
function othersOf(data: RunData): string[] {
  const metrics = metricsOf(data);
  return [...data.curves.keys()].filter((name) =>
    ![...TRAINING, ...SPEED, ...NOT_SHOWN].includes(name) && !name.startsWith("time_") &&
    !BY_NAME.test(name) &&
    !metrics.some((metric) => name === `train_${metric}` || name === `val_${metric}`)
  );
}

function systemCharts({ systemCurves }: RunData): Planned[] {
  return Object.entries(system).flatMap(([field, about]) => {
    const { label } = about;
    if (label === undefined) return [];
    const ranks = [...systemCurves.get(field) ?? []].sort(([a], [b]) => a - b);
    if (ranks.length === 0) return [];
    const shown = ranks.slice(0, MOST_LINES);
    const note = shown.length < ranks.length
      ? `the first ${shown.length} of ${ranks.length} ranks`
      : undefined;
    return [{
      ...chartOf(about, "machine"),
      note,
      lines: shown.map(([rank, curve], hue) => ({
        label: ranks.length === 1 ? label : `rank ${rank}`,
        hue,
        run: 0,
        curve,
      })),
    }];
  });
}
