// Our side of the step benchmark: one long-lived process that trains as many steps as each line of its input says
// and answers with one line of JSON. bench/peers/step.py is the other side. May import core and ffi.
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

function prepare(workload: Workload): (steps: number) => number {
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
  let step = 0;
  return (steps) => {
    let last = NaN;
    for (let i = 1; i <= steps; i++) {
      const { loss } = trainStep(options, batches, [1], learningRate, false, step++);
      if (i === steps) last = loss.item(); // the one time a round that a value is read back
      loss.free();
    }
    return last;
  };
}

/** Most memory that this process ever held, in bytes. */
function peakMemory(): number {
  const status = Deno.readTextFileSync("/proc/self/status");
  return Number(/VmHWM:\s*(\d+) kB/.exec(status)![1]) * 1024;
}

const train = prepare(workloads[Deno.args[0] as Name]);
const answer = (value: unknown) => console.log(JSON.stringify(value));
answer({ ready: true });
const chunk = new Uint8Array(64);
for (let read = Deno.stdin.readSync(chunk); read !== null; read = Deno.stdin.readSync(chunk)) {
  const steps = Number(new TextDecoder().decode(chunk.subarray(0, read)));
  const began = performance.now();
  const loss = train(steps);
  const seconds = (performance.now() - began) / 1000;
  answer({ seconds, loss, peak: peakMemory(), tensors: liveTensors() });
}
