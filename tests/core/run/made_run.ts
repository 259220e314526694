// A run's folder as training would leave it, of any length, without training.
import { join } from "paths";
import { byPart } from "../../../core/run/account.ts";
import { type Emitted, encodeEvent } from "../../../core/run/events.ts";
import type { Attempt, Lineage } from "../../../core/run/lineage.ts";

export interface MadeRun {
  name?: string;
  steps?: number;
  epochs?: number;
  ranks?: number;
  gpus?: boolean;
  /** Unix seconds of its begin; a step takes `stepSeconds`. */
  begun?: number;
  stepSeconds?: number;
  host?: string;
  pid?: number;
  /** Null: it has not ended. */
  exit?: number | null;
  attempts?: number;
  seed?: number;
  learningRate?: number;
  warnings?: string[];
  model?: string;
  /** Steps whose loss is NaN. */
  nan?: number[];
}

/** Writes logs/NAME below `folder` and returns that folder. */
export function makeRun(folder: string, made: MadeRun = {}): string {
  const { name = "made", begun = 1_790_000_000, exit = 0 } = made;
  const logs = join(folder, "logs", name);
  Deno.mkdirSync(logs, { recursive: true });
  const lines: string[] = [];
  let t = begun;
  for (const [event, seconds] of eventsOf(made)) lines.push(encodeEvent(event, t = begun + seconds));
  Deno.writeTextFileSync(join(logs, "events.jsonl"), lines.join("\n") + "\n");
  Deno.writeTextFileSync(join(logs, "lineage.json"), JSON.stringify(lineageOf(made, t, exit)));
  return logs;
}

function* eventsOf(made: MadeRun): Generator<[Emitted, number]> {
  const { name = "made", steps = 1000, epochs = 10, ranks = 1, gpus = false, exit = 0, model = "gpt" } = made;
  const { stepSeconds = 0.05, warnings = [], learningRate = 1e-3, nan = [] } = made;
  const random = randomOf(made.seed ?? 1);
  yield [{
    kind: "run",
    run: name,
    version: "0.1.0",
    command: ["--preset", "cpu", "--run-name", name],
    model,
    parameters: 124_439_808,
    world_size: ranks,
    device: gpus ? "cuda" : "cpu",
    libtorch: "2.15.0",
    host: made.host ?? "node001",
    pid: made.pid ?? 4242,
  }, 0];
  const config = {
    model: { name: model, layers: 12 },
    training: {
      epochs,
      max_steps: 0,
      batch_size: 32,
      optimizer: { type: "adamw", learning_rate: learningRate },
    },
    output: { run_name: name, save_dir: "." },
  };
  yield [{ kind: "config", config, origins: { "training.epochs": "--epochs" } }, 0.01];
  const perEpoch = Math.max(1, Math.floor(steps / epochs));
  for (let step = 1; step <= steps; step++) {
    const seconds = 2 + step * stepSeconds, done = step / steps;
    const epoch = Math.min(epochs, Math.ceil(step / perEpoch));
    const truth = 0.6 + 9 * Math.exp(-6 * done) + 2 * Math.exp(-60 * done);
    yield [{
      kind: "step",
      step,
      epoch,
      loss: nan.includes(step) ? NaN : truth * (1 + 0.08 * (random() - 0.5)),
      lr: learningRate * (1 + Math.cos(Math.PI * done)) / 2,
      grad_norm: 0.4 + Math.exp(-8 * done) * 3 + 0.3 * random(),
      samples_per_s: 32 * ranks / stepSeconds * (0.95 + 0.1 * random()),
      memory_bytes: 9.5e9 + 2e8 * random(),
      ...(gpus ? { loss_scale: 65536 * 2 ** Math.floor(done * 4), skipped_steps: 0 } : {}),
      data_s: 0.002 * random(),
    }, seconds];
    if (step % 100 === 0) yield [timesAt(step, stepSeconds, random), seconds];
    if (ranks > 1 && step % 100 === 0) yield [ranksAt(step, ranks, stepSeconds, random), seconds];
    if (step % Math.max(1, Math.floor(steps / 200)) === 0) {
      yield* systemAt(step, ranks, gpus, random, seconds);
    }
    if (step % perEpoch !== 0) continue;
    const val_loss = truth * 1.04, metrics = { perplexity: Math.exp(val_loss), accuracy: 1 - truth / 12 };
    yield [{ kind: "eval", step, epoch, val_loss, metrics, samples: 1000, seconds: 1 }, seconds];
    yield [{ kind: "epoch", step, epoch, loss: truth, metrics, val_loss, lr: 1e-4, seconds: 10 }, seconds];
    const save = {
      path: "checkpoints/made_latest.pt",
      bytes: 1e9,
      seconds: 1.5,
      stall_s: 0.2,
      reason: "epoch",
    };
    yield [{ kind: "save", step, epoch, ...save }, seconds];
  }
  const seconds = 3 + steps * stepSeconds;
  for (const message of warnings) yield [{ kind: "warning", message }, seconds];
  const message = exit === 0 ? "Finished" : "Stopped on request";
  if (exit !== null) {
    yield [{ kind: "exit", code: exit, message, step: steps, epoch: epochs, seconds }, seconds];
  }
}

function timesAt(step: number, stepSeconds: number, random: () => number): Emitted {
  const all = 100 * stepSeconds, data = 0.02 * random(), compute = 0.7 + 0.05 * random();
  const others = data + compute + 0.01 + 0.1 + 0.06 + 0.01;
  return {
    kind: "times",
    step,
    steps: 100,
    seconds: all,
    data_s: data * all,
    copy_s: 0.01 * all,
    compute_s: compute * all,
    communication_s: 0.1 * all,
    optimizer_s: 0.06 * all,
    save_s: 0,
    evaluation_s: 0.01 * all,
    rest_s: (1 - others) * all,
    samples_per_s: 640,
    tokens_per_s: 640 * 1024,
    mfu: 0.38 + 0.02 * random(),
  };
}

function ranksAt(step: number, ranks: number, stepSeconds: number, random: () => number): Emitted {
  const slow = ranks - 2;
  const own = Array.from(
    { length: ranks },
    (_, i) => 100 * stepSeconds * (i === slow ? 0.9 : 0.6 + 0.1 * random()),
  );
  const loader = own.map((seconds) => 0.08 * seconds);
  return {
    kind: "ranks",
    step,
    steps: 100,
    slowest: slow,
    spread: 0.31,
    ...byPart(() => own.map(() => 0)),
    data_s: loader,
    compute_s: own.map((seconds, i) => seconds - loader[i]),
    communication_s: own.map((seconds) => Math.max(0, 100 * stepSeconds - seconds)),
  };
}

function* systemAt(
  step: number,
  ranks: number,
  gpus: boolean,
  random: () => number,
  seconds: number,
): Generator<[Emitted, number]> {
  for (let rank = 0; rank < ranks; rank++) {
    const gpu = {
      gpu_percent: rank === 1 ? 41 : 92 + 6 * random(),
      gpu_memory_bytes: 31e9,
      gpu_memory_total_bytes: 80 * 2 ** 30,
      gpu_power_w: 480 + 40 * random(),
      gpu_temperature_c: 61,
      gpu_throttle: rank === 1 ? ["hardware thermal slowdown"] : [],
    };
    const cpu = {
      rss_bytes: 3e9,
      cpu_percent: 180 * random(),
      host_cpu_percent: 40 * random(),
      disk_read_bytes_per_s: 4e8,
    };
    yield [{ kind: "system", step, rank, ...cpu, ...(gpus ? gpu : {}) }, seconds];
  }
}

function lineageOf(made: MadeRun, end: number, exit: number | null): Lineage {
  const { begun = 1_790_000_000, attempts = 1, steps = 1000, ranks = 1, name = "made" } = made;
  const each = (end - begun) / attempts;
  const all = Array.from({ length: attempts }, (_, i): Attempt => {
    const last = i === attempts - 1, from = Math.floor(steps * i / attempts) + 1;
    return {
      attempt: i + 1,
      host: made.host ?? "node001",
      job_id: attempts > 1 ? String(8100 + i) : null,
      ranks,
      pid: made.pid ?? 4242,
      started: begun + i * each,
      resumed_from: i === 0 ? null : "checkpoints/made_latest.pt",
      first_step: from,
      last_step: Math.floor(steps * (i + 1) / attempts),
      first_step_at: begun + i * each + 0.05 * each,
      last_seen: begun + (i + 0.95) * each,
      ended: !last
        ? { why: "killed", message: "it left no end: kill -9", code: null }
        : exit === null
        ? null
        : {
          why: exit === 0 ? "done" : "stopped",
          message: exit === 0 ? "Finished" : "Stopped on request",
          code: exit,
        },
      lost: {
        restart_s: 0.05 * each,
        save_stall_s: 0.01 * each,
        redone_steps: i === 0 ? 0 : 17,
        redone_s: i === 0 ? 0 : 0.02 * each,
      },
    };
  });
  return { version: 1, run: name, parent: null, goodput_percent: 91.5, attempts: all };
}

/** Numbers between 0 and 1 that are the same each time. */
function randomOf(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}
