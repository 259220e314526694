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

// The lines a run prints, as pure functions. Scripts match them.

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

/** What a model is judged by: it chooses the names beside the losses. */
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
  /** Of several numbers to predict the one with the least R2: of the validation where there is one. */
  worst?: { readonly name: string; readonly r2: number } | null;
  learningRate: number;
  samplesPerSecond?: number | null;
  memoryBytes?: number;
}

/** The contract's epoch line. A part without a value is left out. */
export function epochLine(e: EpochSummary): string {
  const name = SCORE[e.task];
  // A language model shows one perplexity: the validation's where there is one.
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

/** Where a run stands between two epoch lines: what the live line and the plain step line show. */
export interface StepState {
  epoch: number;
  epochs: number;
  /** Optimizer steps done in this epoch, and how many it has. */
  step: number;
  steps: number;
  /** What is going on where it isn't training: "evaluating", "saving". */
  phase?: string;
  loss?: number;
  learningRate?: number;
  samplesPerSecond?: number | null;
  secondsLeft?: number | null;
  memoryBytes?: number;
}

/** The plain line for output that is not a terminal. */
export function stepLine(s: StepState): string {
  const parts = [`[Epoch ${s.epoch}/${s.epochs}] ${s.phase ?? "Step"} ${s.step}/${s.steps}`];
  if (s.loss !== undefined) parts.push(`Loss: ${formatValue(s.loss)}`);
  if (s.learningRate !== undefined) parts.push(`LR: ${formatLearningRate(s.learningRate)}`);
  parts.push(...speedPart(s), ...timePart(s), ...memoryPart(s));
  return parts.join(" | ");
}

// Each part is a list, empty where there is no value.

function speedPart(s: { samplesPerSecond?: number | null }): string[] {
  return (s.samplesPerSecond ?? null) === null ? [] : [`${formatRate(s.samplesPerSecond!)} samples/s`];
}

function timePart(s: { secondsLeft?: number | null }): string[] {
  return (s.secondsLeft ?? null) === null ? [] : [`${formatDuration(s.secondsLeft!)} left`];
}

function memoryPart(s: { memoryBytes?: number }): string[] {
  return s.memoryBytes === undefined ? [] : [formatBytes(s.memoryBytes)];
}

export interface RunSummary {
  /** Why it ended: "Finished", "Stopped early (no better validation loss for 20 epochs)", "Stopped on request". */
  outcome: string;
  epochs: number;
  steps: number;
  seconds: number;
  best?: { epoch: number; valLoss: number };
  /** Where the time went; `onGpu`: as the host saw it. */
  spent?: Spent;
  onGpu?: boolean;
  /** What was made, in the order to show: [what it is, where it lies]. */
  files: readonly (readonly [what: string, path: string])[];
  /** Commands that make sense now: [what for, command line]. */
  next: readonly (readonly [why: string, command: string])[];
}

/** The end of a run: what happened, where the files are, what to run next. The first line is what --quiet keeps. */
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

/** The whole account, in words: it adds up to 100%. */
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

// The live line of a terminal: a pure rendering and the small driver that redraws it.ts and lines.ts.

const REDRAW_MS = 100;
const BAR = 24;
const ERASE = "\r\x1b[2K";

/**
 * One line of plain ASCII that never reaches the last column (some terminals wrap there).
 * Where it is narrow the bar goes first, then memory, speed, time left; what is left is cut.
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
  // A phase is a word of ours, yet a stray character of another width must not break the line.
  const ascii = (text: string) => text.replace(/[^\x20-\x7e]/g, "?");
  return ascii(tries.find((text) => text.length <= room) ?? head.slice(0, room));
}

function bar(fraction: number): string {
  const full = Math.floor(fraction * BAR);
  return `[${"=".repeat(full)}${full < BAR ? ">" : ""}`.padEnd(BAR + 1) + "]";
}

interface ProgressLine {
  /** Redraws, at most ten times a second. */
  update(state: StepState): void;
  /** Takes the line away, so that something else can be printed. */
  clear(): void;
}

/** No timers: training holds the thread, so a redraw happens when the loop says something. */
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

// What a run says on stdout and stderr: plain lines, warnings, the live line, or events as JSON.ts and progress.ts.

/** Where there is no live line, a line says where the run stands this often. */
const PLAIN_MS = 10_000;

export interface Console {
  /** A line of the run's story. Not with --quiet, not with --json. */
  line(text: string): void;
  /** The line that says how the run ended: --quiet keeps it. Not with --json. */
  final(text: string): void;
  /** To stderr, always: whoever reads stdout gets what they asked for and nothing else. */
  warn(text: string): void;
  /** Where the run stands: the live line on a terminal, a plain line now and then elsewhere. */
  progress(state: StepState): void;
  /** One encoded event, from the event log: --json prints it. */
  event(line: string): void;
  /** Takes the live line away. */
  close(): void;
}

export interface ConsoleOptions {
  quiet: boolean;
  json: boolean;
  isTerminal?: boolean;
  /** stdout; failures are swallowed here, because a closed pipe must not end a run. */
  write?: (text: string) => void;
  writeError?: (text: string) => void;
  columns?: () => number;
  now?: () => number;
  /** Hears of each line, also of those that are not shown; not of the live line. */
  told?: (text: string, stream: "stdout" | "stderr") => void;
  env?: (name: string) => string | undefined;
}

export function openConsole(options: ConsoleOptions): Console {
  const { quiet, json, told } = options;
  const env = options.env ?? ((name) => Deno.env.get(name));
  const now = options.now ?? (() => performance.now());
  const write = safely(options.write ?? ((text) => writeAll(Deno.stdout, text)));
  const writeError = safely(options.writeError ?? ((text) => writeAll(Deno.stderr, text)));

  // A terminal that can't erase a line gets plain lines. No colours anywhere, so NO_COLOR holds by itself.
  const capable = (options.isTerminal ?? Deno.stdout.isTerminal()) && env("TERM") !== "dumb";
  const live: ProgressLine | null = capable && !quiet && !json
    ? openProgressLine({ write, columns: options.columns ?? terminalColumns, now })
    : null;
  let plainAt = now();

  return {
    line(given) {
      const text = clean(given);
      told?.(text, "stdout");
      if (quiet || json) return;
      live?.clear();
      write(text + "\n");
    },
    final(given) {
      const text = clean(given);
      told?.(text, "stdout");
      if (json) return;
      live?.clear();
      write(text + "\n");
    },
    warn(given) {
      const text = clean(given);
      told?.(`warning: ${text}`, "stderr");
      live?.clear();
      writeError(`warning: ${text}\n`);
    },
    progress(state) {
      if (live) return live.update(state);
      if (quiet || json || now() - plainAt < PLAIN_MS) return;
      plainAt = now();
      const text = stepLine(state);
      told?.(text, "stdout");
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
      // A reader that went away (`| head`) or a full disk behind a redirection: the run goes on.
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
