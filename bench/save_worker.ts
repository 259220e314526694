// Our side of the save benchmark. Arguments: what holds training ("training": nothing, it goes on beside the save;
// "waiting": nothing, and nothing is trained; "synchronous": the save itself) and the folder to save to.
// bench/peers/save.py is the other side.
import { writePt } from "../core/checkpoint/pt.ts";
import {
  type CheckpointFacts,
  type Cursor,
  type StateParts,
  toTree,
} from "../core/checkpoint/training_state.ts";
import { resolveSettings } from "../core/settings/resolve.ts";
import { createLoss } from "../core/models/losses.ts";
import { createModel } from "../core/models/registry.ts";
import { packParameters } from "../core/train/arena.ts";
import { openDevice } from "../core/train/device.ts";
import { latestPath } from "../core/train/run_folder.ts";
import { createOptimizer } from "../core/train/optimizers.ts";
import { openSaver } from "../core/train/save.ts";
import { openCourse } from "../core/train/schedules/course.ts";
import { torchState } from "../core/train/torch_scheduler.ts";
import { trainStep } from "../core/train/user_step.ts";
import { randn } from "../ffi/ops.ts";
import { scope } from "../ffi/tensor.ts";
import { answerRounds, processorTime } from "./contestant.ts";
import { SAVE_SIZES, type Saved } from "./workloads.ts";

const [how, folder] = Deno.args;
const { hidden, layers, features, batch } = SAVE_SIZES;
const flags = [
  "--scheduler",
  "constant",
  "--model",
  "mlp",
  "--hidden-size",
  `${hidden}`,
  "--layers",
  `${layers}`,
  "--device",
  "cpu",
];
const { config } = resolveSettings({ argv: flags, env: {} });
openDevice(config);
const facts = { task: "regression", input: { shape: [features], dtype: "f32" }, outputs: 1 } as const;
const loss = createLoss(config.training, facts);
const model = createModel(config.model, facts, loss.outputs);
const arena = packParameters(model.root.namedParameters(), "cpu", true);
const optimizer = createOptimizer(config.training.optimizer, arena);
const step = {
  pass: { model, loss, cast: null, onGpu: false, seeds: null },
  ...{ arena, optimizer, scaler: null, checkpointing: false, clipNorm: 0, observe: null },
  hold: () => saver?.hold(),
};
const input = randn([batch, features]), target = randn([batch, 1]);
const cursor: Cursor = { epoch: 0, step: 0, stepInEpoch: 0, samples: 0, sums: [], best: null, valLoss: null };
const parts: StateParts = {
  names: arena.names,
  stateDict: model.root.stateDict(),
  ...{ optimizer, scaler: null, ema: null },
};
const paths = { run: how, logs: folder, checkpoints: folder, ending: "pt", older: [] };
const plan = { micro: batch, accumulation: 1, global: batch, stepsPerEpoch: 1, note: "" };
const schedule = openCourse(config, 1e-3, plan, facts);

let last = NaN;
function train(): void {
  scope(() =>
    last = trainStep(step, [{ input, target }], [1], 1e-3, false, cursor.step).loss
      .item()
  );
  cursor.step++;
}

let saved: Omit<Saved, "cpu"> = { seconds: NaN, stall: NaN, bytes: NaN };
const quiet = () => {};
const saver = how === "synchronous" ? null : openSaver({
  ...{ config, paths, parts, cursor, schedule, facts: {}, wandb: null, warn: console.error },
  console: {
    line: quiet,
    epoch: quiet,
    final: quiet,
    warn: console.error,
    progress: quiet,
    event: quiet,
    close: quiet,
  },
  events: {
    emit(event) {
      if (event.kind === "save") {
        saved = { seconds: event.seconds, stall: event.stall_s!, bytes: event.bytes };
      }
    },
    note: quiet,
    flush: quiet,
    rewind: quiet,
    lost: 0,
    close: quiet,
  },
});

function saveHere(): void {
  const began = performance.now();
  const scheduler = torchState(schedule, cursor, { factors: [1], stepSize: 1, usesBeta: true });
  const about: CheckpointFacts = { version: "", run: how, seed: 0, learningRate: 1e-3, scheduler, config };
  const bytes = writePt(latestPath(paths), toTree(parts, cursor, about), { verify: true });
  const seconds = (performance.now() - began) / 1000;
  saved = { seconds, stall: seconds, bytes };
}

train(); // the optimizer has a state now
await answerRounds(async () => {
  if (saver === null) {
    saveHere();
    return last;
  }
  await saver.save("request", false);
  let done = false;
  const end = saver.settle().then(() => done = true);
  while (how === "training" && !done) {
    train();
    await new Promise((resolve) => setTimeout(resolve)); // the writer's answer comes between two steps
  }
  await end;
  return last;
}, () => ({ ...saved, cpu: processorTime() }));
await saver?.close();
