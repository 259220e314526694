// Our side of the step benchmark, bench/peers/step.py is the other. Arguments: a workload's name, and maybe the
// number of virtual shards that its batch is cut into (--deterministic=world), 0 for none; with it, one thread
// computes. A third argument is the file of an exported program, in place of the zoo's model; a fourth one is the value
// of --compile, a fifth one the number of threads.
import { resolveSettings } from "../core/settings/resolve.ts";
import { createLoss } from "../core/models/losses.ts";
import type { Facts, Model } from "../core/models/model.ts";
import { createModel } from "../core/models/registry.ts";
import { packParameters } from "../core/train/arena.ts";
import { isChannelsLast } from "../core/train/build.ts";
import { needsWholeGradient } from "../core/train/clipping.ts";
import { createOptimizer } from "../core/train/optimizers.ts";
import { compiledMode } from "../core/train/compiled_choice.ts";
import { openCompiledPass } from "../core/train/compiled_pass.ts";
import type { CompiledPass, Run } from "../core/train/compiler.ts";
import { compiledUpdate } from "../core/train/compiled_update.ts";
import { openDevice } from "../core/train/device.ts";
import { takeStep } from "../core/train/step.ts";
import { type MicroBatch, sharesOf } from "../core/train/micro_batch.ts";
import { openStep } from "../core/train/user_step.ts";
import { alone, openVirtualShards, shardedGradients } from "../core/train/gradients/virtual_shards.ts";
import { imagesLast } from "../core/train/feed.ts";
import { narrow, randint, randn } from "../ffi/ops.ts";
import { manualSeed } from "../ffi/context.ts";
import { liveTensors } from "../ffi/tensor.ts";
import { answerRounds, processorTime, type Train, trainer } from "./contestant.ts";
import { type CompiledName, compiledWorkloads } from "./compile_models.ts";
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

/** As data/part.ts cuts a global batch. */
function cut({ input, target }: MicroBatch, count: number): MicroBatch[] {
  const first = (shard: number) => Math.floor(shard * input.shape[0] / count);
  return Array.from({ length: count }, (_, shard) => {
    const [from, size] = [first(shard), first(shard + 1) - first(shard)];
    return { input: narrow(input, 0, from, size), target: narrow(target, 0, from, size), shard };
  });
}

function prepare(workload: Workload, count: number, file: string, compile: string, wanted: number): Train {
  const { learningRate, facts } = workload;
  const own = workload.flags.filter((flag, i, all) => flag !== "--model" && all[i - 1] !== "--model");
  const flags = [
    ...(file === "" ? workload.flags : ["--model", file, ...own]),
    ...(count > 0 ? ["--deterministic=world"] : []),
  ];
  const threads = wanted || (count >= 0 ? 1 : workload.threads || navigator.hardwareConcurrency);
  const { config } = resolveSettings({
    argv: [...flags, "--threads", String(threads), "--device", "cpu", `--compile=${compile}`],
    env: {},
  });
  openDevice(config);
  const loss = createLoss(config.training, facts);
  manualSeed(0n);
  const model = "make" in workload
    ? (workload as { make(): Model }).make()
    : createModel(config.model, facts, loss.outputs);
  const mode = compiledMode(config.training, false);
  const direct = !needsWholeGradient(config.training, "off") && mode === null; // as a run decides it
  const arena = packParameters(model.root.namedParameters(), "cpu", direct);
  manualSeed(1n);
  const made = batchFor(workload), last = isChannelsLast(config.training, model, "cpu");
  const whole = last && made.input.shape.length === 4 ? { ...made, input: imagesLast(made.input) } : made;
  const batches = count > 0 ? cut(whole, count) : [whole];
  const buffers = model.root.namedBuffers().map(([, t]) => t);
  const options = {
    pass: { model, loss, cast: null, onGpu: false, seeds: null },
    arena,
    optimizer: mode === "fast"
      ? compiledUpdate(createOptimizer(config.training.optimizer, arena), config.training.optimizer, arena)
      : createOptimizer(config.training.optimizer, arena),
    scaler: null,
    checkpointing: false,
    compiled: mode &&
      start.over(
        openCompiledPass(arena, mode, () => ({ line: console.error, warn: console.error }), null, true),
      ),
    clipNorm: 0,
    observe: null,
  };
  const shares = sharesOf(batches, loss);
  const gradients = count > 0
    ? shardedGradients(
      openVirtualShards({ count, rank: 0, world: 1, combine: alone }, arena, buffers),
      options,
    )
    : undefined;
  const { parts, watch } = openStep(options, gradients);
  const request = { batches, shares, rate: learningRate, wantNorm: false, step: 0, passes: batches.length };
  const step = () => takeStep(parts, watch, request);
  return trainer((number) => {
    request.step = number;
    return start.during(step);
  });
}

/** From the end of the first ordinary pass to the end of the first step that is wholly compiled; waiting does not count. */
class Start {
  /** Seconds; none while there was no such step. */
  seconds: number | undefined;
  #ordinary = 0;
  #began = 0;
  #spent = 0;

  over(compiled: CompiledPass): CompiledPass {
    const counted = (plain: Run): Run => (...args) => {
      const outcome = plain(...args);
      if (this.#ordinary++ === 0) this.#began = performance.now();
      return outcome;
    };
    return { ...compiled, over: (plain, ...rest) => compiled.over(counted(plain), ...rest) };
  }

  during<R>(step: () => R): R {
    if (this.seconds !== undefined) return step();
    const before = this.#ordinary;
    this.#began = performance.now();
    const result = step();
    this.#spent += performance.now() - this.#began;
    if (before > 0 && this.#ordinary === before) this.seconds = this.#spent / 1000;
    return result;
  }
}
const start = new Start();

const [name, shards = "-1", file = "", compile = "off", wanted = "0"] = Deno.args;
const workload = compiledWorkloads[name as CompiledName] ?? workloads[name as Name];
const train = prepare(workload, Number(shards), file, compile, Number(wanted));
answerRounds(train, () => ({
  tensors: liveTensors(),
  cpu: processorTime(),
  ...(start.seconds === undefined ? {} : { compiled: start.seconds }),
}));
