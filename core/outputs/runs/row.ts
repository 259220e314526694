// A run as one row of a table: from the two ends of its events, and its lineage. What it costs does not grow with
// the run.
import {
  type BestEvaluation,
  evaluationIn,
  isBetterThan,
  type Mode,
  type Monitored,
  monitoredOf,
} from "../../run/best.ts";
import { basename, join } from "../../../deps/path.ts";
import { EXIT, type ExitKind, messageOf, systemRefusal, UserError, whyRefused } from "../../base/errors.ts";
import {
  decodeEvent,
  type ExitEvent,
  type MetricValues,
  type RunEvent,
  type WarningEvent,
} from "../../run/events.ts";
import { flat } from "../../run/flat_settings.ts";
import { bestAttempt, type Lineage, lineageNow, wallOf } from "../../run/lineage.ts";
import { noted, type Validation } from "../../run/validation.ts";
import { progressOf, type RunState, runStatusOf } from "../../run/status.ts";
import { type Ends, eventKindOf, eventsOfKind, eventTimeOf, linesAround, readEnds } from "./ends.ts";

export type RowState = RunState | "broken";

export interface RunRow {
  readonly run: string;
  readonly folder: string;
  readonly state: RowState;
  /** A sentence without its full stop. */
  readonly why: string;
  /** Null where the run has not failed. */
  readonly failure: ExitKind | null;
  /** Something is wrong with its files. */
  readonly problem: string | null;
  readonly model: string | null;
  readonly ranks: number | null;
  /** The best value of `metric`; a run without evaluations has the training loss of its last step. */
  readonly best: number | null;
  /** "loss" is the training loss. */
  readonly metric: string | null;
  /** Absent where the least is best. */
  readonly mode?: Mode;
  /** That of the best evaluation, where another metric is monitored. */
  readonly valLoss?: number;
  readonly validation?: Validation;
  readonly bestStep: number | null;
  readonly bestEpoch: number | null;
  /** They belong to the evaluation with the best loss, and are empty where it is not found. */
  readonly metrics: MetricValues;
  readonly step: number;
  readonly steps: number | null;
  readonly epoch: number;
  readonly epochs: number | null;
  /** All attempts count. */
  readonly seconds: number | null;
  readonly secondsLeft: number | null;
  readonly goodput: number | null;
  readonly attempts: number;
  /** Both are Unix seconds. */
  readonly started: number | null;
  readonly seen: number | null;
  /** Path -> value, of all settings. */
  readonly settings: ReadonlyMap<string, string>;
}

/** A log that has been empty for longer has no process that will still write to it. */
const BEGINNING_S = 600;

export function rowOf(folder: string, now: number): RunRow {
  const path = join(folder, "events.jsonl");
  let ends: Ends;
  try {
    ends = readEnds(path);
  } catch (error) {
    return brokenRow(folder, whyUnread(error));
  }
  const { lineage, problem } = lineageIn(folder, ends);
  const found = foundIn(ends);
  const { lastAt } = found;
  if (lastAt === null && now - ends.written > BEGINNING_S) {
    const what = ends.size === 0 ? "is empty" : "has no event that can be read";
    return brokenRow(
      folder,
      `events.jsonl ${what}: the run ended before its first event, or the file was damaged`,
    );
  }
  return { ...filled(folder, ends, found, lineage, now), problem };
}

function filled(folder: string, ends: Ends, found: Found, lineage: Lineage | null, now: number): RunRow {
  const attempts = lineage?.attempts ?? [], last = attempts.at(-1);
  const run = found.run && last ? { ...found.run, host: last.host, pid: last.pid } : found.run;
  const status = runStatusOf({ ...found, run }, now);
  const config = configOf(folder, ends, found, lineage);
  const progress = progressOf({ ...found, config });
  const best = bestIn(folder, ends, found, lineage);
  const { exit } = found;
  return {
    run: run ? String(run.run) : basename(folder),
    folder,
    state: status.state,
    why: status.why,
    failure: status.state === "failed" ? failureOf(exit!.code) : null,
    problem: null,
    model: run ? String(run.model) : null,
    ...noted(run),
    ranks: run && isNumber(run.world_size) ? run.world_size : null,
    ...best,
    step: progress.step,
    steps: progress.steps,
    epoch: progress.epoch,
    epochs: progress.epochs,
    seconds: secondsOf(lineage, found),
    secondsLeft: status.state === "running" ? progress.secondsLeft : null,
    goodput: lineage?.goodput_percent ?? null,
    attempts: Math.max(1, attempts.length),
    started: attempts[0]?.started ?? found.begunAt,
    seen: found.lastAt,
    settings: new Map(flat(config)),
  };
}

function brokenRow(folder: string, why: string): RunRow {
  return {
    run: basename(folder),
    folder,
    state: "broken",
    why,
    failure: null,
    problem: null,
    model: null,
    ranks: null,
    ...NO_BEST,
    step: 0,
    steps: null,
    epoch: 0,
    epochs: null,
    seconds: null,
    secondsLeft: null,
    goodput: null,
    attempts: 0,
    started: null,
    seen: null,
    settings: new Map(),
  };
}

const NO_BEST = { best: null, metric: null, bestStep: null, bestEpoch: null, metrics: {} };

function whyUnread(error: unknown): string {
  if (error instanceof Deno.errors.NotFound) {
    return "events.jsonl is missing: the run ended before it, or it was removed";
  }
  if (error instanceof UserError) return "events.jsonl is no file";
  const refusal = systemRefusal(error);
  return `events.jsonl can't be read: ${refusal ? whyRefused(refusal) : messageOf(error).replace(/\.$/, "")}`;
}

function lineageIn(folder: string, { tail }: Ends): { lineage: Lineage | null; problem: string | null } {
  try {
    const lineage = lineageNow(folder), partly = lineage === null && tail.length > 0;
    return {
      lineage,
      problem: partly ? "lineage.json is missing, so an earlier best value is not known" : null,
    };
  } catch (error) {
    return { lineage: null, problem: messageOf(error).replace(/\.$/, "") };
  }
}

/** The lines that were read say this. */
interface Found {
  run: (RunEvent & { t: number }) | null;
  exit: (ExitEvent & { t: number }) | null;
  memory: (WarningEvent & { t: number }) | null;
  config: Readonly<Record<string, unknown>>;
  /** It is of the last attempt for certain. */
  configOfEnd: boolean;
  best: BestEvaluation & { readonly metrics: MetricValues } | null;
  /** That of the last step: an epoch's is the mean of its steps, which is another number. */
  loss: number | null;
  step: number;
  epoch: number;
  stepsPerEpoch: number | null;
  begunAt: number | null;
  lastAt: number | null;
  longestSilence: number;
  readonly recent: { t: number; step: number }[];
}

function foundIn({ head, tail }: Ends): Found {
  const found: Found = {
    run: null,
    exit: null,
    memory: null,
    config: {},
    configOfEnd: tail.length === 0,
    best: null,
    loss: null,
    step: 0,
    epoch: 0,
    stepsPerEpoch: null,
    begunAt: null,
    lastAt: null,
    longestSilence: 0,
    recent: [],
  };
  take(found, head);
  if (tail.length === 0) return found;
  // Events between the two may have replaced these.
  Object.assign(found, { exit: null, memory: null, lastAt: null, loss: null });
  found.recent.length = 0;
  take(found, tail, true);
  return found;
}

function take(found: Found, lines: readonly string[], atEnd = false): void {
  let first: string | null = null, last: string | null = null;
  for (const line of lines) {
    const kind = eventKindOf(line), t = eventTimeOf(line);
    if (t !== null) clock(found, t);
    if (kind === "step") {
      first ??= line;
      last = line;
      continue;
    }
    if (!READ.has(kind)) continue;
    const event = decodeEvent(line);
    if (event === null || !isNumber(event.t)) continue;
    if (t === null) clock(found, event.t);
    if (event.kind === "run") first = last = null;
    if (event.kind === "config" && atEnd) found.configOfEnd = true;
    apply(found, event);
  }
  for (const line of new Set([first, last])) {
    const event = line === null ? null : decodeEvent(line);
    if (event?.kind !== "step" || !isNumber(event.step)) continue;
    found.recent.push({ t: event.t, step: event.step });
    if (isNumber(event.loss)) found.loss = event.loss;
    advance(found, event);
  }
}

/** Kinds that a row needs; the others are never parsed. */
const READ: ReadonlySet<string> = new Set([
  "",
  "run",
  "config",
  "eval",
  "epoch",
  "resume",
  "exit",
  "warning",
]);

function clock(found: Found, t: number): void {
  if (found.lastAt !== null && found.exit === null) {
    found.longestSilence = Math.max(found.longestSilence, t - found.lastAt);
  }
  found.begunAt ??= t;
  found.lastAt = Math.max(found.lastAt ?? t, t);
}

/** Another program may have written the file, so only the kind of an event is certain. */
function apply(found: Found, event: NonNullable<ReturnType<typeof decodeEvent>>): void {
  switch (event.kind) {
    case "run":
      found.run = event;
      found.exit = found.memory = null;
      found.recent.length = 0;
      if (isNumber(event.steps_per_epoch) && event.steps_per_epoch > 0) {
        found.stepsPerEpoch = event.steps_per_epoch;
      }
      return;
    case "config":
      if (isRecord(event.config)) found.config = event.config;
      return;
    case "eval":
    case "epoch":
      if (event.kind === "epoch" && event.epoch > 0 && event.step > 0) {
        found.stepsPerEpoch = Math.round(event.step / event.epoch);
      }
      judge(found, event);
      return advance(found, event);
    case "resume":
      if (isNumber(event.step)) found.step = event.step;
      return;
    case "warning":
      if (event.about === "memory") found.memory = event;
      return;
    case "exit":
      found.exit = { ...event, message: String(event.message) };
      return advance(found, event);
  }
}

type Judging = {
  step: number;
  epoch: number;
  val_loss?: number;
  metrics: MetricValues;
  val_metrics?: MetricValues;
  monitor?: Monitored;
  kind: string;
};

function judge(found: Found, event: Judging): void {
  const one = evaluationIn(event), own = found.best?.monitor;
  // An epoch tells again of the evaluation at its end, and not by what it was judged.
  if (one === null || event.kind === "epoch" && own || !isBetterThan(one, found.best)) return;
  found.best = { ...one, metrics: metricsOf(event) };
}

const metricsOf = ({ kind, metrics, val_metrics }: Judging): MetricValues => {
  const own = kind === "epoch" ? val_metrics : metrics;
  return isRecord(own)
    ? Object.fromEntries(Object.entries(own).filter(([, value]) => isNumber(value))) as MetricValues
    : {};
};

function advance(found: Found, { step, epoch }: { step: number; epoch: number }): void {
  if (isNumber(step)) found.step = Math.max(found.step, step);
  if (isNumber(epoch)) found.epoch = Math.max(found.epoch, epoch);
}

/** The settings of the last attempt, which stand where it began. */
function configOf(folder: string, ends: Ends, found: Found, lineage: Lineage | null): Found["config"] {
  const last = lineage?.attempts.at(-1);
  if (found.configOfEnd || ends.tail.length === 0 || !last || lineage!.attempts.length < 2) {
    return found.config;
  }
  const near = around(folder, last.first_step);
  return eventsOfKind(near, "config").map(({ config }) => config).filter(isRecord).at(-1) ?? found.config;
}

function valueOf(best: BestEvaluation): Pick<RunRow, "best" | "metric" | "mode" | "valLoss"> {
  const { name, mode, value } = monitoredOf(best);
  return {
    best: value,
    metric: name,
    ...(mode === "max" && { mode }),
    ...(best.monitor && { valLoss: best.loss }),
  };
}

function bestIn(folder: string, { tail }: Ends, found: Found, lineage: Lineage | null) {
  const kept = bestAttempt(lineage?.attempts ?? []), seen = found.best;
  if (kept && isBetterThan(kept, seen)) {
    const near = tail.length === 0 ? [] : [...eventsOfKind(around(folder, kept.step), "eval")];
    const metrics = near.find(({ step }) => step === kept.step);
    return {
      ...valueOf(kept),
      bestStep: kept.step,
      bestEpoch: kept.epoch,
      metrics: metrics ? metricsOf(metrics) : {},
    };
  }
  if (seen) {
    const { step: bestStep, epoch: bestEpoch, metrics } = seen;
    return { ...valueOf(seen), bestStep, bestEpoch, metrics };
  }
  return found.loss === null ? NO_BEST : { ...NO_BEST, best: found.loss, metric: "loss" as const };
}

function around(folder: string, step: number): string[] {
  try {
    return linesAround(join(folder, "events.jsonl"), step);
  } catch {
    return []; // it was there a moment ago
  }
}

function secondsOf(lineage: Lineage | null, { begunAt, lastAt }: Found): number | null {
  if (lineage && lineage.attempts.length > 0) {
    return lineage.attempts.reduce((sum, attempt) => sum + wallOf(attempt), 0);
  }
  return begunAt === null || lastAt === null ? null : lastAt - begunAt;
}

const KINDS = new Map(Object.entries(EXIT).map(([kind, code]) => [code as number, kind as ExitKind]));
const failureOf = (code: number): ExitKind | null => KINDS.get(code) ?? null;

const isNumber = (value: unknown): value is number => typeof value === "number";
const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);
