// The lines that tell of steps and epochs, and the one that a terminal shows while a run trains, redrawn in its place.
import { formatBytes, formatDuration, formatLearningRate, formatRate, formatValue } from "../base/format.ts";
import { type Colour, painted, terminalWidthOf, type TextStyle } from "../base/terminal_text.ts";
import { clean } from "../base/terminal.ts";
import { Curve } from "./curve.ts";
import { EVENT_FIELDS, type EventField } from "./events.ts";

export interface StepState {
  epoch: number;
  epochs: number;
  step: number;
  steps: number;
  /** "evaluating", "saving". */
  phase?: string;
  loss?: number;
  /** The loss is of scaled targets. */
  scaled?: boolean;
  learningRate?: number;
  samplesPerSecond?: number | null;
  secondsLeft?: number | null;
  memoryBytes?: number;
}

/** `scaled`: it is of targets of mean 0 and deviation 1, and not in their own units. */
export const lossText = (loss: number, scaled = false): string =>
  `${formatValue(loss)}${scaled ? " (scaled)" : ""}`;

function speedPart(s: { samplesPerSecond?: number | null }): string[] {
  return s.samplesPerSecond == null ? [] : [`${formatRate(s.samplesPerSecond)} samples/s`];
}

function timePart(s: { secondsLeft?: number | null }): string[] {
  return s.secondsLeft == null ? [] : [`${formatDuration(s.secondsLeft)} left`];
}

function memoryPart(s: { memoryBytes?: number }): string[] {
  return s.memoryBytes === undefined ? [] : [formatBytes(s.memoryBytes)];
}

/** A part of a line between its bars, and its colour on a terminal. */
type LinePart = readonly [text: string, colour: Colour | null];

const plainParts = (texts: readonly string[]): LinePart[] => texts.map((text) => [text, null]);

const partsText = (parts: readonly LinePart[]): string => parts.map(([text]) => text).join(" | ");

const paintedParts = (parts: readonly LinePart[], style: TextStyle): string =>
  parts.map(([text, colour]) => painted(text, colour, style)).join(painted(" | ", "dim", style));

type Task = "classification" | "regression" | "language";

const SCORE: Record<Task, string> = { classification: "Acc", regression: "R2", language: "Perplexity" };

export interface EpochSummary {
  epoch: number;
  epochs: number;
  task: Task;
  /** Both scores are of anomalies. */
  anomalies?: boolean;
  /** Both losses are of scaled targets. */
  scaled?: boolean;
  loss: number;
  /** Accuracy, R2 or perplexity. */
  score?: number;
  valLoss?: number;
  valScore?: number;
  /** Terms of the loss, and metrics that were asked for. */
  beside?: readonly { readonly name: string; readonly value?: number; readonly valValue?: number }[];
  /** The target with the least R2. */
  worst?: { readonly name: string; readonly r2: number } | null;
  learningRate: number;
  samplesPerSecond?: number | null;
  memoryBytes?: number;
}

export const epochLine = (e: EpochSummary): string => partsText(epochParts(e, new Set()));

/** Whole parts leave in this order until the line fits. */
const LEAVING = ["memory", "speed", "beside", "worst", "score", "rate", "validation score"] as const;

type Leaving = (typeof LEAVING)[number];

/** Scripts match the whole line, so only terminals get a narrower one. */
export function epochLineWithin(e: EpochSummary, columns: number, style: TextStyle): string {
  const gone = new Set<Leaving>();
  for (const part of LEAVING) {
    if (terminalWidthOf(partsText(epochParts(e, gone))) <= columns) break;
    gone.add(part);
  }
  return paintedParts(epochParts(e, gone), style);
}

function epochParts(e: EpochSummary, gone: ReadonlySet<Leaving>): LinePart[] {
  const name = `${e.anomalies ? "Anomaly " : ""}${SCORE[e.task]}`;
  // A language model shows one perplexity, if possible that of the validation.
  const one = e.task === "language";
  const worst = e.worst && !gone.has("worst")
    ? ` (worst ${clean(e.worst.name)}: ${formatValue(e.worst.r2)})`
    : "";
  const { valScore } = e, ofVal = valScore !== undefined;
  const parts: LinePart[] = [
    [`[Epoch ${e.epoch}/${e.epochs}] Loss: ${lossText(e.loss, e.scaled)}`, "cyan"],
  ];
  if (e.score !== undefined && !(one && ofVal) && !gone.has("score")) {
    parts.push([`${name}: ${formatValue(e.score)}${ofVal ? "" : worst}`, null]);
  }
  if (e.valLoss !== undefined) parts.push([`Val Loss: ${lossText(e.valLoss, e.scaled)}`, "yellow"]);
  if (ofVal && !gone.has("validation score")) {
    parts.push([`${one ? "" : "Val "}${name}: ${formatValue(valScore)}${worst}`, null]);
  }
  if (!gone.has("beside")) parts.push(...plainParts((e.beside ?? []).map(besideText)));
  if (!gone.has("rate")) parts.push([`LR: ${formatLearningRate(e.learningRate)}`, null]);
  if (!gone.has("speed")) parts.push(...plainParts(speedPart(e)));
  if (!gone.has("memory")) parts.push(...plainParts(memoryPart(e)));
  return parts;
}

/** "dice: 0.31, val 0.35" */
function besideText({ name, value, valValue }: NonNullable<EpochSummary["beside"]>[number]): string {
  const parts = [
    ...(value === undefined ? [] : [formatValue(value)]),
    ...(valValue === undefined ? [] : [`val ${formatValue(valValue)}`]),
  ];
  return `${clean(name)}: ${parts.join(", ")}`;
}

export function stepLine(s: StepState): string {
  const parts = [`[Epoch ${s.epoch}/${s.epochs}] ${s.phase ?? "Step"} ${s.step}/${s.steps}`];
  if (s.loss !== undefined) parts.push(`Loss: ${lossText(s.loss, s.scaled)}`);
  if (s.learningRate !== undefined) parts.push(`LR: ${formatLearningRate(s.learningRate)}`);
  parts.push(...speedPart(s), ...timePart(s), ...memoryPart(s));
  return parts.join(" | ");
}

interface Shown {
  readonly state: StepState;
  /** The last one of the run. */
  readonly valLoss?: number;
  /** Losses since the run began, or null for fewer than two. */
  readonly curve: Curve | null;
}

/**
 * The line never reaches the last column, where some terminals wrap. A narrow terminal loses the bar and the curve,
 * then memory, speed, the learning rate, the validation loss and the time left.
 */
export function renderProgressLine(
  { state, valLoss, curve }: Shown,
  width: number,
  style: TextStyle,
): string {
  const room = Math.max(0, width - 1);
  const fraction = state.steps > 0 ? Math.min(1, state.step / state.steps) : 0;
  const counts = `${state.step}/${state.steps}`;
  const head = ascii([`Epoch ${state.epoch}/${state.epochs}`, state.phase, counts].filter(Boolean).join(" "));
  const drawn = curve && style.unicode ? ` ${sparkline(curve)}` : "";
  const named = (
    name: string,
    value: number | undefined,
    format: (value: number) => string,
    colour: Colour | null,
  ) => value === undefined ? [] : [[`${name}: ${format(value)}`, colour] as LinePart];
  const loss = named("Loss", state.loss, (value) => lossText(value, state.scaled), "cyan");
  const val = named("Val Loss", valLoss, formatValue, "yellow");
  const rate = named("LR", state.learningRate, formatLearningRate, null);
  const [speed, left, memory] = [speedPart(state), timePart(state), memoryPart(state)].map(plainParts);
  const drawnLoss = loss.map(([text, colour]): LinePart => [text + drawn, colour]);

  const tries: LinePart[][] = [
    [[`${head} ${bar(fraction)}`, null], ...drawnLoss, ...val, ...rate, ...speed, ...left, ...memory],
    [[head, null], ...drawnLoss, ...val, ...rate, ...speed, ...left, ...memory],
    [[head, null], ...loss, ...val, ...rate, ...speed, ...left, ...memory],
    [[head, null], ...loss, ...val, ...rate, ...speed, ...left],
    [[head, null], ...loss, ...val, ...rate, ...left],
    [[head, null], ...loss, ...val, ...left],
    [[head, null], ...loss, ...left],
    [[head, null], ...loss],
    [[head, null]],
  ];
  const fits = tries.find((parts) => terminalWidthOf(partsText(parts)) <= room);
  return fits ? paintedParts(fits, style) : head.slice(0, room);
}

/** A wide character would break the line. */
const ascii = (text: string): string => text.replace(/[^\x20-\x7e]/g, "?");

const BAR = 24;

function bar(fraction: number): string {
  const full = Math.floor(fraction * BAR);
  return `[${"=".repeat(full)}${full < BAR ? ">" : ""}`.padEnd(BAR + 1) + "]";
}

/** Two points a character, so that the curve has 12 of them. */
const POINTS = 24;

/** Dots of a character from the bottom up, of its left and of its right column. */
const DOTS = [[0x40, 0x04, 0x02, 0x01], [0x80, 0x20, 0x10, 0x08]];

const { log: LOG_FROM = Infinity }: EventField = EVENT_FIELDS.step.loss;

/** Characters that are one column wide everywhere, which the usual blocks are not. */
export function sparkline(curve: Curve): string {
  const values = Array.from({ length: curve.length }, (_, i) => curve.mean(i));
  const log = curve.least > 0 && curve.greatest / curve.least >= LOG_FROM;
  const means = log ? values.map(Math.log) : values, finite = means.filter(Number.isFinite);
  const least = Math.min(...finite), most = Math.max(...finite);
  const height = (value: number) =>
    Number.isFinite(value) ? most > least ? 1 + Math.round(3 * (value - least) / (most - least)) : 1 : 0;
  let text = "";
  for (let i = 0; i < means.length; i += 2) {
    let dots = 0;
    for (const side of [0, 1]) {
      for (let row = 0; row < height(means[i + side] ?? NaN); row++) dots |= DOTS[side][row];
    }
    text += String.fromCharCode(0x2800 + dots);
  }
  return text;
}

const REDRAW_MS = 100;

const ERASE = "\r\x1b[2K";

export interface ProgressLine {
  update(state: StepState): void;
  /** Each line from now on shows the validation loss. */
  judged(valLoss: number | undefined): void;
  clear(): void;
}

/** It has no timer, because training holds the thread. */
export function openProgressLine(options: {
  write: (text: string) => void;
  columns: () => number;
  style: TextStyle;
  now?: () => number;
}): ProgressLine {
  const now = options.now ?? (() => performance.now());
  const curve = new Curve(POINTS);
  let valLoss: number | undefined;
  let drawnAt = -Infinity;
  let drawn = false;
  return {
    update(state) {
      const time = now();
      if (time - drawnAt < REDRAW_MS) return;
      drawnAt = time;
      drawn = true;
      if (state.loss !== undefined) curve.add((state.epoch - 1) * state.steps + state.step, state.loss);
      const shown = { state, valLoss, curve: curve.length > 1 ? curve : null };
      options.write(ERASE + renderProgressLine(shown, options.columns(), options.style));
    },
    judged(value) {
      valLoss = value;
    },
    clear() {
      if (!drawn) return;
      drawn = false;
      drawnAt = -Infinity; // the next update puts it back at once
      options.write(ERASE);
    },
  };
}
