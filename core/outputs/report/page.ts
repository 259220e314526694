// The report of runs.
import { type Diagnostics, readDiagnostics } from "../../run/diagnostics.ts";
import type { RunData } from "../../run/run_data.ts";
import { type RunStatus, runStatusOf } from "../../run/status.ts";
import { uplot } from "../../../deps/uplot.ts";
import { chartData } from "./chart_data.ts";
import { chartsOfRun, chartsOfRuns } from "./charts.ts";
import { comparison, comparisonVerdict, settingDifferences } from "./comparison.ts";
import { chartsHost, curvesSection, foldedCharts, smallCharts } from "./curves.ts";
import { diagnosticsSections } from "./diagnostics.ts";
import { type Html, markup } from "./html.ts";
import { embeddedFile, htmlFile, THEME } from "./html_file.ts";
import { samplesSection } from "./samples.ts";
import { configurationSection, environmentSection, warningsSection } from "./settings.ts";
import { heading, summarySection } from "./summary.ts";
import { attemptsSection, rankTimes, timeOfRun } from "./time.ts";

/** A section of a run's report is made from these. */
export interface Reported {
  readonly data: RunData;
  readonly status: RunStatus;
  /** The best evaluation's; null where a run keeps none. */
  readonly found: Diagnostics | null;
  readonly drawn: ReturnType<typeof chartData>;
}

/**
 * The sections of a run's report, in their order. Another one is a function in a file of its own and a line here;
 * null leaves it out.
 */
const SECTIONS: readonly ((run: Reported) => Html | null | readonly (Html | null)[])[] = [
  ({ data, status }) => heading(data, status, THEME),
  ({ data, status, found }) => summarySection(data, status, found),
  ({ drawn }) => curvesSection(drawn),
  ({ data, found }) => pictures(data.folder, found),
  ({ drawn }) => smallCharts(drawn, "training", "How it was steered"),
  ({ data, drawn }) => timeOfRun(data, chartsHost(drawn, "time")),
  ({ data }) => rankTimes(data),
  ({ data }) => attemptsSection(data),
  ({ drawn }) => foldedCharts(drawn, "measures", "Other measures"),
  ({ drawn }) => foldedCharts(drawn, "machine", "Speed and machines"),
  ({ data }) => warningsSection(data),
  ({ data }) => markup`<div class="two">${configurationSection(data)}${environmentSection(data)}</div>`,
];

/** `now` is in Unix seconds. */
export async function reportPage(runs: readonly RunData[], now: number): Promise<string> {
  const statuses = runs.map((run) => runStatusOf(run, now));
  const plots = uplot();
  const found = runs.length === 1 ? readDiagnostics(runs[0].folder) : null;
  const drawn = chartData(runs, runs.length === 1 ? chartsOfRun(runs[0], found) : chartsOfRuns(runs));
  const sections = runs.length === 1
    ? SECTIONS.map((section) => section({ data: runs[0], status: statuses[0], found, drawn })).flat()
    : [
      markup`<header><h1>${runs.length} runs compared</h1>${THEME}</header>`,
      comparisonVerdict(runs),
      settingDifferences(runs),
      comparison(runs, statuses),
      curvesSection(drawn),
      smallCharts(drawn, "training", "How they were steered"),
      smallCharts(drawn, "measures", "Other measures"),
      foldedCharts(drawn, "machine", "Speed and machines"),
    ];
  const { unchanged: _, ...data } = drawn;
  return await htmlFile({
    title: runs.map(({ name }) => name).join(", "),
    sections,
    style: plots.style,
    scripts: [plots.script, embeddedFile("charts.js"), embeddedFile("tables.js")],
    data,
    now,
  });
}

/** Pictures that were made for W&B are shown where the run has none of its own. */
function pictures(folder: string, found: Diagnostics | null): (Html | null)[] {
  const sections = found ? diagnosticsSections(found) : [];
  return sections[0] ? sections : [samplesSection(folder), ...sections];
}
