// The report of runs.
import { type Diagnostics, readDiagnostics } from "../../run/diagnostics.ts";
import type { RunData } from "../../run/run_data.ts";
import { type RunStatus, runStatusOf } from "../../run/status.ts";
import { uplot } from "../../../deps/uplot.ts";
import { chartData } from "./chart_data.ts";
import { type ChartPlace, chartsOfRun, chartsOfRuns } from "./charts.ts";
import { comparison, comparisonVerdict, settingDifferences } from "./comparison.ts";
import { diagnosticsSections } from "./diagnostics.ts";
import { embeddedFile, foldedPart, Html, htmlFile, markup, THEME } from "./html.ts";
import { configurationSection, environmentSection, warningsSection } from "./settings.ts";
import { heading, summarySection } from "./summary.ts";
import { attemptsSection, rankTimes, timeOfRun } from "./time.ts";
import { formatPlural } from "../../base/format.ts";
import { basename, dirname, join } from "../../../deps/path.ts";
import { recordsIn } from "../wandb/file.ts";
import type { HistoryItem } from "../wandb/records.ts";

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

// The parts of a page that its script fills with charts, and the controls of all of them.

type Drawn = ReturnType<typeof chartData>;

const has = ({ charts }: Drawn, place: ChartPlace): boolean => charts.some((chart) => chart.place === place);

/** The script puts the charts of this place into it. */
const chartsHost = (drawn: Drawn, place: ChartPlace): Html | null =>
  has(drawn, place) ? markup`<div class="charts ${place}" id="charts-${place}"></div>` : null;

/** Loss and the measure that matters, with the controls of all charts. */
function curvesSection(drawn: Drawn): Html | null {
  if (!drawn.charts.some(({ place }) => place === "large" || place === "training")) {
    return markup`<section id="curves"><h2>Curves</h2><p class="faint">There are too few logged steps for a curve: <code>--log-interval 1</code> logs each.</p></section>`;
  }
  const several = drawn.runs.length > 1;
  return markup`<section id="curves">${
    several &&
    markup`<div class="controls runs" role="group" aria-label="Runs that are shown">${
      drawn.runs.map(({ name }, i) =>
        markup`<label><input type="checkbox" checked data-run="${i}"><i class="swatch h${
          i % 8
        }"></i>${name}</label>`
      )
    }</div>`
  }
<div class="controls"><h2>Curves</h2><label><input type="checkbox" id="log"${
    drawn.logarithmic && new Html(" checked")
  }>Logarithmic loss</label>
<label>Smoothing <input type="range" id="smoothing" min="0" max="100" value="45" aria-describedby="smoothed"></label>
<span id="smoothed" class="note"></span>${several && relativeChoice(drawn)}
<button type="button" id="late">Last quarter</button><button type="button" id="whole" disabled>All steps</button></div>
<noscript><p>The curves need JavaScript; the numbers do not.</p></noscript>
${chartsHost(drawn, "large")}${
    drawn.unchanged.length > 0 && markup`<p class="faint">Constant: ${drawn.unchanged.join(", ")}.</p>`
  }</section>`;
}

const relativeChoice = ({ relative }: Drawn): Html =>
  markup`<label><input type="checkbox" id="relative"${
    relative && new Html(" checked")
  }>Each run from 0 to 100%</label>`;

/** Small charts of this place under a heading. */
const smallCharts = (drawn: Drawn, place: ChartPlace, title: string): Html | null =>
  has(drawn, place)
    ? markup`<section id="${place}"><h2>${title}</h2>${chartsHost(drawn, place)}</section>`
    : null;

/** Folded, because few look at them; they are drawn when they are opened. */
function foldedCharts(drawn: Drawn, place: ChartPlace, title: string): Html | null {
  const count = drawn.charts.filter((chart) => chart.place === place).length;
  return foldedPart(place, title, formatPlural(count, "chart"), chartsHost(drawn, place));
}

// Pictures that were made for W&B, for runs that keep no maps of their own.

/** These bounds keep the page small enough for a mail. */
const MOST = 24;
const MOST_BYTES = 600_000;

interface Sample {
  readonly caption: string;
  readonly png: Uint8Array;
}

function samplesSection(folder: string): Html | null {
  const set = lastSet(folder);
  if (set === null || set.samples.length === 0) return null;
  return markup`<section id="samples"><h2>Samples</h2>
<p class="faint">Of the validation set, at step ${set.step}.</p>
<div class="samples">${
    set.samples.map(({ caption, png }) =>
      markup`<figure><img alt="${caption}" src="data:image/png;base64,${png.toBase64()}"><figcaption>${caption}</figcaption></figure>`
    )
  }</div></section>`;
}

function lastSet(folder: string): { step: number; samples: Sample[] } | null {
  try {
    const file = fileOf(folder), media = join(dirname(file), "files");
    // The file may be long, so it is read only where there are pictures.
    Deno.statSync(join(media, "media", "images"));
    let found: { step: number; filenames: string[]; captions: string[] } | null = null;
    for (const record of recordsIn(file)) {
      if (record.kind !== "history") continue;
      for (const { json } of record.items) {
        if (json.includes('"images/separated"')) found = { ...JSON.parse(json), step: stepOf(record) };
      }
    }
    return found && { step: found.step, samples: read(found, media) };
  } catch {
    return null; // never recorded, uploaded and removed, or incomplete
  }
}

const stepOf = ({ items, step }: { items: readonly HistoryItem[]; step?: number }): number =>
  Number(items.find(({ key }) => key.join(".") === "_step")?.json ?? step ?? 0);

/** In a moved run the folder lies beside it. */
function fileOf(folder: string): string {
  const { path } = JSON.parse(Deno.readTextFileSync(join(folder, "wandb.json"))) as { path: string };
  const beside = join(dirname(folder), "wandb", basename(dirname(path)), basename(path));
  try {
    Deno.statSync(path);
    return path;
  } catch {
    return beside;
  }
}

function read({ filenames, captions }: { filenames: string[]; captions: string[] }, media: string): Sample[] {
  let bytes = 0;
  return filenames.slice(0, MOST).flatMap((name, i): Sample[] => {
    // Names outside the run's own folder are refused.
    if (!/^media\/images\/[^/]+\.png$/.test(name)) return [];
    const png = Deno.readFileSync(join(media, name));
    bytes += png.length;
    return bytes > MOST_BYTES ? [] : [{ caption: String(captions?.[i] ?? ""), png }];
  });
}
