// Where the time went: within a step, from rank to rank, from attempt to attempt. May import lineage, run_data (types), format,
// bars, headline, html.
import { formatDuration, formatPlural } from "../../format.ts";
import { type Attempt, endOf, wallOf } from "../lineage.ts";
import type { RunData } from "../run_data.ts";
import { bar, key, type Share } from "./bars.ts";
import { dateOf } from "./headline.ts";
import { Html, markup } from "./html.ts";

/** Ranks shown: all, or those that the others wait for. */
const MOST_RANKS = 64;
const MOST_ATTEMPTS = 200;

const PARTS: Readonly<Record<string, string>> = {
  loader: "waiting for data",
  transfer: "to the device",
  compute: "forward and backward",
  communication: "waiting for other ranks",
  optimizer: "optimizer",
  save: "held by saves",
  eval: "evaluation",
  other: "other",
};

/** Of rank 0: its parts, with what they take of a step. */
export function timeOfStep(data: RunData): Html | null {
  const { timesTotal, timesSteps } = data;
  const parts = [...timesTotal].filter(([, seconds]) => seconds > 0);
  const whole = parts.reduce((sum, [, seconds]) => sum + seconds, 0);
  if (whole <= 0 || timesSteps <= 0) return null;
  const rows = parts.map(([name, seconds], i) => ({ name: PARTS[name] ?? name, seconds, hue: i % 8 }));
  const milliseconds = (seconds: number) => `${(1000 * seconds / timesSteps).toPrecision(3)} ms`;
  const percent = (seconds: number) => `${(100 * seconds / whole).toFixed(1)}%`;
  return markup`<section id="time"><h2>Where the time of a step went</h2>
${
    bar(
      rows.map(({ name, seconds, hue }) => ({ name: `${name} ${percent(seconds)}`, value: seconds, hue })),
      whole,
    )
  }
<div class="wide"><table><thead><tr><th>part</th><th class="number">each step</th><th class="number">share</th></tr></thead>
<tbody>${
    rows.map(({ name, seconds, hue }) =>
      markup`<tr><td><span class="key"><i class="swatch h${hue}"></i>${name}</span></td><td class="number">${
        milliseconds(seconds)
      }</td><td class="number">${percent(seconds)}</td></tr>`
    )
  }
<tr><th>all of it</th><td class="number">${
    milliseconds(whole)
  }</td><td class="number"></td></tr></tbody></table></div></section>`;
}

export function rankTimes(data: RunData): Html | null {
  const total = data.ranksTotal;
  if (total === null || total.steps <= 0) return null;
  const rows = total.loader.map((loader, rank) => {
    const compute = total.compute[rank], wait = total.communication[rank];
    return { rank, loader, compute, wait, own: loader + compute, all: loader + compute + wait };
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
${key(parts.map(([name, hue]) => ({ name, hue })))}
<div class="wide"><table class="sorts"><thead><tr>${headCell("rank")}<th class="bars"></th>${
    parts.map(([name]) => headCell(name, true))
  }</tr></thead><tbody>${
    shown.map(({ rank, loader, compute, wait, own }) =>
      markup`<tr><td data-value="${rank}">${rank}${
        own === slowest && slowest > 1.05 * fastest ? markup` <span class="warn">slowest</span>` : null
      }</td><td class="bars">${
        bar(
          [compute, loader, wait].map((value, i): Share => ({ name: parts[i][0], value, hue: parts[i][1] })),
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

/** A column's head that sorts when pressed. */
export const headCell = (name: string, number = false): Html =>
  markup`<th${number ? new Html(' class="number"') : null}><button type="button">${name}</button></th>`;

const LOST = [["training that was kept", 0], ["start", 4], ["saves", 2], [
  "steps that were done again",
  1,
]] as const;

export function attempts(data: RunData): Html | null {
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
${key(LOST.map(([name, hue]) => ({ name, hue })))}
<div class="wide"><table><thead><tr><th>attempt</th><th>began</th><th>where</th><th class="number">ranks</th><th class="number">steps</th><th class="bars"></th><th class="number">took</th><th>end</th></tr></thead>
<tbody>${
    shown.map((attempt, i) => attemptRow(attempt, shown[i + 1], longest))
  }</tbody></table></div></section>`;
}

function attemptRow(attempt: Attempt, next: Attempt | undefined, longest: number): Html {
  const { started, host, job_id, ranks, first_step, last_step, lost } = attempt;
  // What the next attempt did again was this one's work, lost.
  const again = next?.lost.redone_s ?? 0;
  const wall = wallOf(attempt);
  const kept = Math.max(0, wall - lost.restart_s - lost.save_stall_s - again);
  const values = [kept, lost.restart_s, lost.save_stall_s, again];
  return markup`<tr><td>${attempt.attempt}</td><td>${dateOf(started)}</td><td>${host}${
    job_id === null ? "" : `, job ${job_id}`
  }</td><td class="number">${ranks}</td><td class="number">${
    last_step < first_step ? "none" : `${first_step} to ${last_step}`
  }</td><td class="bars">${
    bar(
      values.map((value, i) => ({ name: `${LOST[i][0]} ${formatDuration(value)}`, value, hue: LOST[i][1] })),
      longest,
    )
  }</td><td class="number">${formatDuration(wall)}</td><td>${endOf(attempt)}</td></tr>`;
}
