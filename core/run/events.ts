// The records of events.jsonl, one type for each kind of event, and how a record becomes a line and is read back.
import type { Spent, SpentOfRanks } from "./account.ts";

/** Named measurements: accuracy, r2, mae, perplexity; of one target or class "r2/NAME". */
export type Metrics = Readonly<Record<string, number>>;

export interface RunEvent {
  kind: "run";
  run: string;
  version: string;
  command: readonly string[];
  model: string;
  parameters: number;
  world_size: number;
  device: string;
  libtorch: string;
  host: string;
  pid: number;
  steps_per_epoch?: number;
}

export interface ConfigEvent {
  kind: "config";
  /** The effective settings as plain JSON data. */
  config: unknown;
  /** Of each setting that is no default: the preset, the line of a file, the variable or the flag it is from. */
  origins?: Readonly<Record<string, string>>;
}

export interface StepEvent {
  kind: "step";
  step: number;
  epoch: number;
  /** Mean over the global batch of this step. */
  loss: number;
  lr: number;
  grad_norm?: number;
  samples_per_s?: number;
  /** Memory in use on the device, or resident on the CPU; missing while it stays within a MiB of what was last told. */
  memory_bytes?: number;
  /** fp16 only: the factor the loss is multiplied with, and the steps skipped so far. */
  loss_scale?: number;
  skipped_steps?: number;
  /** How long this step waited for data. */
  data_s?: number;
}

export interface EvalEvent {
  kind: "eval";
  step: number;
  epoch: number;
  val_loss: number;
  metrics: Metrics;
  samples: number;
  seconds: number;
}

/** `seconds`, and where they went, on rank 0. */
export interface EpochEvent extends Partial<Spent> {
  kind: "epoch";
  step: number;
  epoch: number;
  loss: number;
  metrics: Metrics;
  val_loss?: number;
  val_metrics?: Metrics;
  lr: number;
  samples_per_s?: number;
  memory_bytes?: number;
  /** Samples that could not be used and were replaced, since the run was started. */
  bad_samples?: number;
  seconds: number;
}

export interface SaveEvent {
  kind: "save";
  step: number;
  epoch: number;
  path: string;
  bytes: number;
  /** From the snapshot to the file in place. */
  seconds: number;
  /** How long training was held. */
  stall_s: number;
  /** Why: "epoch", "interval", "best", "request", "stop", ... */
  reason: string;
}

export interface ResumeEvent {
  kind: "resume";
  step: number;
  epoch: number;
  path: string;
}

/** How a rank and its machine are, taken every so often beside training; and what is in use after a step. */
export interface SystemEvent {
  kind: "system";
  step: number;
  /** Missing on rank 0 alone where there is one rank. */
  rank?: number;
  rss_bytes: number;
  device_bytes?: number;
  device_peak_bytes?: number;
  live_tensors?: number;
  host?: string;
  /** Of this process; 100 is one core. */
  cpu_percent?: number;
  /** Of the machine, all of its cores being 100. */
  host_cpu_percent?: number;
  host_memory_bytes?: number;
  host_memory_total_bytes?: number;
  threads?: number;
  /** Of this process, as far as it reaches a disk. */
  disk_read_bytes_per_s?: number;
  disk_write_bytes_per_s?: number;
  /** Of the machine, but for what it sends to itself. */
  network_in_bytes_per_s?: number;
  network_out_bytes_per_s?: number;
  gpu_percent?: number;
  /** The share of time in which its memory was read or written. */
  gpu_memory_percent?: number;
  gpu_memory_bytes?: number;
  gpu_memory_total_bytes?: number;
  gpu_power_w?: number;
  gpu_temperature_c?: number;
  gpu_clock_mhz?: number;
  gpu_memory_clock_mhz?: number;
  /** Why it runs slower than it could: "power cap", "hardware thermal slowdown". */
  gpu_throttle?: readonly string[];
}

/**
 * Where time went since the last such event, on rank 0: the parts add up to `seconds`, and all these events to the run. Of the
 * last `steps` steps; 0 where it is of what stands before the first step or after the last.
 */
export interface TimesEvent extends Spent {
  kind: "times";
  step: number;
  steps: number;
  seconds: number;
  /** Missing where no speed can be told. */
  samples_per_s?: number;
  /** Of language models. */
  tokens_per_s?: number;
  /** Floating-point operations a second of the model on all ranks, and their share of what the devices can do. */
  flops?: number;
  mfu?: number;
}

/** Training went back to a checkpoint's weights, and the batches since are left out. */
export interface RewindEvent {
  kind: "rewind";
  /** The step that made it necessary, and the one whose weights are taken again. */
  step: number;
  epoch: number;
  to_step: number;
  path: string;
  reason: string;
}

/** Where the time of the last `steps` steps went, one number a rank. */
export interface RanksEvent extends SpentOfRanks {
  kind: "ranks";
  step: number;
  steps: number;
  /** The rank that had most to do itself, and by which part the fastest had less. */
  slowest: number;
  spread: number;
}

export interface WarningEvent {
  kind: "warning";
  message: string;
  step?: number;
  /** Of what, where somebody may want to be told: --on-event. */
  about?: "spike" | "save" | "memory";
  /** Whose, where there are several. */
  rank?: number;
  /** The limit that is near, in bytes. */
  memory?: { readonly of: string; readonly limit: number; readonly used: number };
}

/** `seconds`, and where they went, on rank 0. */
export interface ExitEvent extends Partial<Spent> {
  kind: "exit";
  code: number;
  message: string;
  step: number;
  epoch: number;
  seconds: number;
}

/** What a caller hands over; the writer adds the time. */
export type Emitted =
  | RunEvent
  | ConfigEvent
  | StepEvent
  | EvalEvent
  | EpochEvent
  | SaveEvent
  | ResumeEvent
  | SystemEvent
  | TimesEvent
  | RewindEvent
  | RanksEvent
  | WarningEvent
  | ExitEvent;

/** What stands in the file: `t` is Unix time in seconds. */
export type Event = Emitted & { t: number };

/** What outputs get beside events: it is not in events.jsonl. */
export type Note = ConsoleNote | HistogramsNote | PicturesNote;

export interface ConsoleNote {
  readonly kind: "console";
  /** Unix time in seconds. */
  readonly t: number;
  readonly stream: "stdout" | "stderr";
  /** A line without its end. */
  readonly text: string;
}

export interface HistogramsNote {
  readonly kind: "histograms";
  readonly t: number;
  readonly step: number;
  /** Counts, and the borders between them: one more. */
  readonly of: Readonly<
    Record<string, { readonly values: readonly number[]; readonly bins: readonly number[] }>
  >;
}

export interface PicturesNote {
  readonly kind: "pictures";
  readonly t: number;
  readonly step: number;
  readonly name: string;
  /** PNG files, in base64. */
  readonly pictures: readonly {
    readonly png: string;
    readonly width: number;
    readonly height: number;
    readonly caption: string;
  }[];
}

/** One line without its end. JSON has no NaN or infinities: they are written as the strings "NaN", "Infinity", "-Infinity". */
export function encodeEvent(event: Emitted, t: number): string {
  if (event.kind === "step") return encodeStep(event, t);
  return JSON.stringify(
    { t, ...event },
    (_key, value) => typeof value === "number" && !Number.isFinite(value) ? String(value) : value,
  );
}

/** By hand, because this one stands in the training loop. */
function encodeStep(e: StepEvent, t: number): string {
  let line = `{"t":${t},"kind":"step","step":${e.step},"epoch":${e.epoch},"loss":${number(e.loss)},"lr":${
    number(e.lr)
  }`;
  if (e.grad_norm !== undefined) line += `,"grad_norm":${number(e.grad_norm)}`;
  if (e.samples_per_s !== undefined) line += `,"samples_per_s":${number(e.samples_per_s)}`;
  if (e.memory_bytes !== undefined) line += `,"memory_bytes":${number(e.memory_bytes)}`;
  if (e.loss_scale !== undefined) line += `,"loss_scale":${number(e.loss_scale)}`;
  if (e.skipped_steps !== undefined) line += `,"skipped_steps":${number(e.skipped_steps)}`;
  if (e.data_s !== undefined) line += `,"data_s":${number(e.data_s)}`;
  return line + "}";
}

const number = (x: number) => x - x === 0 ? String(x) : `"${x}"`;

/** A line of the file, or null where it is cut or not one of ours. */
export function decodeEvent(line: string): Event | null {
  let event: Event;
  try {
    event = JSON.parse(line);
  } catch {
    return null;
  }
  if (event === null || typeof event !== "object" || typeof event.kind !== "string") return null;
  if (TIMED.has(event.kind)) renamed(event as unknown as Record<string, unknown>);
  // Only these kinds carry measured numbers; a path or a message that reads "NaN" stays a string.
  if (MEASURED.has(event.kind)) {
    revive(event as unknown as Record<string, unknown>);
  }
  return event;
}

/** What parts of time were called at first, in logs of then. */
const ONCE: readonly (readonly [string, string])[] = [
  ["loader_s", "data_s"],
  ["loader_wait_s", "data_s"],
  ["transfer_s", "copy_s"],
  ["eval_s", "evaluation_s"],
  ["other_s", "rest_s"],
];
const TIMED: ReadonlySet<string> = new Set(["step", "times", "ranks"]);

function renamed(record: Record<string, unknown>): void {
  for (const [before, now] of ONCE) {
    if (!(before in record)) continue;
    record[now] ??= record[before];
    delete record[before];
  }
}

const MEASURED: ReadonlySet<string> = new Set(["step", "eval", "epoch", "system", "times"]);

function revive(record: Record<string, unknown>): void {
  for (const [key, value] of Object.entries(record)) {
    if (value === "NaN" || value === "Infinity" || value === "-Infinity") record[key] = Number(value);
    else if ((key === "metrics" || key === "val_metrics") && value !== null && typeof value === "object") {
      revive(value as Record<string, unknown>);
    }
  }
}
