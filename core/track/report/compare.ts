// Several runs beside each other: what came out, and which settings differ. May import run_data (types), standing, format,
// headline, settings, time, html.
import { formatBytes, formatCount, formatDuration, formatRate, formatValue } from "../../format.ts";
import type { RunData } from "../run_data.ts";
import type { Standing } from "../standing.ts";
import { peakMemory, secondsOf, STATE_CLASS, typical } from "./headline.ts";
import { Html, markup } from "./html.ts";
import { flat } from "./settings.ts";
import { headCell } from "./time.ts";

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
  { name: "time", of: secondsOf, format: formatDuration },
  {
    name: "goodput",
    of: ({ lineage }) => lineage?.goodput_percent,
    format: (value) => `${value.toFixed(1)}%`,
  },
  { name: "peak memory", of: peakMemory, format: formatBytes },
];

export function comparison(runs: readonly RunData[], standings: readonly Standing[]): Html {
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
                <td class="${STATE_CLASS[standings[i].state]}">${standings[i].state}</td>
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

/** Settings that are the same in all runs say nothing here; neither do names and places. */
const SAID = /^(output\.(run_name|save_dir|model_dir)|wandb\.|environment\.|training\.resume$)/;

export function differences(runs: readonly RunData[]): Html | null {
  const settings = runs.map(({ config }) => new Map(flat(config)));
  const paths = [...new Set(settings.flatMap((one) => [...one.keys()]))].filter((path) =>
    !SAID.test(path) && new Set(settings.map((one) => one.get(path))).size > 1
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
