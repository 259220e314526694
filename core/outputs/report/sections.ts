import {
  formatBytes,
  formatCount,
  formatDuration,
  formatPlural,
  formatRate,
  formatValue,
} from "../../base/format.ts";
import type { Curve } from "../../run/curve.ts";
import { type Attempt, endOfAttempt, wallOf } from "../../run/lineage.ts";
import type { RunData } from "../../run/run_data.ts";
import { gpuLine } from "../../run/console.ts";
import { progressOf, type RunStatus } from "../../run/status.ts";
import { type BarShare, Html, markup, shareBar, shareLegend } from "./html.ts";
import { ownWork, percentages, TIME_PART_LABELS } from "../../run/account.ts";
import { basename, dirname, join } from "../../../deps/path.ts";
import { recordsIn } from "../wandb/resume.ts";
import type { Item } from "../wandb/records.ts";

export const STATE_CLASS: Readonly<Record<RunStatus["state"], string>> = {
  starting: "faint",
  running: "good",
  silent: "warn",
  gone: "bad",
  done: "good",
  stopped: "warn",
  failed: "bad",
};

export function typical(curve: Curve | undefined): number | null {
  if (!curve || curve.length === 0) return null;
  const means = Array.from({ length: curve.length }, (_, i) => curve.mean(i)).filter(Number.isFinite);
  return means.length === 0 ? null : means.toSorted((a, b) => a - b)[Math.floor(means.length / 2)];
}

/** The time between attempts does not count. */
export function elapsedSecondsOf({ lineage, begunAt, lastAt }: RunData): number | null {
  const attempts = lineage?.attempts ?? [];
  if (attempts.length > 0) return attempts.reduce((sum, attempt) => sum + wallOf(attempt), 0);
  return begunAt === null || lastAt === null ? null : lastAt - begunAt;
}

export function peakMemory({ curves, systemCurves }: RunData): number | null {
  const all = [curves.get("memory_bytes"), ...systemCurves.get("device_peak_bytes")?.values() ?? []];
  const most = Math.max(...all.map((curve) => curve?.greatest ?? -Infinity));
  return Number.isFinite(most) ? most : null;
}

export function headline(data: RunData, { state }: RunStatus): Html {
  const { curves, best, bestMetrics, lineage } = data;
  const { step, steps, epoch, epochs, secondsLeft } = progressOf(data);
  const cards: Html[] = [];
  const card = (name: string, value: string | null, note = "") => {
    if (value !== null) {
      cards.push(markup`
        <div>
          <dt>${name}</dt>
          <dd>${value}<small>${note}</small></dd>
        </div>
      `);
    }
  };
  const loss = curves.get("loss");
  if (best) card("best validation loss", formatValue(best.loss), `step ${best.step}, epoch ${best.epoch}`);
  else if (loss && loss.length > 0) card("training loss", formatValue(loss.last), `step ${loss.lastStep}`);
  for (const [name, value] of Object.entries(bestMetrics).slice(0, 4)) {
    if (typeof value === "number") card(`validation ${name}`, formatValue(value), "at the best loss");
  }
  card(
    "steps",
    steps === null || steps === step ? String(step) : `${step} of ${steps}`,
    `epoch ${epoch}${epochs === null ? "" : ` of ${epochs}`}`,
  );
  const seconds = elapsedSecondsOf(data), attempts = lineage?.attempts.length ?? 0;
  card(
    "time",
    seconds === null ? null : formatDuration(seconds),
    attempts > 1 ? formatPlural(attempts, "attempt") : "",
  );
  card("time left", secondsLeft === null || state !== "running" ? null : formatDuration(secondsLeft));
  const goodput = lineage?.goodput_percent ?? null;
  card(
    "goodput",
    goodput === null ? null : `${goodput.toFixed(1)}%`,
    "of that time was training that was kept",
  );
  const tokens = typical(curves.get("tokens_per_s")), samples = typical(curves.get("samples_per_s"));
  card(
    "samples a second",
    samples === null ? null : formatRate(samples),
    tokens === null ? "typical" : `${formatCount(tokens)} tokens/s`,
  );
  const mfu = typical(curves.get("mfu")), memory = peakMemory(data);
  card("MFU", mfu === null ? null : `${(100 * mfu).toFixed(1)}%`, "of what the devices can do");
  card("peak memory", memory === null ? null : formatBytes(memory), "of rank 0");
  return markup`
    <dl class="headline">${cards}</dl>
  `;
}

export function heading(data: RunData, status: RunStatus, theme: Html): Html {
  const { run } = data;
  const facts = run === null ? [] : [
    `${run.model}, ${formatCount(Number(run.parameters))} parameters`,
    `${formatPlural(Number(run.world_size), "rank")} on ${run.device === "cuda" ? "GPU" : "CPU"}`,
    String(run.host),
    data.begunAt === null ? "" : dateOf(data.begunAt),
  ].filter((fact) => fact !== "");
  return markup`
    <header>
      <h1>${data.name}</h1><span class="state ${STATE_CLASS[status.state]}">${status.state}</span>${theme}
      <p class="about">${facts.join(" · ")}</p>
      ${
    status.state === "done" ? null : markup`
        <p class="about ${STATE_CLASS[status.state]}">${status.why}.</p>
      `
  }
    </header>
  `;
}

export function dateOf(seconds: number): string {
  const date = new Date(1000 * seconds);
  return Number.isNaN(date.getTime()) ? "?" : `${date.toISOString().slice(0, 16).replace("T", " ")} UTC`;
}

/** Above this number only the slowest ranks are shown. */
const MOST_RANKS = 64;
const MOST_ATTEMPTS = 200;

/** Rank 0's time counts, from set-up to end. */
export function timeOfRun({ time, timeOfSteps, timesSteps }: RunData): Html | null {
  const shares = percentages(time).map(([name, percent], i) => ({
    name: TIME_PART_LABELS[name],
    percent,
    seconds: time[`${name}_s`],
    step: timesSteps > 0 ? `${(1000 * timeOfSteps[`${name}_s`] / timesSteps).toPrecision(3)} ms` : "",
    hue: i % 8,
  }));
  const whole = shares.reduce((sum, { seconds }) => sum + seconds, 0);
  if (whole <= 0) return null;
  return markup`<section id="time"><h2>Where the time went</h2>
<p class="faint">On rank 0, as its host saw it: on a GPU, work is queued and waited for.</p>
${
    shareBar(
      shares.map(({ name, percent, seconds, hue }) => ({
        name: `${name} ${percent.toFixed(1)}%`,
        value: seconds,
        hue,
      })),
      whole,
    )
  }
<div class="wide"><table><thead><tr><th>part</th><th class="number">in all</th><th class="number">each step</th><th class="number">share</th></tr></thead>
<tbody>${
    shares.map(({ name, percent, seconds, step, hue }) =>
      markup`<tr><td><span class="key"><i class="swatch h${hue}"></i>${name}</span></td><td class="number">${
        formatDuration(seconds)
      }</td><td class="number">${step}</td><td class="number">${percent.toFixed(1)}%</td></tr>`
    )
  }
<tr><th>all of it</th><td class="number">${
    formatDuration(whole)
  }</td><td class="number"></td><td class="number">100.0%</td></tr></tbody></table></div></section>`;
}

export function rankTimes(data: RunData): Html | null {
  const total = data.ranksTotal;
  if (total === null || total.steps <= 0) return null;
  const rows = total.spent.map((spent, rank) => {
    const loader = spent.data_s, wait = spent.communication_s, own = ownWork(spent);
    return { rank, loader, compute: own - loader, wait, own, all: own + wait };
  });
  const most = Math.max(...rows.map(({ all }) => all)), slowest = Math.max(...rows.map(({ own }) => own));
  const fastest = Math.min(...rows.map(({ own }) => own));
  const shown = rows.length <= MOST_RANKS
    ? rows
    : rows.toSorted((a, b) => b.own - a.own).slice(0, MOST_RANKS);
  const parts = [["own work", 0], ["waiting for data", 1], ["waiting for other ranks", 8]] as const;
  const each = (seconds: number) => `${(1000 * seconds / total.steps).toPrecision(3)} ms`;
  return markup`<section id="ranks"><h2>Ranks</h2>
<p class="faint">Means over ${total.steps} steps. The fastest rank has ${
    (100 * (slowest - fastest) / Math.max(slowest, 1e-9)).toFixed(0)
  }% less to do than the slowest, and waits for it.${
    shown.length < rows.length ? ` The ${shown.length} slowest of ${rows.length} are shown.` : ""
  }</p>
${shareLegend(parts.map(([name, hue]) => ({ name, hue })))}
<div class="wide"><table class="sorts"><thead><tr>${headCell("rank")}<th class="bars"></th>${
    parts.map(([name]) => headCell(name, true))
  }</tr></thead><tbody>${
    shown.map(({ rank, loader, compute, wait, own }) =>
      markup`<tr><td data-value="${rank}">${rank}${
        own === slowest && slowest > 1.05 * fastest ? markup` <span class="warn">slowest</span>` : null
      }</td><td class="bars">${
        shareBar(
          [compute, loader, wait].map((value, i): BarShare => ({
            name: parts[i][0],
            value,
            hue: parts[i][1],
          })),
          most,
        )
      }</td>${
        [compute, loader, wait].map((seconds) =>
          markup`<td class="number" data-value="${seconds}">${each(seconds)}</td>`
        )
      }</tr>`
    )
  }</tbody></table></div></section>`;
}

export const headCell = (name: string, number = false): Html =>
  markup`<th${number ? new Html(' class="number"') : null}><button type="button">${name}</button></th>`;

const LOST = [["training that was kept", 0], ["start", 4], ["saves", 2], [
  "steps that were done again",
  1,
]] as const;

export function attemptsSection(data: RunData): Html | null {
  const { lineage } = data;
  if (lineage === null || lineage.attempts.length === 0) return null;
  const { goodput_percent: goodput, parent, attempts } = lineage;
  const all = attempts.reduce((sum, attempt) => sum + wallOf(attempt), 0);
  const shown = attempts.slice(-MOST_ATTEMPTS);
  const longest = Math.max(...shown.map(wallOf));
  return markup`<section id="attempts"><h2>Attempts and lost time</h2>
<p class="faint">${formatPlural(attempts.length, "attempt")}, ${formatDuration(all)} in all${
    goodput === null ? "" : `, goodput ${goodput.toFixed(1)}%`
  }. Waiting in a queue is not counted.${
    shown.length < attempts.length ? ` The last ${shown.length} are shown.` : ""
  }${parent ? ` It went on from ${parent.checkpoint} at step ${parent.step}.` : ""}</p>
${shareLegend(LOST.map(([name, hue]) => ({ name, hue })))}
<div class="wide"><table><thead><tr><th>attempt</th><th>began</th><th>where</th><th class="number">ranks</th><th class="number">steps</th><th class="bars"></th><th class="number">took</th><th>end</th></tr></thead>
<tbody>${
    shown.map((attempt, i) => attemptRow(attempt, shown[i + 1], longest))
  }</tbody></table></div></section>`;
}

function attemptRow(attempt: Attempt, next: Attempt | undefined, longest: number): Html {
  const { started, host, job_id, ranks, first_step, last_step, lost } = attempt;
  // Steps that the next attempt repeated are lost to this one.
  const again = next?.lost.redone_s ?? 0;
  const wall = wallOf(attempt);
  const kept = Math.max(0, wall - lost.restart_s - lost.save_stall_s - again);
  const values = [kept, lost.restart_s, lost.save_stall_s, again];
  return markup`<tr><td>${attempt.attempt}</td><td>${dateOf(started)}</td><td>${host}${
    job_id === null ? "" : `, job ${job_id}`
  }</td><td class="number">${ranks}</td><td class="number">${
    last_step < first_step ? "none" : `${first_step} to ${last_step}`
  }</td><td class="bars">${
    shareBar(
      values.map((value, i) => ({ name: `${LOST[i][0]} ${formatDuration(value)}`, value, hue: LOST[i][1] })),
      longest,
    )
  }</td><td class="number">${formatDuration(wall)}</td><td>${endOfAttempt(attempt)}</td></tr>`;
}

export function flat(config: unknown, path = ""): [string, string][] {
  if (typeof config !== "object" || config === null || Array.isArray(config)) return [[path, textOf(config)]];
  return Object.entries(config).flatMap(([name, value]) =>
    flat(value, path === "" ? name : `${path}.${name}`)
  );
}

const textOf = (value: unknown): string => typeof value === "string" ? value : JSON.stringify(value) ?? "";

export function configurationSection({ config, origins }: RunData): Html | null {
  const all = flat(config);
  if (all.length === 0 || Object.keys(config).length === 0) return null;
  const own = all.filter(([path]) => Object.hasOwn(origins, path));
  const table = (rows: [string, string][]) =>
    markup`
      <div class="wide">
        <table>
          <thead>
            <tr>
              <th>setting</th>
              <th>value</th>
              <th>from</th>
            </tr>
          </thead>
          <tbody>${
      rows.map(([path, value]) =>
        markup`
              <tr>
                <td><code>${path}</code></td>
                <td><code>${value}</code></td>
                <td class="faint">${Object.hasOwn(origins, path) ? String(origins[path]) : "default"}</td>
              </tr>
            `
      )
    }</tbody>
        </table>
      </div>
    `;
  // Logs of older versions have no origins, so the report folds all settings.
  return markup`
    <section id="configuration">
      <h2>Configuration</h2>${own.length > 0 ? table(own) : null}
      <details><summary>All ${all.length} settings</summary>${table(all)}</details>
    </section>
  `;
}

export function environmentSection({ run, folder, begunAt, lastAt, lineage, config }: RunData): Html | null {
  if (run === null) return null;
  const rows: [string, string][] = [
    ["hpctrain", String(run.version)],
    ["libtorch", `${run.libtorch}${libtorchFolder(config)}`],
    ["device", `${run.world_size} x ${run.device}`],
    ...(run.gpu ? [["GPU", gpuLine(run.gpu).replace(/^GPU: /, "")] satisfies [string, string]] : []),
    ["host", `${run.host}, process ${run.pid}`],
    [
      "jobs",
      [...new Set(lineage?.attempts.map(({ job_id }) => job_id).filter((id) => id !== null) ?? [])].join(
        ", ",
      ),
    ],
    ["model", `${run.model}, ${formatCount(Number(run.parameters))} parameters (${run.parameters})`],
    ["begun", begunAt === null ? "" : dateOf(begunAt)],
    ["last event", lastAt === null ? "" : dateOf(lastAt)],
    ["folder", folder],
  ];
  const command = Array.isArray(run.command)
    ? ["hpctrain", ...run.command.map((word) => quoted(String(word)))].join(" ")
    : "";
  return markup`
    <section id="environment">
      <h2>Environment</h2>${
    command === "" ? null : markup`
        <pre><code>${command}</code></pre>
      `
  }
      <div class="wide"><table><tbody>${
    rows.filter(([, value]) => value !== "").map(([name, value]) =>
      markup`
          <tr>
            <th scope="row">${name}</th>
            <td>${value}</td>
          </tr>
        `
    )
  }</tbody></table></div>
    </section>
  `;
}

function libtorchFolder(config: RunData["config"]): string {
  const { environment } = config as { environment?: { libtorch?: unknown } };
  return typeof environment?.libtorch === "string" && environment.libtorch !== ""
    ? ` in ${environment.libtorch}`
    : "";
}

const quoted = (word: string): string =>
  /^[\w./:=,@%+-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;

export function warningsSection({ warnings, warningCount, lineageError }: RunData): Html | null {
  const notes = lineageError === null ? [] : [lineageError];
  if (warnings.length === 0 && notes.length === 0) return null;
  const count = warningCount > warnings.length ? ` (the last ${warnings.length} of ${warningCount})` : "";
  return markup`
    <section id="warnings">
      <h2>Warnings${count}</h2>
      <ul class="warnings">${
    notes.map((note) =>
      markup`
          <li>${note}</li>
        `
    )
  }${
    warnings.toReversed().map(({ t, message, step }) =>
      markup`
          <li><time>${dateOf(t)}${step === undefined ? "" : `, step ${step}`}</time>${message}</li>
        `
    )
  }</ul>
    </section>
  `;
}

/** These bounds keep the page small enough for a mail. */
const MOST = 24;
const MOST_BYTES = 600_000;

interface Sample {
  readonly caption: string;
  readonly png: Uint8Array;
}

export function samplesSection(folder: string): Html | null {
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

const stepOf = ({ items, step }: { items: readonly Item[]; step?: number }): number =>
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
