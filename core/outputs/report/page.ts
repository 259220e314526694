// The report as one HTML file that loads nothing: its content policy forbids it.
import { VERSION } from "../../base/version.ts";
import type { RunData } from "../../run/run_data.ts";
import { type RunStatus, runStatusOf } from "../../run/status.ts";
import { chartData } from "./chart_data.ts";
import {
  attemptsSection,
  configurationSection,
  dateOf,
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
import { escaped, Html, jsonText, markup } from "./html.ts";
import { uplot } from "../../../deps/uplot.ts";
import { formatBytes, formatCount, formatDuration, formatRate, formatValue } from "../../base/format.ts";

/** `now` is in Unix seconds. */
export async function reportPage(runs: readonly RunData[], now: number): Promise<string> {
  const statuses = runs.map((run) => runStatusOf(run, now));
  const plots = uplot();
  const style = `${plots.style}\n${embeddedFile("page.css")}`;
  const scripts = [plots.script, embeddedFile("client.js")];
  const data = chartData(runs);
  const title = runs.map(({ name }) => name).join(", ");
  const theme = markup`<button type="button" id="theme" title="light or dark">Light / dark</button>`;
  const [first] = runs;
  const sections = runs.length === 1
    ? [
      heading(first, statuses[0], theme),
      headline(first, statuses[0]),
      charts([]),
      samplesSection(first.folder),
      timeOfRun(first),
      rankTimes(first),
      attemptsSection(first),
      warningsSection(first),
      configurationSection(first),
      environmentSection(first),
    ]
    : [
      markup`<header><h1>${runs.length} runs compared</h1>${theme}</header>`,
      comparison(runs, statuses),
      charts(runs.map(({ name }) => name)),
      differences(runs),
    ];
  const body = markup`${sections.map((section) => section && markup`${section}\n`)}
<footer>Made by hpctrain ${VERSION} on ${dateOf(now)}.</footer>`;
  const policy = [
    "default-src 'none'",
    "img-src data:",
    `style-src '${await hashOf(style)}'`,
    `script-src ${(await Promise.all(scripts.map(hashOf))).map((hash) => `'${hash}'`).join(" ")}`,
    "base-uri 'none'",
    "form-action 'none'",
  ].join("; ");
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${escaped(policy)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="hpctrain ${VERSION}">
<title>${escaped(title)}</title>
<link rel="icon" href="data:,">
<style>${style}</style>
</head>
<body>
${body.text}
<script type="application/json" id="data">${jsonText(data)}</script>
${scripts.map((script) => `<script>${script}</script>`).join("\n")}
</body>
</html>
`;
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

const embeddedFile = (name: string): string =>
  Deno.readTextFileSync(new URL(`./page/${name}`, import.meta.url)).trim();

/** The content policy allows a script or a style by its hash. */
async function hashOf(text: string): Promise<string> {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text)));
  return `sha256-${digest.toBase64()}`;
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
