// The lines a run prints, as pure functions. Scripts match them.
import {
  formatBytes,
  formatDuration,
  formatLearningRate,
  formatPlural,
  formatRate,
  formatValue,
} from "../format.ts";
import { percentages, type Spent, WORDS } from "./account.ts";

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

export function speedPart(s: { samplesPerSecond?: number | null }): string[] {
  return (s.samplesPerSecond ?? null) === null ? [] : [`${formatRate(s.samplesPerSecond!)} samples/s`];
}

export function timePart(s: { secondsLeft?: number | null }): string[] {
  return (s.secondsLeft ?? null) === null ? [] : [`${formatDuration(s.secondsLeft!)} left`];
}

export function memoryPart(s: { memoryBytes?: number }): string[] {
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
export function summaryLines(r: RunSummary): string[] {
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
  const parts = percentages(spent).map(([name, share]) => `${share.toFixed(1)}% ${WORDS[name]}`);
  return [`Of that time${onGpu ? ", as the host saw it" : ""}: ${parts.join(", ")}`];
}

function table(title: string, rows: RunSummary["files"]): string[] {
  if (rows.length === 0) return [];
  const width = Math.max(...rows.map(([label]) => label.length));
  return [`${title}:`, ...rows.map(([label, value]) => `  ${label.padEnd(width)}  ${value}`)];
}
