// Our side of the step benchmark. Argument: a workload's name. bench/peers/step.py is the other side.
// May import core, ffi, its siblings.
import { resolve } from "../core/config/resolve.ts";
import { createLoss } from "../core/models/losses.ts";
import type { Facts } from "../core/models/model.ts";
import { createModel } from "../core/models/registry.ts";
import { packParameters } from "../core/train/arena.ts";
import { needsWholeGradient } from "../core/train/build.ts";
import { openDevice } from "../core/train/device.ts";
import { createOptimizer } from "../core/train/optimizers/optimizer.ts";
import { type MicroBatch, trainStep } from "../core/train/step.ts";
import { randint, randn } from "../ffi/ops.ts";
import { manualSeed } from "../ffi/random.ts";
import { liveTensors } from "../ffi/tensor.ts";
import { answerRounds, type Train, trainer } from "./rounds.ts";
import { type Name, type Workload, workloads } from "./workloads.ts";

function batchFor({ facts, batch }: Workload): MicroBatch {
  const { task, input: { shape }, outputs } = facts as Facts;
  if (task === "language") {
    const tokens = () => randint(0, outputs, [batch, ...shape]);
    return { input: tokens(), target: tokens() };
  }
  const input = randn([batch, ...shape]);
  return { input, target: task === "regression" ? randn([batch, outputs]) : randint(0, outputs, [batch]) };
}

function prepare(workload: Workload): Train {
  const { flags, facts, learningRate } = workload;
  const threads = workload.threads || navigator.hardwareConcurrency;
  const { config } = resolve({ argv: [...flags, "--threads", String(threads), "--device", "cpu"], env: {} });
  openDevice(config);
  const loss = createLoss(config.training, facts);
  manualSeed(0n);
  const model = createModel(config.model, facts, loss.outputs);
  const direct = !needsWholeGradient(config.training, "off"); // as a run decides it
  const arena = packParameters(model.root.namedParameters(), "cpu", direct);
  manualSeed(1n);
  const batches = [batchFor(workload)];
  const options = {
    pass: { model, loss, cast: null, onGpu: false, seeds: null },
    arena,
    optimizer: createOptimizer(config.training.optimizer, arena),
    scaler: null,
    checkpointing: false,
    clipNorm: 0,
    observe: null,
  };
  return trainer((number) => trainStep(options, batches, [1], learningRate, false, number));
}

answerRounds(prepare(workloads[Deno.args[0] as Name]), () => ({ tensors: liveTensors() }));
