// What a run prints on stdout and stderr: the lines as pure functions (scripts match them), the live progress line of
// a terminal, and the console that chooses between lines and JSON.
import {
  formatBytes,
  formatDuration,
  formatLearningRate,
  formatPlural,
  formatRate,
  formatValue,
} from "../base/format.ts";
import { percentages, type Spent, TIME_PART_LABELS } from "./account.ts";
import { clean } from "../base/terminal.ts";

/** "Starting distributed training on 16 GPUs", "... on 4 CPU ranks", "... on 1 GPU", "... on 1 CPU". */
export function startLine(world: { ranks: number; device: "cpu" | "cuda" }): string {
  const { ranks, device } = world;
  const where = device === "cuda"
    ? formatPlural(ranks, "GPU")
    : ranks === 1
    ? "1 CPU"
    : formatPlural(ranks, "CPU rank");
  return `Starting distributed training on ${where}`;
}

export function masterLine(host: string): string {
  return `Master node: ${host}`;
}

/** The task chooses the names beside the losses. */
export type Task = "classification" | "regression" | "language";

const SCORE: Record<Task, string> = { classification: "Acc", regression: "R2", language: "Perplexity" };

export interface EpochSummary {
  epoch: number;
  epochs: number;
  task: Task;
  loss: number;
  /** Accuracy, R2 or perplexity on the training samples. */
  score?: number;
  valLoss?: number;
  valScore?: number;
  /** The target with the least R2, in the validation where there is one. */
  worst?: { readonly name: string; readonly r2: number } | null;
  learningRate: number;
  samplesPerSecond?: number | null;
  memoryBytes?: number;
}

/** The epoch line of the contract. It leaves out parts without a value. */
export function epochLine(e: EpochSummary): string {
  const name = SCORE[e.task];
  // A language model shows one perplexity, if possible that of the validation.
  const one = e.task === "language";
  const parts = [`[Epoch ${e.epoch}/${e.epochs}] Loss: ${formatValue(e.loss)}`];
  const worst = e.worst ? ` (worst ${e.worst.name}: ${formatValue(e.worst.r2)})` : "";
  const ofVal = e.valScore !== undefined;
  if (e.score !== undefined && !(one && ofVal)) {
    parts.push(`${name}: ${formatValue(e.score)}${ofVal ? "" : worst}`);
  }
  if (e.valLoss !== undefined) parts.push(`Val Loss: ${formatValue(e.valLoss)}`);
  if (ofVal) parts.push(`${one ? "" : "Val "}${name}: ${formatValue(e.valScore!)}${worst}`);
  parts.push(`LR: ${formatLearningRate(e.learningRate)}`, ...speedPart(e), ...memoryPart(e));
  return parts.join(" | ");
}

/** The position between two epoch lines, for the live line and the plain step line. */
export interface StepState {
  epoch: number;
  epochs: number;
  /** Optimizer steps in this epoch. */
  step: number;
  steps: number;
  /** The activity where it is not training: "evaluating", "saving". */
  phase?: string;
  loss?: number;
  learningRate?: number;
  samplesPerSecond?: number | null;
  secondsLeft?: number | null;
  memoryBytes?: number;
}

export function stepLine(s: StepState): string {
  const parts = [`[Epoch ${s.epoch}/${s.epochs}] ${s.phase ?? "Step"} ${s.step}/${s.steps}`];
  if (s.loss !== undefined) parts.push(`Loss: ${formatValue(s.loss)}`);
  if (s.learningRate !== undefined) parts.push(`LR: ${formatLearningRate(s.learningRate)}`);
  parts.push(...speedPart(s), ...timePart(s), ...memoryPart(s));
  return parts.join(" | ");
}

// Each part is a list, which is empty without a value.

function speedPart(s: { samplesPerSecond?: number | null }): string[] {
  return s.samplesPerSecond == null ? [] : [`${formatRate(s.samplesPerSecond)} samples/s`];
}

function timePart(s: { secondsLeft?: number | null }): string[] {
  return s.secondsLeft == null ? [] : [`${formatDuration(s.secondsLeft)} left`];
}

function memoryPart(s: { memoryBytes?: number }): string[] {
  return s.memoryBytes === undefined ? [] : [formatBytes(s.memoryBytes)];
}

export interface RunSummary {
  /**
   * The reason: "Finished", "Stopped early (no better validation loss for 20 epochs)", "Stopped on request".
   */
  outcome: string;
  epochs: number;
  steps: number;
  seconds: number;
  best?: { epoch: number; valLoss: number };
  /** The account of the time; `onGpu` marks it as the host's. */
  spent?: Spent;
  onGpu?: boolean;
  /** The files of the run in the order of the lines: label and path. */
  files: readonly (readonly [what: string, path: string])[];
  /** Useful commands: label and command line. */
  next: readonly (readonly [why: string, command: string])[];
}

/** The last lines of a run: outcome, files, next commands. --quiet keeps the first line. */
export function runSummaryLines(r: RunSummary): string[] {
  const done = `${formatPlural(r.epochs, "epoch")}, ${formatPlural(r.steps, "step")}`;
  const best = r.best ? ` Best Val Loss: ${formatValue(r.best.valLoss)} at epoch ${r.best.epoch}.` : "";
  return [
    `${r.outcome} after ${formatDuration(r.seconds)}: ${done}.${best}`,
    ...timeLine(r),
    ...table("Made", r.files),
    ...table("Next", r.next),
  ];
}

/** The whole account in words; it adds up to 100%. */
function timeLine({ spent, onGpu }: RunSummary): string[] {
  if (spent === undefined) return [];
  const parts = percentages(spent).map(([name, share]) => `${share.toFixed(1)}% ${TIME_PART_LABELS[name]}`);
  return [`Of that time${onGpu ? ", as the host saw it" : ""}: ${parts.join(", ")}`];
}

function table(title: string, rows: RunSummary["files"]): string[] {
  if (rows.length === 0) return [];
  const width = Math.max(...rows.map(([label]) => label.length));
  return [`${title}:`, ...rows.map(([label, value]) => `  ${label.padEnd(width)}  ${value}`)];
}

const REDRAW_MS = 100;
const BAR = 24;
const ERASE = "\r\x1b[2K";

/**
 * One line of ASCII that never reaches the last column, where some terminals wrap. A narrow terminal loses
 * the bar first, then memory, speed and time left; then the line is cut.
 */
export function renderProgressLine(state: StepState, width: number): string {
  const room = Math.max(0, width - 1);
  const fraction = state.steps > 0 ? Math.min(1, state.step / state.steps) : 0;
  const counts = `${state.step}/${state.steps}`;
  const head = [`Epoch ${state.epoch}/${state.epochs}`, state.phase, counts].filter(Boolean).join(" ");
  const loss = state.loss === undefined ? [] : [`Loss: ${formatValue(state.loss)}`];
  const [speed, left, memory] = [speedPart(state), timePart(state), memoryPart(state)];

  const widest = [...loss, ...speed, ...left, ...memory];
  const tries = [
    [`${head} ${bar(fraction)}`, ...widest],
    [head, ...widest],
    [head, ...loss, ...speed, ...left],
    [head, ...loss, ...left],
    [head, ...loss],
    [head],
  ].map((parts) => parts.join(" | "));
  // A phase is one of our own words, yet a wide character would break the line.
  const ascii = (text: string) => text.replace(/[^\x20-\x7e]/g, "?");
  return ascii(tries.find((text) => text.length <= room) ?? head.slice(0, room));
}

function bar(fraction: number): string {
  const full = Math.floor(fraction * BAR);
  return `[${"=".repeat(full)}${full < BAR ? ">" : ""}`.padEnd(BAR + 1) + "]";
}

interface ProgressLine {
  /** Redraws at most ten times a second. */
  update(state: StepState): void;
  /** Erases the line, so that something else can be printed. */
  clear(): void;
}

/** It has no timer: training holds the thread, so it redraws when the loop calls it. */
export function openProgressLine(options: {
  write: (text: string) => void;
  columns: () => number;
  now?: () => number;
}): ProgressLine {
  const now = options.now ?? (() => performance.now());
  let drawnAt = -Infinity;
  let drawn = false;
  return {
    update(state) {
      const time = now();
      if (time - drawnAt < REDRAW_MS) return;
      drawnAt = time;
      drawn = true;
      options.write(ERASE + renderProgressLine(state, options.columns()));
    },
    clear() {
      if (!drawn) return;
      drawn = false;
      drawnAt = -Infinity; // the next update puts it back at once
      options.write(ERASE);
    },
  };
}

/** Without a live line, a plain line shows the progress this often. */
const PLAIN_MS = 10_000;

export interface Console {
  /** Prints a line, unless --quiet or --json is set. */
  line(text: string): void;
  /** Prints the line about the outcome, which --quiet keeps; --json does not. */
  final(text: string): void;
  /** Prints to stderr in every mode. */
  warn(text: string): void;
  /** Shows the progress: on the live line of a terminal, as a plain line now and then elsewhere. */
  progress(state: StepState): void;
  /** Prints an encoded event for --json. */
  event(line: string): void;
  close(): void;
}

export interface ConsoleOptions {
  quiet: boolean;
  json: boolean;
  isTerminal?: boolean;
  /** Writes to stdout. Failures are ignored, because a closed pipe must not end a run. */
  write?: (text: string) => void;
  writeError?: (text: string) => void;
  columns?: () => number;
  now?: () => number;
  /** Called with each line, also with lines that are not shown, but not with the live line. */
  onLine?: (text: string, stream: "stdout" | "stderr") => void;
  env?: (name: string) => string | undefined;
}

export function openConsole(options: ConsoleOptions): Console {
  const { quiet, json, onLine } = options;
  const env = options.env ?? ((name) => Deno.env.get(name));
  const now = options.now ?? (() => performance.now());
  const write = safely(options.write ?? ((text) => writeAll(Deno.stdout, text)));
  const writeError = safely(options.writeError ?? ((text) => writeAll(Deno.stderr, text)));

  // A terminal that can't erase a line gets plain lines. There are no colours, so NO_COLOR holds.
  const capable = (options.isTerminal ?? Deno.stdout.isTerminal()) && env("TERM") !== "dumb";
  const live: ProgressLine | null = capable && !quiet && !json
    ? openProgressLine({ write, columns: options.columns ?? terminalColumns, now })
    : null;
  let plainAt = now();

  return {
    line(given) {
      const text = clean(given);
      onLine?.(text, "stdout");
      if (quiet || json) return;
      live?.clear();
      write(text + "\n");
    },
    final(given) {
      const text = clean(given);
      onLine?.(text, "stdout");
      if (json) return;
      live?.clear();
      write(text + "\n");
    },
    warn(given) {
      const text = clean(given);
      onLine?.(`warning: ${text}`, "stderr");
      live?.clear();
      writeError(`warning: ${text}\n`);
    },
    progress(state) {
      if (live) return live.update(state);
      if (quiet || json || now() - plainAt < PLAIN_MS) return;
      plainAt = now();
      const text = stepLine(state);
      onLine?.(text, "stdout");
      write(text + "\n");
    },
    event(line) {
      if (json) write(clean(line) + "\n");
    },
    close() {
      live?.clear();
    },
  };
}

function safely(write: (text: string) => void): (text: string) => void {
  return (text) => {
    try {
      write(text);
    } catch {
      // The reader may be gone (`| head`), or the disk behind a redirection full: the run continues.
    }
  };
}

function writeAll(to: typeof Deno.stdout | typeof Deno.stderr, text: string): void {
  const bytes = new TextEncoder().encode(text);
  for (let done = 0; done < bytes.length;) done += to.writeSync(bytes.subarray(done));
}

function terminalColumns(): number {
  try {
    return Deno.consoleSize().columns || 80;
  } catch {
    return 80;
  }
}
