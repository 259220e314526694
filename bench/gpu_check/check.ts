// The GPU's checks share these: a check and its outcome, a small training.
import type { Libtorch } from "../../ffi/libraries/find.ts";
import { type Device, scope } from "../../ffi/tensor.ts";
import { resolveSettings } from "../../core/settings/resolve.ts";
import { loadAllReaders } from "../../core/data/open/readers.ts";
import { order, partsOf } from "../../core/data/source/order.ts";
import { build } from "../../core/train/build.ts";
import { openFeed } from "../../core/train/feed.ts";
import { createOptimizer } from "../../core/train/optimizers.ts";
import { LossScaler } from "../../core/train/precision.ts";
import { trainStep } from "../../core/train/user_step.ts";
import { setNumerics } from "../../ffi/cuda.ts";
import type { Program } from "./runs.ts";

await loadAllReaders(); // checks build models without waiting for their data's

export interface Context {
  readonly device: Device;
  readonly libtorch: Libtorch;
  /** The rehearsal: few steps and small shapes. What only a real GPU shows (times, its roundings) is not judged. */
  readonly quick: boolean;
  /** So many checks may run beside one another where nothing is measured; 1: each has the device to itself. */
  readonly jobs: number;
  /** The names of the checks that have yet to run. */
  left(): readonly string[];
  /** A folder of this run's own. */
  readonly folder: string;
  /** A Python whose torch computes on this device, to compare with; null where there is none. */
  readonly python: string | null;
  /** Runs the program, many times in one process. */
  readonly program: Program;
  /** Seconds since the start: what may be left out is left out when it gets late. */
  elapsed(): number;
}

export interface Outcome {
  /** Null: only told, since a rehearsal can't judge it or something is not here. */
  readonly ok: boolean | null;
  readonly figure: string;
  /** For the results file. */
  readonly detail?: unknown;
}

export interface Check {
  readonly name: string;
  /** Says nothing on a CPU. */
  readonly gpuOnly?: boolean;
  /** It measures: no other process of ours may be on the device. */
  readonly alone?: boolean;
  /** It is processes of its own that measure nothing: with `--jobs` others may run beside it. */
  readonly beside?: boolean;
  /** With `--jobs`: begins what takes long to begin, before the first check runs. */
  ahead?(c: Context): void;
  run(c: Context): Outcome | Promise<Outcome>;
}

/** A rehearsal does not judge times and roundings. */
export const judged = ({ quick }: Pick<Context, "quick">, ok: boolean): boolean | null =>
  quick && !ok ? null : ok;

/** Largest |a - b| over the largest |b|. */
export function relative(a: ArrayLike<number>, b: ArrayLike<number>): number {
  if (a.length !== b.length) return Infinity;
  let difference = 0, scale = 0;
  for (let i = 0; i < a.length; i++) {
    const apart = Math.abs(a[i] - b[i]);
    if (!(apart <= difference)) difference = apart; // NaN too
    scale = Math.max(scale, Math.abs(b[i]));
  }
  return difference === 0 ? 0 : difference / scale;
}

export const within = (error: number, limit: number): Outcome => ({
  ok: error <= limit,
  figure: `${error.toExponential(1)} relative (at most ${limit.toExponential(0)})`,
  detail: error,
});

// A model in training as a run has it, without files: losses of its first steps.

/** The losses of `steps` optimizer steps with these settings; the next batch is on its way while one is trained. */
export function losses(device: Device, flags: readonly string[], steps: number): number[] {
  const { training, ...config } = resolveSettings({ argv: [...flags], env: {} }).config;
  setNumerics({ tf32: training.tf32, deterministic: training.deterministic !== "off" });
  const { data: { train }, arena, pass, amp, channelsLast } = build({ training, ...config }, device);
  const scaler = amp === "fp16"
    ? new LossScaler({ init: 65536, growthInterval: 2000, min: 1, maxSkipped: 20 }, device)
    : null;
  const options = {
    pass,
    arena,
    optimizer: createOptimizer(training.optimizer, arena),
    scaler,
    checkpointing: training.gradient_checkpointing,
    clipNorm: training.clip_norm,
    observe: null,
  };
  const supply = openFeed({ device, channelsLast, loss: pass.loss }).of(train);
  const size = training.batch_size, perEpoch = Math.floor(train.length / size);
  const samples = (epoch: number) => order(train.length, training.seed, epoch, true);
  let asked = 0;
  supply.begin(() => {
    const epoch = Math.floor(asked / perEpoch), step = asked++ % perEpoch;
    return partsOf(samples(epoch), step, { global: size, micro: size }, epoch, false);
  });
  const found: number[] = [];
  for (let step = 0; step < steps; step++) {
    const { loss } = scope(() =>
      trainStep(options, supply.take()!, [1], training.optimizer.learning_rate, false, step)
    );
    supply.queued();
    supply.ahead();
    found.push(loss.item());
    loss.free();
  }
  return found;
}

export const settings = (more: Record<string, string | number>): string[] =>
  Object.entries(more).flatMap(([key, value]) => ["--set", `${key}=${value}`]);

/** The models that every training check takes, small enough for a CPU to follow. */
export const SMALL: Readonly<Record<string, readonly string[]>> = {
  mlp: ["--model", "mlp", "--batch-size", "64"],
  // Dropout's draws on a GPU are other than the CPU's: without it there is one right answer.
  "simple-convnet": ["--model", "simple-convnet", "--batch-size", "32", ...settings({ "model.dropout": 0 })],
  // AdamW's first steps are the signs of gradients, which rounding changes where they are next to nothing.
  resnet18: ["--model", "resnet18", "--batch-size", "16", "--optimizer", "sgd"],
  unet: ["--model", "unet", "--batch-size", "4", ...settings({ "model.width": 16 })],
  gpt: [
    "--model",
    "gpt",
    "--batch-size",
    "8",
    ...settings({ "model.layers": 2, "model.embed": 64, "model.heads": 4 }),
  ],
};
for (const [name, flags] of Object.entries(SMALL)) {
  (SMALL as Record<string, readonly string[]>)[name] = [
    ...flags,
    "--train-samples",
    "512",
    "--val-samples",
    "16",
  ];
}
