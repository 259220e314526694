// The page of a sweep: which run was best and how to train it, charts, what each setting explains, and the table.
import { formatDuration, formatPlural, formatValue } from "../../base/format.ts";
import { commandWithoutSecrets } from "../../base/secrets.ts";
import { quoteLines } from "../../base/shell.ts";
import { embeddedFile, headCell, type Html, htmlFile, markup, THEME } from "../../outputs/report/html.ts";
import { PARTS, type Parts } from "../../parts.ts";
import type { Goal } from "./metric.ts";
import { methodOf, type SearchMethod } from "./search.ts";
import { ranked, type Sweep, type SweepRow, whyUnranked } from "./runs.ts";

interface SweepPage {
  readonly sweep: Sweep;
  readonly goal: Goal;
  readonly rows: readonly SweepRow[];
  /** The flags of a run. */
  readonly wordsOf: (run: string) => readonly string[];
  readonly weights: string | null;
  /** From the first event of all runs to the last; null before. */
  readonly seconds: number | null;
  /** Unix seconds. */
  readonly now: number;
}

const STATE: Readonly<Record<SweepRow["state"], readonly [shown: string, colour: string]>> = {
  waiting: ["waiting", "faint"],
  starting: ["starting", "good"],
  running: ["running", "good"],
  silent: ["silent", "warn"],
  gone: ["gone", "bad"],
  done: ["done", "faint"],
  pruned: ["stopped early", "faint"],
  stopped: ["stopped", "warn"],
  requeued: ["requeued", "warn"],
  failed: ["failed", "bad"],
};

/** It stands before the values from run to run. */
export interface SweepChart {
  section(page: SweepPage): Html;
  readonly style: string;
  /** It finds its section, and the page's data as JSON in #data. */
  readonly script: string;
}

const CHARTS: Parts<{ readonly chart: SweepChart }> = PARTS.charts;

export async function sweepPage(page: SweepPage): Promise<string> {
  const { sweep, rows, goal } = page;
  const axes = pageAxesOf(sweep, rows), best = ranked(rows, sweep.metric, goal);
  const method = sweep.search ? await methodOf(sweep.search.kind) : null;
  const charts = await Promise.all(Object.values(CHARTS).map(async ({ load }) => (await load()).chart));
  return await htmlFile({
    title: `Sweep ${sweep.name}`,
    sections: [
      heading(page, method),
      cards(page, best),
      command(page, best[0]),
      ...best.length > 0 ? [...charts.map(({ section }) => section(page)), progress(sweep)] : [],
      importance(page, axes, method),
      table(page, best),
    ],
    style: [own("sweep.css"), ...charts.map(({ style }) => style)].join("\n"),
    scripts: [embeddedFile("tables.js"), ...charts.map(({ script }) => script), own("sweep.js")],
    data: {
      metric: sweep.metric,
      goal,
      axes,
      runs: rows.map((row) => ({
        run: row.run,
        state: STATE[row.state][0],
        metric: row.metric !== null && Number.isFinite(row.metric) ? row.metric : null,
        at: axes.map((axis) => axisPlace(axis, axis.metric ? row.metric : row.values[axis.name])),
        words: Object.entries(row.values).map(([name, word]) => `${name} ${word}`).join(", "),
      })),
    },
    now: page.now,
  });
}

const own = (name: string): string =>
  Deno.readTextFileSync(new URL(`./page/${name}`, import.meta.url)).trim();

function heading({ sweep, rows, goal }: SweepPage, method: SearchMethod | null): Html {
  const { search } = sweep;
  const own = search?.kind === "grid" ? "all combinations" : "drawn at random";
  const how = search ? `, ${method?.how ?? own}` : "";
  const stops = search?.rungs
    ? `, losers stopped early from ${formatPlural(search.rungs.first, search.rungs.unit.slice(0, -1))} on`
    : "";
  const of = search && search.maxRuns > rows.length
    ? `${rows.length} of ${search.maxRuns} runs`
    : formatPlural(rows.length, "run");
  return markup`<header><h1>${sweep.name}</h1>${THEME}<p class="about">${of}${how}${stops}; ${
    goal === "minimize" ? "least" : "largest"
  } <code>${sweep.metric}</code> is best</p></header>`;
}

function cards({ sweep, rows, seconds }: SweepPage, [best]: readonly SweepRow[]): Html {
  const count = (...states: SweepRow["state"][]) => rows.filter(({ state }) => states.includes(state)).length;
  const card = (name: string, value: string | number, note = "") =>
    markup`<div><dt>${name}</dt><dd>${value}${note && markup`<small>${note}</small>`}</dd></div>`;
  const failed = count("failed", "gone"),
    going = count("running", "starting", "silent"),
    early = count("pruned");
  return markup`<dl class="headline">${
    best && card(`best ${sweep.metric}`, formatValue(best.metric!), best.run)
  }${card("done", count("done"))}${early > 0 && card("stopped early", early)}${
    failed > 0 && card("failed", failed)
  }${going > 0 && card("under way", going)}${
    seconds !== null && card("from first to last", formatDuration(seconds))
  }</dl>`;
}

function command({ rows, wordsOf, weights }: SweepPage, best: SweepRow | undefined): Html | null {
  const why = whyUnranked(rows);
  if (!best) return markup`<p class="verdict">${why === null ? "No run has a value yet." : why}</p>`;
  const line = quoteLines([
    "hpctrain",
    ...commandWithoutSecrets(wordsOf(best.run)),
    `--run-name=${best.run}-again`,
  ]);
  const values = Object.entries(best.values).map(([name, word], i) =>
    markup`${i > 0 ? ", " : ""}<b>${name} ${word}</b>`
  );
  return markup`<p class="verdict">The best run has ${values}.</p>
<section id="best"><h2>Train it again</h2><pre tabindex="0"><code>${line}</code></pre>
${weights && markup`<p class="faint">Its weights: <code>${weights}</code></p>`}</section>`;
}

const progress = ({ metric }: Sweep): Html =>
  markup`<section id="progress"><h2>From run to run</h2><p class="faint">Each dot is a run in the order of their begin; the line is the best
 ${metric} so far.</p><div id="steps"></div></section>`;

function importance(
  { sweep, rows }: SweepPage,
  axes: readonly PageAxis[],
  method: SearchMethod | null,
): Html | null {
  const whole = rows.filter(({ state, metric }) =>
    state === "done" && metric !== null && Number.isFinite(metric)
  );
  const shares = axes.filter(({ metric }) => !metric).flatMap((axis) => {
    const samples = whole.flatMap((row) => {
      const x = axisPlace(axis, row.values[axis.name]);
      return x === null ? [] : [{ x, y: row.metric! }];
    });
    const share = explained(samples, axis.kind);
    return share === null ? [] : [{ name: axis.name, share }];
  }).sort((a, b) => b.share - a.share);
  if (shares.length === 0) {
    return whole.length < FEWEST_RUNS && axes.length > 1
      ? markup`<section id="importance"><h2>What each setting explains</h2><p class="faint">It takes ${FEWEST_RUNS} whole runs to say anything; there are ${whole.length}.</p></section>`
      : null;
  }
  const bars = shares.map(({ name, share }) =>
    markup`<tr><th scope="row"><code>${name}</code></th><td class="bar-cell"><svg viewBox="0 0 100 10"
 preserveAspectRatio="none" aria-hidden="true"><rect class="rail" width="100" height="10" /><rect class="share" width="${
      (100 * share).toFixed(1)
    }" height="10" /></svg></td><td class="number">${(100 * share).toFixed(0)}%</td></tr>`
  );
  const careful = method?.beware ? ` ${method.beware}` : "";
  return markup`<section id="importance"><h2>What each setting explains</h2>
<p class="faint">The share of the order of ${whole.length} whole runs by ${sweep.metric} that a parabola (or the means of choices) over
 one setting alone explains, adjusted for chance. Settings that act together are not seen.${careful}</p>
<div class="wide"><table class="bars"><thead class="unseen"><tr><th>setting</th><th>bar</th><th>share</th></tr></thead><tbody>${bars}</tbody></table></div></section>`;
}

function table({ sweep, rows }: SweepPage, best: readonly SweepRow[]): Html {
  const names = [...new Set(rows.flatMap(({ values }) => Object.keys(values)))];
  const place = new Map(best.map(({ run }, i) => [run, i + 1]));
  const indexOf = new Map(rows.map(({ run }, i) => [run, i]));
  const sorted = [...best, ...rows.filter(({ run }) => !place.has(run))];
  const failures = rows.some(({ state }) => state === "failed" || state === "gone");
  const body = sorted.map((row) => {
    const [shown, colour] = STATE[row.state];
    const numbers = names.map((name) => {
      const word = row.values[name] ?? "", number = word !== "" && !Number.isNaN(Number(word));
      return number ? markup`<td class="number" data-value="${word}">${word}</td>` : markup`<td>${word}</td>`;
    });
    const metric = row.metric === null || !Number.isFinite(row.metric) ? "" : row.metric;
    return markup`<tr data-run="${
      indexOf.get(row.run)
    }"><th scope="row">${row.run}</th><td class="number" data-value="${place.get(row.run) ?? ""}">${
      place.get(row.run) ?? ""
    }</td><td class="number" data-value="${metric}">${
      metric === "" ? "" : formatValue(metric)
    }</td>${numbers}<td class="${colour}">${shown}</td><td class="number" data-value="${row.step}">${row.step}</td>${
      failures &&
      markup`<td class="why">${row.state === "failed" || row.state === "gone" ? row.why : ""}</td>`
    }</tr>`;
  });
  return markup`<section id="table"><h2>Runs</h2><p><output id="count">${
    formatPlural(rows.length, "run")
  }</output></p>
<div class="wide"><table class="sorts"><thead><tr>${headCell("run")}${headCell("place", true)}${
    headCell(sweep.metric, true)
  }${names.map((name) => headCell(name, rows.every(({ values }) => !Number.isNaN(Number(values[name])))))}${
    headCell("state")
  }${headCell("step", true)}${
    failures && markup`<th scope="col">why</th>`
  }</tr></thead><tbody>${body}</tbody></table></div></section>`;
}

// The axes of a sweep's page: where a value lies, from 0 to 1, and the labels beside. Pure.

interface PageAxis {
  readonly name: string;
  readonly kind: "number" | "choice";
  /** It is the last one, which runs are compared by. */
  readonly metric: boolean;
  readonly low: number;
  readonly high: number;
  readonly log: boolean;
  readonly whole: boolean;
  readonly choices: readonly string[];
  readonly ticks: readonly { readonly at: number; readonly label: string }[];
}

/** A logarithmic axis is better where values span so many times their least. */
const WIDE = 20;

/** A setting that all runs share is no axis. */
export function pageAxesOf(sweep: Sweep, rows: readonly SweepRow[]): PageAxis[] {
  const names = [...new Set(rows.flatMap(({ values }) => Object.keys(values)))];
  const settings = names.map((name) => {
    const dimension = sweep.search?.space.find((one) => one.name === name);
    if (dimension && dimension.kind !== "choice") {
      return numberAxis(name, [dimension.low, dimension.high], {
        log: dimension.log,
        whole: dimension.kind === "int",
      });
    }
    const words = [...new Set(rows.flatMap(({ values }) => values[name] ?? []))];
    return axisOfWords(name, dimension?.kind === "choice" ? dimension.choices : words);
  });
  const metric = rows.map((row) => row.metric).filter((value) =>
    value !== null && Number.isFinite(value)
  ) as number[];
  if (metric.length === 0) return settings;
  return [...settings, { ...numberAxis(sweep.metric, metric), metric: true }];
}

function axisOfWords(name: string, words: readonly string[]): PageAxis {
  const numbers = words.map(Number);
  // A few numbers are better seen as choices, at equal distances.
  if (words.length > 8 && numbers.every(Number.isFinite)) return numberAxis(name, numbers);
  const choices = numbers.every(Number.isFinite) ? [...words].sort((a, b) => Number(a) - Number(b)) : words;
  const ticks = choices.map((label, i) => ({ at: (i + 0.5) / choices.length, label }));
  return { name, kind: "choice", metric: false, low: 0, high: 1, log: false, whole: false, choices, ticks };
}

function numberAxis(
  name: string,
  values: readonly number[],
  { log, whole = false }: { log?: boolean; whole?: boolean } = {},
): PageAxis {
  const least = Math.min(...values), most = Math.max(...values);
  const [low, high] = least < most ? [least, most] : [least - 0.5, most + 0.5];
  const axis = { name, kind: "number" as const, metric: false, low, high, whole, choices: [] };
  const scaled = { ...axis, log: log ?? (low > 0 && high / low >= WIDE), ticks: [] };
  const ticks = ticksOf(scaled).map((value) => ({ at: axisPlace(scaled, value)!, label: labelOf(value) }));
  return { ...scaled, ticks };
}

/** Null where a run has no value. */
export function axisPlace(
  { kind, choices, low, high, log }: PageAxis,
  value: string | number | null | undefined,
): number | null {
  if (value === null || value === undefined) return null;
  if (kind === "choice") {
    const at = choices.indexOf(String(value));
    return at < 0 ? null : (at + 0.5) / choices.length;
  }
  const number = Number(value);
  if (!Number.isFinite(number)) return null;
  const at = log ? Math.log(number / low) / Math.log(high / low) : (number - low) / (high - low);
  return Math.min(Math.max(at, 0), 1);
}

const labelOf = (value: number): string =>
  value !== 0 && (Math.abs(value) < 0.001 || Math.abs(value) >= 1e5)
    ? value.toExponential().replace("+", "")
    : String(value);

function ticksOf({ low, high, log }: Pick<PageAxis, "low" | "high" | "log">): number[] {
  const decades = Math.log10(high / low);
  if (log && decades >= 2) {
    const every = Math.ceil(decades / 5),
      first = Math.ceil(Math.log10(low) - 1e-9),
      last = Math.floor(Math.log10(high) + 1e-9);
    const powers = [];
    for (let power = first; power <= last; power += every) powers.push(Number(`1e${power}`));
    return powers;
  }
  if (log) {
    const found = [1, 2, 5].flatMap((digit) =>
      [-6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6].map((power) => Number(`${digit}e${power}`))
    );
    const inside = found.filter((value) => value >= low && value <= high).sort((a, b) => a - b);
    if (inside.length >= 2) return inside.length <= 6 ? inside : inside.filter((_, i) => i % 2 === 0);
  }
  const raw = (high - low) / 4, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((digit) => digit * power).find((one) => one >= raw) ?? raw;
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) {
    ticks.push(Number((i * step).toPrecision(6)));
  }
  return ticks.length >= 2 ? ticks : [low, high].map((end) => Number(formatValue(end)));
}

// How much of the order of runs one setting alone explains: the adjusted R² of a parabola through ranks, or of the means
// of choices. A parabola, as the best learning rate is between too small and too large. Pure.

export interface Observation {
  /** A number, or the index of a choice. */
  readonly x: number;
  readonly y: number;
}

/** Fewer runs say nothing. */
const FEWEST_RUNS = 12;

/** From 0 to 1; null where there are too few runs, or too few different values. */
export function explained(samples: readonly Observation[], kind: "number" | "choice"): number | null {
  const n = samples.length, different = new Set(samples.map(({ x }) => x)).size;
  if (n < FEWEST_RUNS || different < 2) return null;
  const y = ranksOf(samples.map((one) => one.y));
  const fitted = kind === "choice" || different < 4
    ? meansOf(samples.map(({ x }) => x), y)
    : parabola(ranksOf(samples.map(({ x }) => x)), y);
  const freedom = kind === "choice" || different < 4 ? different : 3;
  const mean = (n + 1) / 2;
  const sum = (of: (value: number, i: number) => number) =>
    y.reduce((all, value, i) => all + of(value, i) ** 2, 0);
  const all = sum((value) => value - mean), left = sum((value, i) => value - fitted[i]);
  if (all === 0 || n <= freedom) return null;
  return Math.max(0, 1 - left / (n - freedom) / (all / (n - 1)));
}

/** Equal values share the mean of their ranks. */
function ranksOf(values: readonly number[]): number[] {
  const order = values.map((_, i) => i).sort((a, b) => values[a] - values[b]);
  const ranks = new Array<number>(values.length).fill(0);
  for (let from = 0, to = 0; from < order.length; from = to) {
    while (to < order.length && values[order[to]] === values[order[from]]) to++;
    for (let at = from; at < to; at++) ranks[order[at]] = (from + 1 + to) / 2;
  }
  return ranks;
}

function meansOf(groups: readonly number[], y: readonly number[]): number[] {
  const sums = new Map<number, [sum: number, count: number]>();
  groups.forEach((group, i) => {
    const [sum, count] = sums.get(group) ?? [0, 0];
    sums.set(group, [sum + y[i], count + 1]);
  });
  return groups.map((group) => sums.get(group)![0] / sums.get(group)![1]);
}

/** Least squares over polynomials that are orthogonal on these points. */
function parabola(x: readonly number[], y: readonly number[]): number[] {
  const n = x.length, mean = (values: readonly number[]) => values.reduce((a, b) => a + b, 0) / n;
  const product = (a: readonly number[], b: readonly number[]) =>
    a.reduce((all, value, i) => all + value * b[i], 0);
  const one = x.map(() => 1), line = x.map((value) => value - mean(x));
  const square = line.map((value) => value ** 2);
  const slope = product(square, line) / product(line, line);
  const curve = square.map((value, i) => value - mean(square) - slope * line[i]);
  const parts = [one, line, curve].filter((part) => product(part, part) > 1e-9 * n);
  const weights = parts.map((part) => product(part, y) / product(part, part));
  return x.map((_, i) => parts.reduce((all, part, p) => all + weights[p] * part[i], 0));
}
