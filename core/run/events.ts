// The records of events.jsonl, a type for each kind, and how a record becomes a line and is read back.
import type { Monitored } from "./best.ts";
import type { Spent, SpentOfRanks } from "./account.ts";
import type { Validation } from "./validation.ts";

/** The page of a report knows the same words. */
export type Unit = "value" | "rate" | "bytes" | "seconds" | "share" | "percent" | "count";

export interface EventField {
  readonly unit: Unit;
  /** A field without a title has no chart in reports. */
  readonly label?: string;
  /** `watch` has less room for a title. */
  readonly short?: string;
  /** The axis is logarithmic; in `watch` only where the values span so many times their least. */
  readonly log?: number;
  /** False by default for a logarithmic axis and a plain value. */
  readonly zero: boolean;
  /** Charts do not smooth it, because it has no noise. */
  readonly steady?: true;
  /** "#" stands for the rank; null leaves it out of W&B, and without a name it keeps its own. */
  readonly wandb?: string | null;
  /** W&B gets it divided by this. */
  readonly per?: number;
  /** W&B gets it about once a second. */
  readonly slow?: true;
  /** The page of tracking shows it. */
  readonly about: string;
}

const number = (unit: Unit, about: string, more: Partial<EventField> = {}): EventField => ({
  unit,
  about,
  zero: unit !== "value" && more.log === undefined,
  ...more,
});
const part = (name: string, about: string) => number("seconds", about, { wandb: `time/${name}_ms` });

/** W&B rows, curves, charts, `watch` and the docs read this table. */
export const EVENT_FIELDS = {
  step: {
    loss: number("value", "mean loss over the global batch of this step", {
      label: "Loss",
      log: 20,
      wandb: "train/loss",
    }),
    lr: number("value", "learning rate", { label: "Learning rate", steady: true, wandb: "train/lr" }),
    grad_norm: number("value", "norm of the gradient, before clipping", {
      label: "Gradient norm",
      log: 20,
      wandb: "train/grad_norm",
    }),
    noise_scale: number(
      "count",
      "gradient noise scale in samples: far smaller global batches learn more by growing, far larger ones hardly; where a step " +
        "accumulates, at most each tenth step, a mean over such steps",
      {
        label: "Gradient noise scale, samples",
        short: "Noise scale",
        log: 20,
        steady: true,
        wandb: "train/noise_scale",
      },
    ),
    samples_per_s: number("rate", "samples a second on all ranks", {
      label: "Samples a second",
      short: "Samples/s",
      wandb: "train/samples_per_s",
      slow: true,
    }),
    memory_bytes: number(
      "bytes",
      "memory in use on the device, or resident on the CPU; only when it has changed by a MiB",
      { label: "Memory of rank 0", short: "Memory", wandb: "train/memory_bytes", slow: true },
    ),
    loss_scale: number("count", "fp16 only: the factor that the loss is multiplied with", {
      label: "Loss scale",
      log: 4,
      steady: true,
      wandb: "train/loss_scale",
      slow: true,
    }),
    skipped_steps: number("count", "fp16 only: steps skipped so far", {
      label: "Skipped steps",
      steady: true,
      wandb: "train/skipped_steps",
      slow: true,
    }),
    data_s: number("seconds", "time that this step waited for data", { wandb: "train/data_s", slow: true }),
  },
  times: {
    samples_per_s: number("rate", "samples a second on all ranks", { wandb: "time/samples_per_s" }),
    tokens_per_s: number("rate", "language models: tokens a second on all ranks", {
      label: "Tokens a second",
      wandb: "time/tokens_per_s",
    }),
    flops: number("rate", "floating-point operations a second of the model on all ranks", {
      wandb: "time/flops",
    }),
    mfu: number("share", "share of what the devices can do", {
      label: "Model FLOPs utilisation",
      wandb: "time/mfu",
    }),
    data_s: part("data", "waiting for data"),
    copy_s: part("copy", "bringing data to the device"),
    compute_s: part("compute", "forward and backward"),
    communication_s: part("communication", "waiting for other ranks"),
    optimizer_s: part("optimizer", "updating the weights"),
    save_s: part("save", "held by saves"),
    evaluation_s: part("evaluation", "evaluating"),
    rest_s: part("rest", "the start, and everything between steps"),
  },
  ranks: {
    spread: number("share", "by which share of its work the fastest rank has less to do than the slowest", {
      label: "Slowest rank behind the fastest",
      wandb: null,
    }),
  },
  system: {
    gpu_percent: number("percent", "load of the GPU", { label: "GPU busy", wandb: "gpu.#.gpu" }),
    gpu_memory_bytes: number("bytes", "memory in use on the GPU", {
      label: "GPU memory",
      wandb: "gpu.#.memoryAllocatedBytes",
    }),
    gpu_memory_total_bytes: number("bytes", "memory of the GPU", { wandb: null }),
    gpu_memory_percent: number("percent", "share of time in which the GPU's memory is read or written", {
      wandb: "gpu.#.memory",
    }),
    device_bytes: number("bytes", "memory of tensors on the device", { label: "Memory of tensors" }),
    device_peak_bytes: number("bytes", "the most of it so far"),
    live_tensors: number("count", "tensors that are not freed"),
    gpu_power_w: number("rate", "power of the GPU in watts", {
      label: "GPU power, W",
      wandb: "gpu.#.powerWatts",
    }),
    gpu_temperature_c: number("rate", "temperature of the GPU", {
      label: "GPU temperature, °C",
      zero: false,
      wandb: "gpu.#.temp",
    }),
    gpu_clock_mhz: number("rate", "clock of the GPU", { label: "GPU clock, MHz", wandb: "gpu.#.smClock" }),
    gpu_memory_clock_mhz: number("rate", "clock of the GPU's memory", { wandb: "gpu.#.memoryClock" }),
    gpu_memory_errors: number("count", "errors of the GPU's memory that were not corrected (AMD)", {
      wandb: "gpu.#.uncorrectedMemoryErrors",
    }),
    rss_bytes: number("bytes", "resident memory of this process", {
      label: "Resident memory",
      wandb: "proc.memory.rssMB",
      per: 2 ** 20,
    }),
    host_cpu_percent: number("percent", "processors of the machine, all of them are 100%", {
      label: "Processors of the machine busy",
    }),
    cpu_percent: number("percent", "processors that this process uses, one is 100%", {
      label: "Processors used by hpctrain, one being 100%",
      wandb: "cpu",
    }),
    host_memory_bytes: number("bytes", "memory in use on the machine"),
    host_memory_total_bytes: number("bytes", "memory of the machine", { wandb: null }),
    threads: number("count", "threads of this process", { wandb: "proc.cpu.threads" }),
    disk_read_bytes_per_s: number("bytes", "bytes a second that this process reads from disks", {
      label: "Read from disk, a second",
    }),
    disk_write_bytes_per_s: number("bytes", "bytes a second that this process writes to disks", {
      label: "Written to disk, a second",
    }),
    network_in_bytes_per_s: number("bytes", "bytes a second that the machine receives", {
      label: "Network in, a second",
    }),
    network_out_bytes_per_s: number("bytes", "bytes a second that the machine sends", {
      label: "Network out, a second",
    }),
  },
} satisfies Record<string, Record<string, EventField>>;

type Numbers<Kind extends keyof typeof EVENT_FIELDS> = {
  -readonly [Name in keyof (typeof EVENT_FIELDS)[Kind]]?: number;
};
type TimesNumbers = Omit<Numbers<"times">, keyof Spent>;

/** "accuracy", "r2", ...; "r2/NAME" belongs to one target or class. */
export type MetricValues = Readonly<Record<string, number>>;

export interface RunEvent {
  kind: "run";
  run: string;
  version: string;
  command: readonly string[];
  model: string;
  parameters: number;
  /** How many of them come from each block, in their order: their gradients come from the last one on. */
  block_parameters?: readonly number[];
  world_size: number;
  device: string;
  libtorch: string;
  /** The setting or place that named it, and its folder. Older versions lack it. */
  libtorch_from?: string;
  host: string;
  pid: number;
  steps_per_epoch?: number;
  /** Absent where it is not validated. */
  validation?: Validation;
  /** Older versions lack it. */
  sample_orders?: SampleOrders;
  /** Rank 0's. */
  gpu?: RunGpuFacts;
}

/** A hash of the samples' numbers in the data, in the order of the first epoch; null without validation. */
export interface SampleOrders {
  readonly train: string;
  readonly val: string | null;
}

/** A GPU as it is known before the first step, with what libtorch and its libraries choose for it. */
export interface RunGpuFacts {
  readonly name: string;
  readonly capability: string;
  readonly tf32: boolean;
  /** Null where a model has no images. */
  readonly channels_last: boolean | null;
  /** Null where a model has no convolutions. */
  readonly cudnn: string | null;
  readonly cudnn_searches: boolean;
  /** Each kind that the model has: flash, memory-efficient, cuDNN, math. */
  readonly attention: readonly string[];
  /** Bytes that other processes held when this one began; 0 for little. */
  readonly held_by_others: number;
}

interface ConfigEvent {
  kind: "config";
  config: unknown;
  /** Settings with their default have no origin here. */
  origins?: Readonly<Record<string, string>>;
}

export interface StepEvent extends Numbers<"step"> {
  kind: "step";
  step: number;
  epoch: number;
  loss: number;
  /** Those of losses that take turns, by what they train: `loss` is their sum. */
  losses?: MetricValues;
  lr: number;
}

export interface EvalEvent {
  kind: "eval";
  step: number;
  epoch: number;
  val_loss: number;
  metrics: MetricValues;
  /** By what the evaluation is judged; absent where the least validation loss is best. */
  monitor?: Monitored;
  samples: number;
  seconds: number;
}

/** The account of `seconds` is rank 0's. */
export interface EpochEvent extends Partial<Spent> {
  kind: "epoch";
  step: number;
  epoch: number;
  loss: number;
  metrics: MetricValues;
  val_loss?: number;
  val_metrics?: MetricValues;
  lr: number;
  samples_per_s?: number;
  memory_bytes?: number;
  /** These could not be used and were replaced, since the start of the run. */
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
  /** Training was held for so long. */
  stall_s: number;
  /** "epoch", "interval", "best", "request", "stop", ... */
  reason: string;
}

interface ResumeEvent {
  kind: "resume";
  step: number;
  epoch: number;
  path: string;
}

export interface SystemEvent extends Numbers<"system"> {
  kind: "system";
  step: number;
  /** Missing with one rank. */
  rank?: number;
  rss_bytes: number;
  host?: string;
  /** "power cap", "hardware thermal slowdown". */
  gpu_throttle?: readonly string[];
}

/**
 * The parts add up to `seconds`, and rank 0's events to the whole run. `steps` is 0 before the first step and
 * after the last.
 */
export interface TimesEvent extends Spent, TimesNumbers {
  kind: "times";
  step: number;
  steps: number;
  seconds: number;
}

/** A line about compiled steps. */
interface CompiledEvent {
  kind: "compiled";
  step: number;
  message: string;
}

/** Training returned to a checkpoint's weights and skips the batches since. */
interface RewindEvent {
  kind: "rewind";
  step: number;
  epoch: number;
  to_step: number;
  path: string;
  reason: string;
}

/** Each part has one number a rank. */
export interface RanksEvent extends SpentOfRanks {
  kind: "ranks";
  step: number;
  steps: number;
  /** `slowest` has the most work of its own, and the fastest has less by the share `spread`. */
  slowest: number;
  spread: number;
}

/** The loss of this step was no number, which ends the run. */
export interface NonFiniteEvent {
  kind: "non_finite";
  step: number;
  epoch: number;
  loss: number;
  /** The first parameter whose gradient, or which itself, is not finite; null where all are. */
  parameter: string | null;
  of: "gradient" | "weight" | null;
}

export interface WarningEvent {
  kind: "warning";
  message: string;
  step?: number;
  /** The subject, for --on-event. */
  about?: "spike" | "save" | "memory";
  /** Missing with one rank. */
  rank?: number;
  /** The limit that is near, in bytes. */
  memory?: { readonly of: string; readonly limit: number; readonly used: number };
}

/** The account of `seconds` is rank 0's. */
export interface ExitEvent extends Partial<Spent> {
  kind: "exit";
  code: number;
  message: string;
  step: number;
  epoch: number;
  seconds: number;
  /** The job's script puts the job back into its queue, to go on from the checkpoint. */
  requeues?: true;
}

/** The writer adds the time. */
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
  | CompiledEvent
  | RewindEvent
  | RanksEvent
  | NonFiniteEvent
  | WarningEvent
  | ExitEvent;

/** `t` is in Unix seconds. */
export type Event = Emitted & { t: number };

/** Outputs get notes; events.jsonl does not have them. */
export type Note = ConsoleNote | HistogramsNote | PicturesNote | ConfusionNote;

interface ConsoleNote {
  readonly kind: "console";
  /** Unix seconds. */
  readonly t: number;
  readonly stream: "stdout" | "stderr";
  readonly text: string;
}

export interface HistogramsNote {
  readonly kind: "histograms";
  readonly t: number;
  readonly step: number;
  /** There is one more border than counts. */
  readonly of: Readonly<
    Record<string, { readonly values: readonly number[]; readonly bins: readonly number[] }>
  >;
}

export interface PicturesNote {
  readonly kind: "pictures";
  readonly t: number;
  readonly step: number;
  readonly name: string;
  /** PNG files in base64. */
  readonly pictures: readonly {
    readonly png: string;
    readonly width: number;
    readonly height: number;
    readonly caption: string;
  }[];
}

export interface ConfusionNote {
  readonly kind: "confusion";
  readonly t: number;
  readonly step: number;
  readonly classes: readonly string[];
  /** How often each class (the outer one) was taken for each class. */
  readonly counts: readonly (readonly number[])[];
}

/** NaN and infinities are strings, because JSON has none. */
export function encodeEvent(event: Emitted, t: number): string {
  return JSON.stringify(
    { t, ...event },
    (_key, value) => typeof value === "number" && !Number.isFinite(value) ? String(value) : value,
  );
}

/** Null where the line is cut or not an event. */
export function decodeEvent(line: string): Event | null {
  let event: Event;
  try {
    event = JSON.parse(line);
  } catch {
    return null;
  }
  if (event === null || typeof event !== "object" || typeof event.kind !== "string") return null;
  if (TIMED.has(event.kind)) renamed(event as unknown as Record<string, unknown>);
  // Other kinds may have a path or a message that reads "NaN".
  if (MEASURED.has(event.kind)) {
    revive(event as unknown as Record<string, unknown>);
  }
  return event;
}

/** Older versions wrote these names. */
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

const MEASURED: ReadonlySet<string> = new Set(["step", "eval", "epoch", "system", "times", "non_finite"]);

function revive(record: Record<string, unknown>): void {
  for (const [key, value] of Object.entries(record)) {
    if (value === "NaN" || value === "Infinity" || value === "-Infinity") record[key] = Number(value);
    else if (
      (key === "metrics" || key === "val_metrics" || key === "losses") && value !== null &&
      typeof value === "object"
    ) {
      revive(value as Record<string, unknown>);
    }
  }
}
