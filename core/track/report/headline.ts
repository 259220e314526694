// The numbers that a report begins with. May import curve and run_data (types), standing, lineage, format, html.
import {
  formatBytes,
  formatCount,
  formatDuration,
  formatPlural,
  formatRate,
  formatValue,
} from "../../format.ts";
import type { Curve } from "../curve.ts";
import { wallOf } from "../lineage.ts";
import type { RunData } from "../run_data.ts";
import { progressOf, type Standing } from "../standing.ts";
import { Html, markup } from "./html.ts";

export const STATE_CLASS: Readonly<Record<Standing["state"], string>> = {
  starting: "faint",
  running: "good",
  silent: "warn",
  gone: "bad",
  done: "good",
  stopped: "warn",
  failed: "bad",
};

/** Points that warm up are no measure of how fast a run was. */
export function typical(curve: Curve | undefined): number | null {
  if (!curve || curve.length === 0) return null;
  const means = Array.from({ length: curve.length }, (_, i) => curve.mean(i)).filter(Number.isFinite);
  return means.length === 0 ? null : means.toSorted((a, b) => a - b)[Math.floor(means.length / 2)];
}

/** The time of all attempts, without that between them. */
export function secondsOf({ lineage, begunAt, lastAt }: RunData): number | null {
  const attempts = lineage?.attempts ?? [];
  if (attempts.length > 0) return attempts.reduce((sum, attempt) => sum + wallOf(attempt), 0);
  return begunAt === null || lastAt === null ? null : lastAt - begunAt;
}

export function peakMemory({ curves, systemCurves }: RunData): number | null {
  const all = [curves.get("memory_bytes"), ...systemCurves.get("device_peak_bytes")?.values() ?? []];
  const most = Math.max(...all.map((curve) => curve?.greatest ?? -Infinity));
  return Number.isFinite(most) ? most : null;
}

export function headline(data: RunData, { state }: Standing): Html {
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
  const seconds = secondsOf(data), attempts = lineage?.attempts.length ?? 0;
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

/** Title, state and what was run where. */
export function heading(data: RunData, standing: Standing, theme: Html): Html {
  const { run } = data;
  const facts = run === null ? [] : [
    `${run.model}, ${formatCount(Number(run.parameters))} parameters`,
    `${formatPlural(Number(run.world_size), "rank")} on ${run.device === "cuda" ? "GPU" : "CPU"}`,
    String(run.host),
    data.begunAt === null ? "" : dateOf(data.begunAt),
  ].filter((fact) => fact !== "");
  return markup`
    <header>
      <h1>${data.name}</h1><span class="state ${STATE_CLASS[standing.state]}">${standing.state}</span>${theme}
      <p class="about">${facts.join(" · ")}</p>
      ${
    standing.state === "done" ? null : markup`
        <p class="about ${STATE_CLASS[standing.state]}">${standing.why}.</p>
      `
  }
    </header>
  `;
}

/** "2026-05-01 12:30 UTC". */
export function dateOf(seconds: number): string {
  const date = new Date(1000 * seconds);
  return Number.isNaN(date.getTime()) ? "?" : `${date.toISOString().slice(0, 16).replace("T", " ")} UTC`;
}
