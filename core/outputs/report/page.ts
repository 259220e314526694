// The report of runs.
import type { RunData } from "../../run/run_data.ts";
import { type RunStatus, runStatusOf } from "../../run/status.ts";
import { diagnosticsSections } from "./diagnostics.ts";
import { chartData } from "./chart_data.ts";
import {
  attemptsSection,
  configurationSection,
  elapsedSecondsOf,
  environmentSection,
  flat,
  headCell,
  heading,
  headline,
  peakMemory,
  rankTimes,
  samplesSection,
  STATE_CLASS,
  timeOfRun,
  typical,
  warningsSection,
} from "./sections.ts";
import { type Html, markup } from "./html.ts";
import { embeddedFile, htmlFile, THEME } from "./html_file.ts";
import { uplot } from "../../../deps/uplot.ts";
import { formatBytes, formatCount, formatDuration, formatRate, formatValue } from "../../base/format.ts";

/** `now` is in Unix seconds. */
export async function reportPage(runs: readonly RunData[], now: number): Promise<string> {
  const statuses = runs.map((run) => runStatusOf(run, now));
  const plots = uplot();
  const [first] = runs;
  const sections = runs.length === 1
    ? [
      heading(first, statuses[0], THEME),
      headline(first, statuses[0]),
      charts([]),
      ...picturesOf(first.folder),
      timeOfRun(first),
      rankTimes(first),
      attemptsSection(first),
      warningsSection(first),
      configurationSection(first),
      environmentSection(first),
    ]
    : [
      markup`<header><h1>${runs.length} runs compared</h1>${THEME}</header>`,
      comparison(runs, statuses),
      charts(runs.map(({ name }) => name)),
      differences(runs),
    ];
  return await htmlFile({
    title: runs.map(({ name }) => name).join(", "),
    sections,
    style: plots.style,
    scripts: [plots.script, embeddedFile("client.js")],
    data: chartData(runs),
    now,
  });
}

/** Pictures that were made for W&B are shown where the run has no maps of its own. */
function picturesOf(folder: string): (Html | null)[] {
  const found = diagnosticsSections(folder);
  return found.at(-1) ? found : [...found, samplesSection(folder)];
}

function charts(names: readonly string[]): Html {
  const choice = names.map((name, i) =>
    markup`<label><input type="checkbox" checked data-run="${i}"><i class="swatch h${
      i % 8
    }"></i>${name}</label>`
  );
  return markup`<section id="curves"><h2>Curves</h2>
${choice.length > 0 ? markup`<div class="controls runs">${choice}</div>` : null}
<div class="controls"><label>Smoothing <input type="range" id="smoothing" min="0" max="100" value="45"></label>
<label><input type="checkbox" id="log">Logarithmic scale</label>
<button type="button" id="late">Last quarter</button><button type="button" id="whole" disabled>All steps</button>
<span>Drag over a chart to zoom in; faint are the values before smoothing, or their range.</span></div>
<noscript><p>The curves need JavaScript; the numbers do not.</p></noscript>
<div id="charts"></div><div id="machine"></div></section>`;
}

interface Column {
  readonly name: string;
  of(data: RunData): number | null | undefined;
  readonly format: (value: number) => string;
}

const COLUMNS: readonly Column[] = [
  { name: "parameters", of: ({ run }) => run?.parameters, format: formatCount },
  { name: "ranks", of: ({ run }) => run?.world_size, format: String },
  { name: "steps", of: ({ step }) => step, format: String },
  { name: "training loss", of: ({ curves }) => curves.get("loss")?.last, format: formatValue },
  { name: "best validation loss", of: ({ best }) => best?.loss, format: formatValue },
  { name: "samples/s", of: ({ curves }) => typical(curves.get("samples_per_s")), format: formatRate },
  { name: "time", of: elapsedSecondsOf, format: formatDuration },
  {
    name: "goodput",
    of: ({ lineage }) => lineage?.goodput_percent,
    format: (value) => `${value.toFixed(1)}%`,
  },
  { name: "peak memory", of: peakMemory, format: formatBytes },
];

export function comparison(runs: readonly RunData[], statuses: readonly RunStatus[]): Html {
  const metrics = [...new Set(runs.flatMap(({ metrics }) => [...metrics]))].slice(0, 8);
  const columns: Column[] = [
    ...COLUMNS.slice(0, 5),
    ...metrics.map((metric): Column => ({
      name: metric,
      of: ({ bestMetrics }) => Object.hasOwn(bestMetrics, metric) ? bestMetrics[metric] : null,
      format: formatValue,
    })),
    ...COLUMNS.slice(5),
  ].filter(({ of }) => runs.some((run) => of(run) !== null && of(run) !== undefined));
  return markup`
    <section id="runs">
      <h2>Runs</h2>
      <div class="wide">
        <table class="sorts">
          <thead><tr>${headCell("run")}${headCell("state")}${headCell("model")}${
    columns.map(({ name }) => headCell(name, true))
  }</tr></thead>
          <tbody>${
    runs.map((run, i) =>
      markup`
              <tr>
                <th scope="row"><span class="key"><i class="swatch h${i % 8}"></i>${run.name}</span></th>
                <td class="${STATE_CLASS[statuses[i].state]}">${statuses[i].state}</td>
                <td>${run.run?.model ?? ""}</td>${
        columns.map((column) => cell(column.of(run), column.format))
      }
              </tr>
            `
    )
  }</tbody>
        </table>
      </div>
    </section>
  `;
}

function cell(value: number | null | undefined, format: (value: number) => string): Html {
  if (typeof value !== "number") {
    return markup`
      <td class="number" data-value=""></td>
    `;
  }
  return markup`
    <td class="number" data-value="${Number.isFinite(value) ? value : ""}">${format(value)}</td>
  `;
}

/** Names and paths differ in all runs. */
const NAMES_OF_RUN = /^(output\.(run_name|save_dir|model_dir)|wandb\.|environment\.|training\.resume$)/;

export function differences(runs: readonly RunData[]): Html | null {
  const settings = runs.map(({ config }) => new Map(flat(config)));
  const paths = [...new Set(settings.flatMap((one) => [...one.keys()]))].filter((path) =>
    !NAMES_OF_RUN.test(path) && new Set(settings.map((one) => one.get(path))).size > 1
  );
  if (paths.length === 0) return null;
  return markup`
    <section id="differences">
      <h2>Settings that differ</h2>
      <div class="wide">
        <table>
          <thead><tr><th>setting</th>${
    runs.map(({ name }) =>
      markup`
              <th>${name}</th>
            `
    )
  }</tr></thead>
          <tbody>${
    paths.map((path) =>
      markup`
              <tr><td><code>${path}</code></td>${
        settings.map((one) =>
          markup`
                  <td><code>${one.get(path) ?? ""}</code></td>
                `
        )
      }</tr>
            `
    )
  }</tbody>
        </table>
      </div>
    </section>
  `;
}
