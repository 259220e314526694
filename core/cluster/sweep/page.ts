// The page of a sweep: which run was best and how to train it, charts, what each setting explains, and the table.
import { formatDuration, formatPlural, formatValue } from "../../base/format.ts";
import { commandWithoutSecrets } from "../../base/secrets.ts";
import { quoteLines } from "../../base/shell.ts";
import { headCell, type Html, markup } from "../../outputs/report/html.ts";
import { embeddedFile, htmlFile, THEME } from "../../outputs/report/html_file.ts";
import { PARTS, type Parts } from "../../parts.ts";
import { explained, FEWEST_RUNS } from "./importance.ts";
import type { Goal } from "./metric.ts";
import { axisPlace, pageAxesOf, type PageAxis } from "./page_axes.ts";
import { methodOf, type SearchMethod } from "./search.ts";
import { ranked, type Sweep, type SweepRow, whyUnranked } from "./runs.ts";

export interface SweepPage {
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
