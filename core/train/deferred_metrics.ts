// Reads a step's loss when the next step is queued already.
import { toNumbers } from "../../ffi/make.ts";
import { startReadback } from "../../ffi/readback.ts";
import { keep, type Tensor } from "../../ffi/tensor.ts";
import type { Model } from "../models/model.ts";
import { UserError } from "../base/errors.ts";
import { type Account, DATA, sixDigits, type Times } from "../run/account.ts";
import { openRunNoise } from "./finders/noise.ts";
import { openThroughput } from "./throughput.ts";

type Throughput = ReturnType<typeof openThroughput>;

type RunNoise = ReturnType<typeof openRunNoise>;

import type { LineageWriter } from "../run/lineage.ts";
import type { MetricValues, SystemEvent } from "../run/events.ts";
import { stepsInAll } from "./batches.ts";
import { remediesOf } from "./checks.ts";
import { memoryInUse } from "./device.ts";
import type { Guard } from "./guards/spikes.ts";
import { firstNonFinite, textOfNonFinite } from "./arena.ts";
import type { Moments } from "./moments.ts";
import { followStep, stepNumbers, type StepParts, type StepRequest, type StepTaken } from "./step.ts";
import type { Run } from "./launch.ts";

interface Numbers {
  readonly loss: number;
  readonly norm: number | undefined;
  /** False where a gradient was not. */
  readonly finite: boolean;
}

/** The live line is drawn at most this often. */
const SHOW_MS = 100;

const MEMORY_MS = 250, MIB = 2 ** 20;

/** The parts of a run whose steps are told. */
interface Told
  extends
    Pick<StepParts, "scaler" | "optimizer" | "gradients" | "pass">,
    Pick<Run, "config" | "cursor" | "plan" | "data" | "console" | "events" | "warn"> {
  readonly guard: Guard;
  readonly account: Pick<Account, "spent">;
  readonly times: Times;
  readonly lineage: Pick<LineageWriter, "stepped">;
  readonly losses: { step?: { step: number; loss: number } };
  memory(): number;
}

export function openDeferredMetrics(
  trainer: Told,
  epoch: number,
  { pace, noise, at }: {
    readonly pace: Throughput;
    readonly noise: Pick<RunNoise, "taken">;
    readonly at: Pick<Moments, "arrived">;
  },
) {
  const { cursor, plan, events, console, warn, guard, times, account, scaler, pass: { onGpu } } = trainer;
  const { epochs } = trainer.config.training, steps = stepsInAll(trainer.config.training, plan);
  let waiting: ReturnType<typeof waitingFor> | null = null;
  let shownAt = -Infinity;
  const memory = openMemory(trainer);
  let waitedBefore = account.spent[DATA];

  /** The cursor has counted the step. */
  const waitingFor = (
    taken: StepTaken,
    { rate, wantNorm: log }: Pick<StepRequest, "rate" | "wantNorm">,
    inStep: number,
  ) => {
    const { step, stepInEpoch, samples } = cursor, waited = account.spent[DATA] - waitedBefore;
    waitedBefore += waited;
    const reading = startReading(taken, onGpu), { counted, refused, losses } = taken;
    const told = noise.taken(inStep);
    return { reading, counted, refused, losses, samples, rate, log, step, stepInEpoch, waited, noise: told };
  };
  const show = (w: NonNullable<typeof waiting>, loss: number, now: number) => {
    if (now - shownAt < SHOW_MS) return;
    shownAt = now;
    console.progress({
      epoch: epoch + 1,
      epochs,
      step: w.stepInEpoch,
      steps: plan.stepsPerEpoch,
      loss,
      scaled: trainer.data.train.targetScale !== undefined,
      learningRate: w.rate,
      samplesPerSecond: pace.rate(),
      secondsLeft: pace.secondsLeft((steps - w.step) * plan.global),
      memoryBytes: memory.now(now),
    });
  };
  const settle = () => {
    if (waiting === null) return;
    const w = waiting, now = performance.now();
    waiting = null;
    const { loss, norm, finite } = w.reading.numbers ?? w.reading.read(), noise = w.noise?.(norm);
    at.arrived();
    trainer.lineage.stepped(w.step);
    trainer.losses.step = { step: w.step, loss };
    const skipped = followStep(trainer, w, finite, w.step);
    if (skipped !== null) {
      warn(skipped, w.step, w.refused === null ? undefined : "spike");
    } else if (!Number.isFinite(loss) && !guard.takesNonFinite) {
      throw notFinite(trainer, w.step, epoch + 1, loss);
    } else {
      const spike = guard.observe(w.step, loss);
      if (spike !== null) warn(spike.message, spike.step, "spike");
    }
    const losses = w.losses && ofTurns(trainer.pass.model, w.losses);
    if (w.log) {
      events.emit({
        kind: "step",
        step: w.step,
        epoch: epoch + 1,
        loss,
        ...(losses && { losses }),
        lr: w.rate,
        grad_norm: norm,
        noise_scale: noise,
        samples_per_s: sixDigits(pace.rate()),
        memory_bytes: memory.news(now),
        loss_scale: scaler?.scale,
        skipped_steps: scaler?.skipped,
        data_s: microseconds(w.waited),
      });
      const spent = times.due(w.step, w.samples);
      if (spent !== null) events.emit(spent);
      if (trainer.config.training.log_gpu_memory) events.emit(systemEvent(trainer, w.step));
    }
    show(w, loss, now);
  };
  return {
    /** A step of so many samples is queued. */
    push(taken: StepTaken, request: Pick<StepRequest, "rate" | "wantNorm">, samples: number): void {
      const now = waitingFor(taken, request, samples);
      settle();
      waiting = now;
    },
    settle,
  };
}

/** By what they train. */
function ofTurns({ turns }: Model, losses: readonly Tensor[]): MetricValues {
  const values = losses.map((loss, turn) => [turns!.names[turn], loss.item()] as const);
  for (const loss of losses) loss.free();
  return Object.fromEntries(values);
}

/** A step's numbers, or how they are read once a GPU has them. */
type Reading =
  | { readonly numbers: Numbers; readonly read: null }
  | { readonly numbers: null; readonly read: () => Numbers };

/** A GPU copies the numbers at once; on a CPU they are there. */
function startReading(taken: StepTaken, onGpu: boolean): Reading {
  if (!onGpu) return { numbers: here(taken), read: null };
  const { loss, norm, found } = taken;
  if (!taken.numbers && !norm && !found) {
    const mean = startReadback(loss);
    return {
      numbers: null,
      read: () => ({ loss: mean.take((t) => t.item()), norm: undefined, finite: true }),
    };
  }
  const back = taken.numbers?.() ?? startReadback(keep(stepNumbers(taken)));
  if (!taken.numbers) { for (const t of [loss, norm, found]) t?.free(); }
  const read = () => {
    const [mean, ...rest] = back.take(toNumbers);
    return { loss: mean, norm: norm ? rest[0] : undefined, finite: !found || rest.at(-1) === 0 };
  };
  return { numbers: null, read };
}

/** Hot. */
function here({ loss, norm, found }: StepTaken): Numbers {
  const numbers = { loss: loss.item(), norm: norm?.item(), finite: found === null || found.item() === 0 };
  loss.free();
  norm?.free();
  found?.free();
  return numbers;
}

/** A look at the memory in use costs as much as twenty small ops. */
function openMemory(
  trainer: Pick<Told, "memory">,
): { now(at: number): number; news(at: number): number | undefined } {
  let lookedAt = -Infinity, bytes = 0, logged = -Infinity;
  const now = (at: number) => {
    if (at - lookedAt < MEMORY_MS) return bytes;
    lookedAt = at;
    return bytes = trainer.memory();
  };
  const news = (at: number) => {
    if (Math.abs(now(at) - logged) < MIB) return undefined;
    return logged = bytes;
  };
  return { now, news };
}

const microseconds = (seconds: number) => Math.round(1e6 * seconds) / 1e6;

function systemEvent(trainer: Told, step: number): SystemEvent {
  const onGpu = trainer.pass.onGpu;
  return {
    kind: "system",
    step,
    rss_bytes: memoryInUse("cpu"),
    device_bytes: onGpu ? trainer.memory() : undefined,
  };
}

function notFinite(trainer: Told, step: number, epoch: number, loss: number): UserError {
  const found = firstNonFinite(trainer.gradients.arena);
  const { parameter, of } = found ?? { parameter: null, of: null };
  trainer.events.emit({ kind: "non_finite", step, epoch, loss, parameter, of });
  return new UserError(
    "numerics",
    `The loss became ${loss} at step ${step} (first tensor that is not finite: ${textOfNonFinite(found)}). ` +
      remediesOf(trainer.config.training),
  );
}
