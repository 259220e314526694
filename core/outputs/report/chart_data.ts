// Curves, thinned out so that the report opens at once.
import { formatBytes, formatCount, formatLearningRate, formatRate } from "../../base/format.ts";
import type { Curve } from "../../run/curve.ts";
import type { Unit } from "../../run/events.ts";
import type { Planned } from "./charts.ts";
import { shortValue } from "./measures.ts";
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

interface Chart extends Omit<Planned, "lines"> {
  readonly lines: readonly ChartLine[];
  /** It spans so much that only a logarithmic axis shows it. */
  readonly wide?: true;
}

interface ChartData {
  readonly runs: readonly ChartedRun[];
  readonly xs: readonly (readonly number[])[];
  readonly charts: readonly Chart[];
  /** The x axis is the share of each run: they are of unlike length. */
  readonly relative: boolean;
  /** The loss begins with a logarithmic axis. */
  readonly logarithmic: boolean;
}

interface ChartedRun {
  readonly name: string;
  readonly steps: number;
  readonly stepsPerEpoch: number | null;
}

/** At 20 bytes each the page stays well below 2 MB. */
const MOST_POINTS = 56_000;
const MOST_A_LINE = 4096;
const FEWEST_A_LINE = 300;
const MOST_CHARTS = 60;

/** Curves that never change are no charts: `unchanged` names them. */
export function chartData(
  runs: readonly RunData[],
  planned: readonly Planned[],
): ChartData & { readonly unchanged: readonly string[] } {
  const drawn = planned.map((chart) => ({
    ...chart,
    lines: chart.lines.filter(({ curve }) => isSeen(curve)),
  }))
    .filter(isTelling).slice(0, MOST_CHARTS);
  const most = pointsALine(drawn.flatMap(({ lines }) => lines.map(({ curve }) => curve.length)));
  const xs: number[][] = [], known = new Map<string, number>();
  const charts = drawn.map(({ lines, ...chart }): Chart => ({
    ...chart,
    ...(isWide(chart.log, lines) ? { wide: true } : {}),
    lines: lines.map(({ curve, ...line }): ChartLine => {
      const { x, ...values } = thinned(curve, most);
      const key = x.join();
      const at = known.get(key) ?? xs.push(x) - 1;
      known.set(key, at);
      return { ...line, x: at, ...values };
    }),
  }));
  const charted = runs.map(({ name, step, stepsPerEpoch }) => ({ name, steps: step, stepsPerEpoch }));
  const lengths = charted.map(({ steps }) => steps).filter((steps) => steps > 0);
  return {
    ...{ runs: charted, xs, charts },
    relative: Math.max(...lengths) > UNLIKE * Math.min(...lengths),
    logarithmic: charts.some(({ place, wide }) => place === "large" && wide === true),
    unchanged: planned.filter(({ place }) => place !== "machine").flatMap(constantOf),
  };
}

const WIDE = 1000;

function isWide(log: boolean | undefined, lines: Planned["lines"]): boolean {
  const least = Math.min(...lines.map(({ curve }) => curve.least));
  return log === true && least > 0 && lines.some(({ curve }) => curve.greatest > WIDE * least);
}

/** Runs are of unlike length when one is so many times as long as another. */
const UNLIKE = 1.5;

const isSeen = ({ length, least, greatest, wrongs }: Curve): boolean =>
  length > 0 && (least !== 0 || greatest !== 0 || wrongs > 0);

const isFlat = ({ least, greatest, wrongs }: Curve): boolean => least === greatest && wrongs === 0;

/** The parts of a step need some points to be more than their table. */
const FEWEST_OF_STACK = 4;

/** A chart of single points or of flat lines says less than a number. */
const isTelling = ({ lines, place, stacked }: Planned): boolean =>
  (!stacked || lines.some(({ curve }) => curve.length >= FEWEST_OF_STACK)) &&
  lines.some(({ curve }) => curve.length > 1 && (place === "large" || !isFlat(curve)));

/** "Learning rate 1.0e-3", where it never changed. */
function constantOf({ title, unit, lines, stacked }: Planned): string[] {
  const seen = lines.filter(({ curve }) => isSeen(curve) && curve.length > 1);
  if (stacked || seen.length !== 1 || !isFlat(seen[0].curve)) return [];
  return [`${title} ${VALUES[unit](seen[0].curve.least, title)}`];
}

const VALUES: Readonly<Record<Unit, (value: number, title: string) => string>> = {
  value: (value) => Math.abs(value) < 0.01 ? formatLearningRate(value) : shortValue(value),
  rate: formatRate,
  bytes: formatBytes,
  seconds: (value) => `${shortValue(value)} s`,
  share: (value) => `${(100 * value).toFixed(1)}%`,
  percent: (value) => `${value.toFixed(1)}%`,
  count: formatCount,
};

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
