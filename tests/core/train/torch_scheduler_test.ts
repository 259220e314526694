// A checkpoint's scheduler_state_dict, loaded by torch's own schedulers.
import { assertAlmostEquals, assertEquals } from "@std/assert";
import { writePt } from "../../../core/checkpoint/pt.ts";
import { type StateParts, toTree } from "../../../core/checkpoint/training_state.ts";
import { mlp } from "../../../core/models/zoo/mlp.ts";
import { learningRate, type Schedule } from "../../../core/train/schedule.ts";
import { torchScheduler } from "../../../core/train/torch_scheduler.ts";
import { peer } from "./peer.ts";
import { open, rig, rows } from "./rig.ts";

open();
const EPOCH = 5; // steps
const base: Schedule = {
  ...{ type: "constant", peak: 0.3, min: 0.01, warmup: 0, total: 40, every: 3 * EPOCH, gamma: 0.5 },
};
const sgdr: Schedule = { ...base, type: "sgdr", restart: { every: 5, factor: 2 } };
const SCHEDULES: Schedule[] = [
  ...(["constant", "linear", "cosine", "step", "onecycle"] as const).flatMap((type): Schedule[] => [
    { ...base, type },
    { ...base, type, warmup: 6 },
    { ...base, type, warmup: 17 }, // a fall of "step" lies within it
  ]),
  ...[sgdr, { ...sgdr, warmup: 6 }],
  { ...base, type: "cosine", warmup: 1 },
];
const STEPS = [0, 3, 5, 6, 10, 13, 17, 18, 25, 32];

Deno.test("torch's scheduler of each kind goes on from a checkpoint with the rates of the run", async () => {
  const folder = Deno.makeTempDirSync();
  try {
    const model = mlp({ inputs: 7, hidden: 8, layers: 1, outputs: 1 });
    const { arena, step: { optimizer } } = rig(model, rows, { flags: ["--optimizer", "sgd"] });
    const factors = [1, 0.1],
      groups = {
        ...{ of: arena.names.map((_, i) => i % 2), factors, steps: [0, 0] },
        options: factors.map(() => optimizer.options),
      };
    const stateDict = model.root.stateDict();
    const cases = SCHEDULES.flatMap((schedule, i) => {
      const ofEpochs = schedule.type === "step" && schedule.warmup === 0;
      return (ofEpochs ? [true, false] : [false]).flatMap((perEpoch) =>
        STEPS.filter((step) => !perEpoch || step % EPOCH === 0).map((step) => {
          const path = `${folder}/${i}-${step}.pt`, epoch = Math.floor(step / EPOCH);
          const parts: StateParts = {
            names: arena.names,
            stateDict,
            // A rate at the end that is not 0 is one number for all of torch's groups.
            optimizer: {
              ...optimizer,
              slots: new Map(),
              groups: schedule.type === "step" ? groups : undefined,
            },
            scaler: null,
            ema: null,
          };
          const about = {
            version: "1",
            run: "r",
            seed: 0,
            config: {},
            learningRate: learningRate(schedule, step),
          };
          const taken = schedule.type === "step" ? factors : [1];
          const scheduler = torchScheduler(schedule, { step, epoch, factors: taken, stepSize: 3 });
          const place = {
            epoch,
            step,
            stepInEpoch: step % EPOCH,
            samples: 0,
            sums: [],
            best: null,
            valLoss: null,
          };
          writePt(path, toTree(parts, place, { ...about, scheduler }));
          const every = perEpoch ? EPOCH : 1, count = Math.ceil((schedule.total - step) / every);
          const asked = { kind: schedule.type, warmup: schedule.warmup > 0, perStep: ofEpochs && !perEpoch };
          return { ...{ schedule, taken, step, every }, ...asked, path, count };
        })
      );
    });
    const theirs = await peer<number[][][]>("scheduler_states.py", cases);
    cases.forEach(({ schedule, taken, step, every }, i) =>
      theirs[i].forEach((rates, j) => {
        const said = `${JSON.stringify(schedule)} from step ${step}, ${j} on`;
        assertEquals(rates.length, taken.length, said);
        const ours = learningRate(schedule, step + j * every);
        rates.forEach((rate, g) => assertAlmostEquals(rate, ours * taken[g], 1e-12, said));
      })
    );
  } finally {
    Deno.removeSync(folder, { recursive: true });
  }
});
