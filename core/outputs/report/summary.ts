// The top of a run's report: whether it learned, how good it is, on what, and where the best model lies.
import { monitoredOf } from "../../run/best.ts";
import {
  formatBytes,
  formatCount,
  formatDuration,
  formatPlural,
  formatRate,
  formatValue,
} from "../../base/format.ts";
import type { Curve } from "../../run/curve.ts";
import type { Diagnostics } from "../../run/diagnostics.ts";
import { wallOf } from "../../run/lineage.ts";
import type { RunData } from "../../run/run_data.ts";
import { progressOf, type RunStatus } from "../../run/status.ts";
import { join } from "../../../deps/path.ts";
import { dateOf, type Html, markup } from "./html.ts";
import {
  type Headline,
  headlineOf,
  type LeadsOver,
  leadsOverPersistence,
  lowered,
  shortValue,
} from "./measures.ts";

export const STATE_CLASS: Readonly<Record<RunStatus["state"], string>> = {
  starting: "faint",
  running: "good",
  silent: "warn",
  gone: "bad",
  done: "good",
  stopped: "warn",
  requeued: "warn",
  failed: "bad",
};

export function heading(data: RunData, status: RunStatus, theme: Html): Html {
  const { run, warningCount } = data;
  const facts = run === null ? [] : [
    `${run.model}, ${formatCount(Number(run.parameters))} parameters`,
    `${formatPlural(Number(run.world_size), "rank")} on ${run.device === "cuda" ? "GPU" : "CPU"}`,
    String(run.host),
    data.begunAt === null ? "" : dateOf(data.begunAt),
  ].filter((fact) => fact !== "");
  return markup`<header><h1>${data.name}</h1><span class="state ${
    STATE_CLASS[status.state]
  }">${status.state}</span>${theme}
<p class="about">${facts.join(" · ")}${
    warningCount > 0 && markup` · <a href="#warnings">${formatPlural(warningCount, "warning")}</a>`
  }</p></header>`;
}

export function summarySection(data: RunData, status: RunStatus, found: Diagnostics | null): Html {
  const headline = headlineOf(data, found);
  return markup`<section id="summary" aria-label="Summary">${troubleOf(data, status)}${
    verdict(data, status, headline, leadsOverPersistence(found))
  }${headlineCards(data, headline)}${facts(data, status)}</section>`;
}

// Trouble, where there is some.

function troubleOf(data: RunData, { state, why }: RunStatus): Html | null {
  if (state === "done" || state === "running" || state === "starting") return null;
  const { nonFinite } = data;
  if (state !== "failed" || nonFinite === null) {
    return markup`<p class="trouble ${STATE_CLASS[state]}">${why}.</p>`;
  }
  const { step, epoch, loss, parameter, of } = nonFinite;
  const where = parameter === null
    ? "All gradients and weights are finite: the loss itself overflows, or the data hold such values."
    : markup`The first ${of} that is not finite belongs to <code>${parameter}</code>${
      layerOf(parameter) && markup`, in the layer <code>${layerOf(parameter)}</code>`
    }.`;
  return markup`<div class="trouble bad"><p><b>The loss became ${loss} at step ${step}, in epoch ${epoch}.</b> ${where}</p>
<p>${
    data.saves > 0
      ? "Checkpoints from before it are kept."
      : "There is no checkpoint, because no epoch had ended."
  } Try a lower <code>--lr</code>, <code>--clip-norm 1</code> or a longer <code>--warmup</code>, or look at the data.</p></div>`;
}

/** "layers.0.weight" belongs to "layers.0". */
const layerOf = (parameter: string): string => parameter.split(".").slice(0, -1).join(".");

// Sentences.

const firstOf = (curve: Curve): number =>
  Array.from({ length: curve.length }, (_, i) => curve.mean(i)).find(Number.isFinite) ?? NaN;

/** Later epochs have lost this share of what was learned. */
const OVERFIT = 0.1;
/** Less of a fall is noise. */
const FALL = 0.02;

/** The losses of fewer batches scatter too much to say anything. */
const FEW = 20;

type Learned = "learned" | "not yet" | "too short" | "no";

function verdict(
  data: RunData,
  { state }: RunStatus,
  headline: Headline | null,
  leads: LeadsOver | null,
): Html | null {
  const { learned, sentences } = lossSentences(data);
  const baseline = headline?.baseline;
  const good: Learned = state === "failed" && data.best === null
    ? "no"
    : baseline
    ? learned === "learned" && !baseline.beaten ? "not yet" : learned
    : learned;
  const inPart = good === "learned" && leads !== null && leads.others.length > 0;
  const [word, tone] = {
    learned: ["It learned.", "good"],
    "not yet": ["It does not beat its baseline yet.", "warn"],
    "too short": ["Too few steps to tell whether it learns.", "warn"],
    no: ["It did not learn.", "bad"],
    "in part": [leads && leadsText(leads), "warn"],
  }[inPart ? "in part" : good];
  if (sentences.length === 0) return null;
  const units = headline?.units ? ` ${headline.units}` : "";
  return markup`<p class="verdict"><b class="${tone}">${word}</b> ${sentences.join(" ")}${
    headline &&
    ` ${headline.label} is ${headline.text}${units}${
      baseline ? `, against ${baseline.text}${units} for ${baseline.of}` : ""
    }.`
  }${leads && !inPart && ` ${leadsText(leads)}`}</p>`;
}

/** A mean over leads may beat persistence where the first ones don't. */
function leadsText({ beaten, others }: LeadsOver): string {
  if (others.length === 0) return "It beats persistence at every lead.";
  if (beaten.length === 0) return "It does not beat persistence at any lead.";
  if (beaten[0] > others.at(-1)!) return `It beats persistence from lead ${beaten[0]} on, and not before.`;
  return `It beats persistence at the leads ${beaten.join(", ")}, and not at ${others.join(", ")}.`;
}

function lossSentences(data: RunData): { learned: Learned; sentences: string[] } {
  const { best, curves } = data, val = curves.get("val_loss"), loss = curves.get("loss");
  const trained = loss && loss.least < Infinity ? loss : null;
  if (best && val && val.length > 1) {
    const first = firstOf(val), fell = best.loss < first - FALL * Math.abs(first);
    if (!fell) {
      return {
        learned: "no",
        sentences: [
          `The validation loss has not fallen below ${shortValue(best.loss)}, of step ${best.step}.`,
        ],
      };
    }
    const lost = val.last - best.loss, risen = lost > OVERFIT * (first - best.loss);
    return {
      learned: "learned",
      sentences: [
        `The validation loss fell from ${shortValue(first)} to ${
          shortValue(best.loss)
        } by step ${best.step} (epoch ${best.epoch}).`,
        ...(risen ? [`It has risen to ${shortValue(val.last)} since: later epochs overfit.`] : []),
      ],
    };
  }
  if (!trained) return { learned: "no", sentences: [] };
  const first = firstOf(trained), last = trained.mean(trained.length - 1);
  const fell = last < first - FALL * Math.abs(first);
  const way = trained.length < 2
    ? `The training loss of a step was ${shortValue(first)} at step ${trained.lastStep}.`
    : !Number.isFinite(last)
    ? `The training loss of a step was ${shortValue(first)} at the first step that was logged.`
    : `The training loss of a step ${fell ? "fell" : "went"} from ${shortValue(first)} to ${
      shortValue(last)
    } in ${trained.lastStep} steps.`;
  const validated = best
    ? [`One evaluation, at step ${best.step}: validation loss ${shortValue(best.loss)}.`]
    : [];
  const learned = fell ? "learned" : trained.lastStep < FEW && Number.isFinite(last) ? "too short" : "no";
  return { learned, sentences: [way, ...validated] };
}

// Numbers.

function headlineCards(data: RunData, headline: Headline | null): Html {
  const { best, curves } = data, loss = curves.get("loss");
  const card = (name: string, value: Html | string, note: string, kind = "") =>
    markup`<div class="${kind}"><dt>${name}</dt><dd>${value}<small>${note}</small></dd></div>`;
  const units = headline?.units ? markup` <span class="units">${headline.units}</span>` : null;
  const compared = headline?.baseline
    ? `against ${headline.baseline.text} for ${headline.baseline.of}`
    : best
    ? best.monitor ? `at the best ${best.monitor.name}` : "at the best loss"
    : "";
  return markup`<dl class="headline">${
    headline && card(`Validation ${lowered(headline.label)}`, markup`${headline.text}${units}`, compared)
  }${
    best
      ? card(
        best.monitor ? `Best ${best.monitor.name}` : "Best validation loss",
        shortValue(monitoredOf(best).value),
        `step ${best.step}, epoch ${best.epoch}`,
      )
      : loss && loss.length > 0 &&
        card(
          "Training loss, last step",
          Number.isFinite(loss.last) ? shortValue(loss.last) : "not finite",
          `step ${loss.lastStep}; no evaluation yet`,
        )
  }${dataCard(data, card)}${
    best &&
    card("Best model", markup`<code>${bestModelOf(data)}</code>`, `of epoch ${best.epoch}`, "long")
  }</dl>`;
}

function dataCard(
  { config, validated }: RunData,
  card: (name: string, value: Html | string, note: string, kind: string) => Html,
): Html | null {
  const { data } = config as { data?: { data_path?: unknown; type?: unknown } };
  const path = String(data?.data_path ?? ""), type = String(data?.type ?? "");
  const name = path || (type === "" ? "" : `made-up ${type}`);
  return name === "" ? null : card(
    "Data",
    path ? markup`<code>${name}</code>` : name,
    validated === null ? "never validated" : `${formatPlural(validated, "validation sample")}`,
    "long",
  );
}

/** The run's own name of it; the file may lie elsewhere by now. */
function bestModelOf({ config, name }: RunData): string {
  const { output } = config as { output?: Record<string, unknown> };
  const format = output?.checkpoint_format, ending = format === "sharded" ? "ckpt" : format ?? "pt";
  const folder = String(output?.model_dir || join(String(output?.save_dir ?? "."), "checkpoints"));
  return join(folder, `${name}_best.${ending}`);
}

/** One line of what it took. */
function facts(data: RunData, { state }: RunStatus): Html {
  const { curves, lineage } = data;
  const { step, steps, epoch, epochs, secondsLeft } = progressOf(data);
  const rows: [string, string][] = [
    [
      "Steps",
      `${steps === null || steps === step ? step : `${step} of ${steps}`}${
        epoch > 0 ? `, epoch ${epoch}${epochs === null ? "" : ` of ${epochs}`}` : ""
      }`,
    ],
  ];
  const add = (name: string, value: string | null) => value !== null && rows.push([name, value]);
  add("Training loss", trainedText(data));
  const seconds = elapsedSecondsOf(data), attempts = lineage?.attempts.length ?? 0;
  add(
    "Time",
    seconds === null
      ? null
      : `${formatDuration(seconds)}${attempts > 1 ? `, ${formatPlural(attempts, "attempt")}` : ""}`,
  );
  add("Time left", secondsLeft === null || state !== "running" ? null : formatDuration(secondsLeft));
  const goodput = lineage?.goodput_percent ?? null;
  add("Goodput", goodput === null ? null : `${goodput.toFixed(1)}% of the time trained and was kept`);
  const tokens = typical(curves.get("tokens_per_s")), samples = typical(curves.get("samples_per_s"));
  add(
    "Speed",
    samples === null
      ? null
      : `${formatRate(samples)} samples/s${tokens === null ? "" : `, ${formatCount(tokens)} tokens/s`}`,
  );
  const mfu = typical(curves.get("mfu")), memory = peakMemory(data);
  add("MFU", mfu === null ? null : `${(100 * mfu).toFixed(1)}% of what the devices can do`);
  add("Peak memory", memory === null ? null : `${formatBytes(memory)} on rank 0`);
  add("Compiling", data.compiled);
  return markup`<dl class="facts">${
    rows.map(([name, value]) => markup`<div><dt>${name}</dt><dd>${value}</dd></div>`)
  }</dl>`;
}

/** The terminal's line of an epoch has its mean, and the curve has steps. */
function trainedText({ curves }: RunData): string | null {
  const mean = curves.get("epoch_loss")?.last, step = curves.get("loss")?.last;
  if (mean === undefined || step === undefined) return null;
  return `${formatValue(mean)} as the mean of the last epoch, ${formatValue(step)} at the last step logged`;
}

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
