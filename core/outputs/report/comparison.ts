// Several runs beside each other: what differs in their settings, how good each became, and which one is best.
import { type BestEvaluation, isBetterThan, LOSS, monitoredOf } from "../../run/best.ts";
import { formatBytes, formatCount, formatDuration, formatPlural, formatRate } from "../../base/format.ts";
import { flat, NAMES_OF_RUN } from "../../run/flat_settings.ts";
import type { RunData } from "../../run/run_data.ts";
import { noted, whyUnlike } from "../../run/validation.ts";
import type { RunStatus } from "../../run/status.ts";
import { headCell, Html, markup } from "./html.ts";
import { headlineOf, higherIsBetter, lowered, measureLabel, measureText, shortValue } from "./measures.ts";
import { elapsedSecondsOf, peakMemory, STATE_CLASS, typical } from "./summary.ts";

const whyNoBest = (runs: readonly RunData[]): string | null =>
  whyUnlike(runs.filter(({ best }) => best).map(({ run }) => noted(run).validation));

/** Runs that monitor unlike metrics are compared by the loss. */
function judgingOf(runs: readonly RunData[]): (best: BestEvaluation) => BestEvaluation {
  const kinds = runs.flatMap(({ best }) => best ? [monitoredOf(best)] : []).map(({ name, mode }) =>
    name + mode
  );
  return new Set(kinds).size === 1 ? (best) => best : ({ loss, step, epoch }) => ({ loss, step, epoch });
}

/** The number of the best run; null where none was evaluated, or each on other data. */
function bestRunOf(runs: readonly RunData[]): number | null {
  if (whyNoBest(runs) !== null) return null;
  const judged = judgingOf(runs);
  let first: number | null = null;
  runs.forEach(({ best }, i) => {
    const other = first === null ? null : judged(runs[first].best!);
    if (best && isBetterThan(judged(best), other)) first = i;
  });
  return first;
}

export function comparisonVerdict(runs: readonly RunData[]): Html | null {
  const first = bestRunOf(runs), why = whyNoBest(runs);
  if (why !== null) return markup`<p class="verdict">${why}</p>`;
  if (first === null) return null;
  const run = runs[first], judged = judgingOf(runs);
  const { name: metric, mode, value } = monitoredOf(judged(run.best!));
  const second = runs.filter((_, i) => i !== first)
    .flatMap(({ best, name }) => best ? [{ name, value: monitoredOf(judged(best)).value }] : [])
    .sort((a, b) => mode === "max" ? b.value - a.value : a.value - b.value).at(0);
  const headline = headlineOf(run, null), byLoss = metric === LOSS;
  const text = (value: number) => byLoss ? shortValue(value) : measureText(metric, value);
  const ahead = second && byLoss && value > 0 ? timesText(second.value / value) : "";
  const also = headline && headline.name !== metric &&
    `, and ${lowered(headline.label)} ${headline.text} there`;
  return markup`<p class="verdict"><b class="good">${run.name} is best:</b> ${
    byLoss ? "a validation loss of" : lowered(measureLabel(metric))
  } ${text(value)} at step ${run.best!.step}${also}.${
    second && ` The next one is ${second.name} with ${text(second.value)}${ahead}.`
  }</p>`;
}

const timesText = (times: number): string =>
  times < 1.001
    ? ", nearly the same"
    : times < 2
    ? `, ${(100 * (times - 1)).toFixed(1)}% more`
    : `, ${times.toFixed(1)} times as much`;

/** A run's swatch and name, with a mark where it is the best. */
const runName = (run: RunData, i: number, best: number | null): Html =>
  markup`<span class="key"><i class="swatch h${i % 8}"></i>${run.name}${
    i === best && markup`<b class="chip">best</b>`
  }</span>`;

interface Column {
  readonly name: string;
  of(data: RunData): number | null | undefined;
  readonly format: (value: number) => string;
  /** The best value of the column is bold. */
  readonly better?: "higher" | "lower";
}

const QUALITY: readonly Column[] = [
  {
    name: "best validation loss",
    of: ({ best }) => best?.loss,
    format: shortValue,
    better: "lower",
  },
  { name: "at step", of: ({ best }) => best?.step, format: String },
];
const COST: readonly Column[] = [
  { name: "training loss, last step", of: ({ curves }) => curves.get("loss")?.last, format: shortValue },
  {
    name: "training loss, mean of last epoch",
    of: ({ curves }) => curves.get("epoch_loss")?.last,
    format: shortValue,
  },
  { name: "steps", of: ({ step }) => step, format: String },
  { name: "time", of: elapsedSecondsOf, format: formatDuration },
  { name: "samples/s", of: ({ curves }) => typical(curves.get("samples_per_s")), format: formatRate },
  {
    name: "goodput",
    of: ({ lineage }) => lineage?.goodput_percent,
    format: (value) => `${value.toFixed(1)}%`,
  },
  { name: "peak memory", of: peakMemory, format: formatBytes },
  { name: "parameters", of: ({ run }) => run?.parameters, format: formatCount },
  { name: "ranks", of: ({ run }) => run?.world_size, format: String },
];

const MOST_MEASURES = 8;

function measureColumns(runs: readonly RunData[]): Column[] {
  const metrics = [...new Set(runs.flatMap(({ metrics }) => [...metrics]))].slice(0, MOST_MEASURES);
  return metrics.map((metric): Column => {
    const better = higherIsBetter(metric);
    return {
      name: measureLabel(metric),
      of: ({ bestMetrics }) => Object.hasOwn(bestMetrics, metric) ? bestMetrics[metric] : null,
      format: (value) => measureText(metric, value),
      ...(better === null ? {} : { better: better ? "higher" : "lower" }),
    };
  });
}

export function comparison(runs: readonly RunData[], statuses: readonly RunStatus[]): Html {
  const best = bestRunOf(runs);
  // Columns in which all runs are equal tell nothing about them.
  const columns = [
    ...QUALITY,
    ...measureColumns(runs),
    ...COST.filter(({ of }) => new Set(runs.map(of)).size > 1),
  ]
    .filter(({ of }) => runs.some((run) => typeof of(run) === "number"));
  const firsts = columns.map((column) => best === null ? null : bestIn(column, runs));
  return markup`<section id="runs"><h2>Results</h2>
<div class="wide"><table class="sorts"><thead><tr>${headCell("run")}${headCell("state")}${
    columns.map(({ name }) => headCell(name, true))
  }${headCell("model")}</tr></thead><tbody>${
    runs.map((run, i) =>
      markup`<tr${i === best && new Html(' class="first"')}><th scope="row">${
        runName(run, i, best)
      }</th><td class="${STATE_CLASS[statuses[i].state]}">${statuses[i].state}</td>${
        columns.map((column, c) => cell(column.of(run), column.format, firsts[c]))
      }<td>${run.run?.model ?? ""}</td></tr>`
    )
  }</tbody></table></div></section>`;
}

/** Null where all are equal. */
function bestIn({ of, better }: Column, runs: readonly RunData[]): number | null {
  const values = runs.map(of).filter((value): value is number => Number.isFinite(value));
  const least = Math.min(...values), most = Math.max(...values);
  return better === undefined || least === most ? null : better === "lower" ? least : most;
}

function cell(
  value: number | null | undefined,
  format: (value: number) => string,
  first: number | null,
): Html {
  if (typeof value !== "number") return markup`<td class="number" data-value=""></td>`;
  const text = Number.isFinite(value) ? format(value) : "not finite";
  return markup`<td class="number" data-value="${Number.isFinite(value) ? value : ""}">${
    value === first ? markup`<b>${text}</b>` : text
  }</td>`;
}

export function settingDifferences(runs: readonly RunData[]): Html | null {
  const settings = runs.map(({ config }) => new Map(flat(config)));
  const paths = [...new Set(settings.flatMap((one) => [...one.keys()]))].filter((path) =>
    !NAMES_OF_RUN.test(path) && new Set(settings.map((one) => one.get(path))).size > 1
  );
  const best = bestRunOf(runs);
  if (paths.length === 0) {
    return markup`<section id="differences"><h2>Settings that differ</h2>
<p class="faint">None: what differs between these ${
      formatPlural(runs.length, "run")
    } is no setting.</p></section>`;
  }
  return markup`<section id="differences"><h2>Settings that differ</h2>
<div class="wide"><table><thead><tr><th scope="col">setting</th>${
    runs.map((run, i) => markup`<th scope="col">${runName(run, i, best)}</th>`)
  }</tr></thead><tbody>${
    paths.map((path) =>
      markup`<tr><th scope="row"><code>${path}</code></th>${
        settings.map((one) => markup`<td><code>${one.get(path) ?? ""}</code></td>`)
      }</tr>`
    )
  }</tbody></table></div></section>`;
}
