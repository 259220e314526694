// Where the time of a run went: the parts of it, rank by rank, and what restarts have cost.
import { formatDuration, formatMilliseconds, formatPlural } from "../../base/format.ts";
import { type Attempt, endOfAttempt, wallOf } from "../../run/lineage.ts";
import type { RunData } from "../../run/run_data.ts";
import { ownWork, percentages, TIME_PART_LABELS, TIME_PARTS } from "../../run/account.ts";
import {
  type BarShare,
  dateOf,
  foldedPart,
  headCell,
  type Html,
  markup,
  shareBar,
  shareLegend,
} from "./html.ts";

/** Above this number only the slowest ranks are shown. */
const MOST_RANKS = 64;
const MOST_ATTEMPTS = 200;

/** Rank 0's time counts, from set-up to end. */
/** `chart` is the host of the chart of a step's time, where there is one. */
export function timeOfRun(
  { time, timeOfSteps, timesSteps }: RunData,
  chart: Html | null = null,
): Html | null {
  const shares = percentages(time).map(([name, percent]) => ({
    name: TIME_PART_LABELS[name],
    percent,
    seconds: time[`${name}_s`],
    step: timesSteps > 0 ? formatMilliseconds(1000 * timeOfSteps[`${name}_s`] / timesSteps) : "",
    hue: TIME_PARTS.indexOf(name),
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
<div class="two"><div class="wide"><table><thead><tr><th>part</th><th class="number">in all</th><th class="number">each step</th><th class="number">share</th></tr></thead>
<tbody>${
    shares.map(({ name, percent, seconds, step, hue }) =>
      markup`<tr><td><span class="key"><i class="swatch h${hue}"></i>${name}</span></td><td class="number">${
        formatDuration(seconds)
      }</td><td class="number">${step}</td><td class="number">${percent.toFixed(1)}%</td></tr>`
    )
  }
<tr><th>all of it</th><td class="number">${
    formatDuration(whole)
  }</td><td class="number"></td><td class="number">100.0%</td></tr></tbody></table></div>${chart}</div></section>`;
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
  const each = (seconds: number) => formatMilliseconds(1000 * seconds / total.steps);
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
  const body = markup`<p class="faint">${formatPlural(attempts.length, "attempt")}, ${
    formatDuration(all)
  } in all${goodput === null ? "" : `, goodput ${goodput.toFixed(1)}%`}. Waiting in a queue is not counted.${
    shown.length < attempts.length ? ` The last ${shown.length} are shown.` : ""
  }${parent ? ` It went on from ${parent.checkpoint} at step ${parent.step}.` : ""}</p>
${shareLegend(LOST.map(([name, hue]) => ({ name, hue })))}
<div class="wide"><table><thead><tr><th>attempt</th><th>began</th><th>where</th><th class="number">ranks</th><th class="number">steps</th><th class="bars"></th><th class="number">took</th><th>end</th></tr></thead>
<tbody>${shown.map((attempt, i) => attemptRow(attempt, shown[i + 1], longest))}</tbody></table></div>`;
  // A single attempt has lost nothing but its start.
  if (attempts.length === 1) return foldedPart("attempts", "Attempts and lost time", "1 attempt", body);
  return markup`<section id="attempts"><h2>Attempts and lost time</h2>${body}</section>`;
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
