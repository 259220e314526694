// Curves, thinned out so that the report opens at once.
import type { Curve } from "../../run/curve.ts";
import { EVENT_FIELDS, type EventField, type Unit } from "../../run/events.ts";
import type { RunData } from "../../run/run_data.ts";

interface ChartLine {
  readonly label: string;
  readonly hue: number;
  readonly run: number;
  readonly steady?: boolean;
  readonly x: number;
  readonly y: readonly (number | null)[];
  readonly lo?: readonly (number | null)[];
  readonly hi?: readonly (number | null)[];
  /** The first steps whose value was NaN or infinite, and their number. */
  readonly wrong?: readonly number[];
  readonly wrongs?: number;
}

interface Chart {
  readonly title: string;
  readonly note?: string;
  readonly unit: Unit;
  readonly zero?: boolean;
  readonly log?: boolean;
  readonly machine?: boolean;
  readonly lines: readonly ChartLine[];
}

interface ChartData {
  readonly runs: readonly string[];
  readonly xs: readonly (readonly number[])[];
  readonly charts: readonly Chart[];
}

/** At 20 bytes each the page stays well below 2 MB. */
const MOST_POINTS = 56_000;
const MOST_A_LINE = 4096;
const FEWEST_A_LINE = 300;
const MOST_LINES = 16;
const MOST_CHARTS = 60;

interface Planned extends Omit<Chart, "lines"> {
  readonly lines:
    readonly (Pick<ChartLine, "label" | "hue" | "run" | "steady"> & { readonly curve: Curve })[];
}

export function chartData(runs: readonly RunData[]): ChartData {
  const planned = (runs.length === 1 ? chartsOfOne(runs[0]) : chartsOfSeveral(runs))
    .filter(({ lines }) => lines.some(({ curve }) => isTelling(curve))).slice(0, MOST_CHARTS);
  const most = pointsALine(planned.flatMap(({ lines }) => lines.map(({ curve }) => curve.length)));
  const xs: number[][] = [], known = new Map<string, number>();
  const charts = planned.map(({ lines, ...chart }): Chart => ({
    ...chart,
    lines: lines.map(({ curve, ...line }): ChartLine => {
      const { x, ...values } = thinned(curve, most);
      const key = x.join();
      const at = known.get(key) ?? xs.push(x) - 1;
      known.set(key, at);
      return { ...line, x: at, ...values };
    }),
  }));
  return { runs: runs.map(({ name }) => name), xs, charts };
}

const isTelling = (curve: Curve): boolean =>
  curve.length > 1 && (curve.least !== 0 || curve.greatest !== 0 || curve.wrongs > 0);

/** Short lines leave their share of the points to long ones. */
function pointsALine(lengths: readonly number[]): number {
  let most = MOST_A_LINE;
  const all = () => lengths.reduce((sum, length) => sum + Math.min(length, most), 0);
  while (most > FEWEST_A_LINE && all() > MOST_POINTS) most *= 0.9;
  return Math.max(FEWEST_A_LINE, Math.floor(most));
}

export function thinned(
  curve: Curve,
  most: number,
): Pick<ChartLine, "y" | "lo" | "hi" | "wrong" | "wrongs"> & { x: number[] } {
  const each = Math.ceil(curve.length / most);
  const x: number[] = [], y: (number | null)[] = [], lo: (number | null)[] = [], hi: (number | null)[] = [];
  let spread = false;
  for (let from = 0; from < curve.length; from += each) {
    const to = Math.min(curve.length, from + each);
    let sum = 0, count = 0, min = Infinity, max = -Infinity;
    for (let i = from; i < to; i++) {
      sum += curve.sum[i];
      count += curve.count[i];
      min = Math.min(min, curve.min[i]);
      max = Math.max(max, curve.max[i]);
    }
    x.push(curve.step[to - 1]);
    const mean = count === 0 ? null : rounded(sum / count, 5);
    y.push(mean);
    const low = mean === null ? null : Math.min(rounded(min, 4), mean);
    const high = mean === null ? null : Math.max(rounded(max, 4), mean);
    lo.push(low);
    hi.push(high);
    // A curve as smooth as a learning rate needs no band.
    spread ||= high !== null && low !== null && high - low > 0.02 * Math.abs(mean ?? 0);
  }
  return {
    x,
    y,
    ...(spread ? { lo, hi } : {}),
    ...(curve.wrongs > 0 ? { wrong: curve.wrong, wrongs: curve.wrongs } : {}),
  };
}

const rounded = (value: number, digits: number): number => Number(value.toPrecision(digits));

const { step, times, ranks, system }: Record<string, Record<string, EventField>> = EVENT_FIELDS;
const CURVES: Readonly<Record<string, EventField>> = { ...times, ...step, ranks_spread: ranks.spread };
const SHOWN = ["lr", "grad_norm", "loss_scale", "skipped_steps", "samples_per_s", "tokens_per_s", "mfu"]
  .concat("ranks_spread", "memory_bytes");
/** Other charts show these, or none does. */
const NOT_SHOWN = ["loss", "val_loss", "epoch_loss", "flops"];

const chartOf = ({ label = "", unit, zero, log }: EventField) => ({
  title: label,
  unit,
  ...(zero ? { zero } : {}),
  ...(log === undefined ? {} : { log: true }),
});

function chartsOfOne(data: RunData): Planned[] {
  const { curves } = data;
  const line = (name: string, label: string, hue: number) => {
    const curve = curves.get(name);
    return curve && curve.length > 0 ? [{ label, hue, run: 0, curve, ...steady(name) }] : [];
  };
  const parts = [...curves.keys()].filter((name) =>
    name.startsWith("time_") && (curves.get(name)?.greatest ?? 0) > 0
  )
    .slice(0, MOST_LINES);
  return [
    {
      title: "Loss",
      unit: "value",
      log: true,
      lines: [...line("loss", "training", 0), ...line("val_loss", "validation", 1)],
    },
    ...metricsOf(data).map((metric): Planned => ({
      title: metric,
      unit: "value",
      log: metric === "perplexity",
      lines: [...line(`train_${metric}`, "training", 0), ...line(`val_${metric}`, "validation", 1)],
    })),
    ...byName(data).map(([metric, names]): Planned => ({
      title: `Validation ${metric}, one by one`,
      unit: "value",
      lines: names.slice(0, MOST_LINES).flatMap((name, i) => line(`val_${metric}/${name}`, name, i)),
      note: names.length > MOST_LINES ? `the first ${MOST_LINES} of ${names.length}` : undefined,
    })),
    ...SHOWN.map((name) => ({ ...chartOf(CURVES[name]), lines: line(name, CURVES[name].label ?? name, 0) })),
    {
      title: "Time of a step",
      unit: "seconds",
      zero: true,
      lines: parts.length > 0
        ? parts.flatMap((name, i) => line(name, name.slice(5), i))
        : line("data_s", "waited for data", 0),
    },
    ...othersOf(data).map((name): Planned => ({ title: name, unit: "value", lines: line(name, name, 0) })),
    ...systemCharts(data),
  ];
}

function chartsOfSeveral(runs: readonly RunData[]): Planned[] {
  const lines = (name: string) =>
    runs.flatMap(({ name: label, curves }, run) => {
      const curve = curves.get(name);
      return curve && curve.length > 0 ? [{ label, hue: run, run, curve, ...steady(name) }] : [];
    });
  const metrics = [...new Set(runs.flatMap(metricsOf))];
  return [
    { title: "Training loss", unit: "value", log: true, lines: lines("loss") },
    { title: "Validation loss", unit: "value", log: true, lines: lines("val_loss") },
    ...metrics.map((metric): Planned => ({
      title: `Validation ${metric}`,
      unit: "value",
      lines: lines(`val_${metric}`),
    })),
    ...SHOWN.map((name) => ({ ...chartOf(CURVES[name]), lines: lines(name) })),
  ];
}

const steady = (name: string) => /^(val|train)_/.test(name) || CURVES[name]?.steady ? { steady: true } : {};

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

/** Another version may have written more fields. */
function othersOf(data: RunData): string[] {
  const metrics = metricsOf(data);
  return [...data.curves.keys()].filter((name) =>
    ![...SHOWN, ...NOT_SHOWN].includes(name) && !name.startsWith("time_") && name !== "data_s" &&
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
      ...chartOf(about),
      note,
      machine: true,
      lines: shown.map(([rank, curve], hue) => ({
        label: ranks.length === 1 ? label : `rank ${rank}`,
        hue,
        run: 0,
        curve,
      })),
    }];
  });
}
