// Our side of the step times. Arguments: a Spec as JSON, the device, "deterministic" or nothing. peer.py is the other
// side.
import { resolveSettings } from "../../core/settings/resolve.ts";
import { createLoss } from "../../core/models/losses.ts";
import { createModel } from "../../core/models/registry.ts";
import { packParameters } from "../../core/train/arena.ts";
import { openDevice } from "../../core/train/device.ts";
import { keyedSeeds } from "../../core/train/blocks.ts";
import { type CapturedParts, openTakeStep } from "../../core/train/captured_step.ts";
import { openCompiledPass } from "../../core/train/compiled_pass.ts";
import { compiledUpdate } from "../../core/train/compiled_update.ts";
import { createOptimizer } from "../../core/train/optimizers.ts";
import { openStep } from "../../core/train/user_step.ts";
import { freshCursor } from "../../core/train/resume.ts";
import { cudaMemory, searchKernels } from "../../ffi/cuda.ts";
import type { Readback } from "../../ffi/readback.ts";
import { toDevice, toNumbers } from "../../ffi/make.ts";
import { contiguous, detach, randint, randn } from "../../ffi/ops.ts";
import { manualSeed } from "../../ffi/context.ts";
import { type Device, keep, scope, type Tensor } from "../../ffi/tensor.ts";
import { answerRounds, type Train, trainer } from "../contestant.ts";
import { factsOf, flagsOf, type Spec } from "./specs.ts";

function batchOf({ model, batch, size, channels, outputs }: Spec, device: Device) {
  const there = (t: Tensor) => keep(toDevice(t, device));
  const classes = (...shape: number[]) => there(randint(0, outputs, [batch, ...shape]));
  if (model === "gpt") return { input: classes(size), target: classes(size), items: batch * size };
  if (model === "mlp") {
    return { input: there(randn([batch, 7])), target: there(randn([batch, 1])), items: batch };
  }
  const input = there(contiguous(randn([batch, channels, size, size]), "channels_last"));
  if (model === "cosmo-cnn") return { input, target: there(randn([batch, outputs])), items: batch };
  if (model === "unet") return { input, target: classes(size, size), items: batch * size * size };
  return { input, target: classes(), items: batch };
}

const nothing = () => {};
/** Nobody sees it, but for a step that can't be captured. */
const quiet = {
  line: nothing,
  final: nothing,
  warn: console.error,
  progress: nothing,
  event: nothing,
  close: nothing,
};

/** A step that can't be compiled is not timed as one that is. */
function refuse(text: string): never {
  throw new Error(text);
}

let before = 0;
const held = (device: Device) => device === "cpu" ? 0 : cudaMemory().used;

function prepare(spec: Spec, asked: string, deterministic: boolean): { train: Train; device: Device } {
  const flags = [...flagsOf(spec), "--device", asked, ...(deterministic ? ["--deterministic"] : [])];
  const { config } = resolveSettings({ argv: flags, env: {} });
  const { device } = openDevice(config);
  searchKernels(device !== "cpu" && !deterministic); // as in a long run
  before = held(device);
  const facts = factsOf(spec);
  const loss = createLoss(config.training, facts);
  manualSeed(0n);
  const model = createModel(config.model, facts, loss.outputs);
  const arena = packParameters(model.root.namedParameters(), device, spec.way !== "fast");
  for (const [, buffer] of model.root.namedBuffers()) {
    if (device !== "cpu") buffer.replaceWith(toDevice(buffer, device));
  }
  manualSeed(1n);
  const batches = [scope(() => batchOf(spec, device))];
  const cast = spec.bf16 ? "bf16" as const : null;
  const own = createOptimizer(config.training.optimizer, arena), fast = spec.way === "fast";
  const { parts, watch } = openStep({
    pass: { model, loss, cast, onGpu: device !== "cpu", seeds: keyedSeeds(model, 0) },
    arena,
    optimizer: fast ? compiledUpdate(own, config.training.optimizer, arena) : own,
    compiled: fast
      ? openCompiledPass(arena, "fast", () => ({ line: nothing, warn: refuse }), null, true)
      : null,
    scaler: null,
    checkpointing: spec.checkpointing ?? false,
    clipNorm: 0,
    observe: null,
  });
  const events = { emit: nothing, note: nothing, flush: nothing, rewind: nothing, lost: 0, close: nothing };
  const told = {
    ...{ config, ranks: null, profile: null, console: quiet, events, cursor: freshCursor() },
    schedule: { moves: null },
  };
  const endless = { plan: { global: spec.batch }, data: { train: { length: Infinity } } };
  const unmeasured = { ...watch, metrics: null };
  const request = { batches, shares: [1], rate: 1e-3, wantNorm: false, step: 0, passes: 1 };
  const takeStep = openTakeStep({ ...parts, ...told, ...endless } as unknown as CapturedParts, unmeasured);
  let last: Readback | undefined;
  const step = (number: number) => {
    request.step = number;
    const { loss, numbers } = takeStep(request);
    const read = numbers?.();
    last?.take(toNumbers); // a step late, as in training
    last = read;
    return { loss: numbers ? keep(detach(loss)) : loss }; // a graph's own stays
  };
  return { train: trainer(step), device };
}

const { train, device } = prepare(JSON.parse(Deno.args[0]), Deno.args[1], Deno.args[2] === "deterministic");
await answerRounds(train, () => ({ device: held(device) - before }));
