// What a checkpoint holds of a run, and what happens when it does not fit.
import { assert, assertEquals, assertNotEquals, assertThrows } from "@std/assert";
import { readPt, writePt } from "../../../core/checkpoint/pt.ts";
import {
  type Cursor,
  loadTraining,
  loadWeights,
  type StateParts,
  toTree,
} from "../../../core/checkpoint/training_state.ts";
import { dict, memoryStorage, OrderedDict, TensorData, type Value } from "../../../core/checkpoint/value.ts";
import { UserError } from "../../../core/base/errors.ts";
import { mlp } from "../../../core/models/zoo/mlp.ts";
import { createEma } from "../../../core/train/weight_average.ts";
import { LossScaler } from "../../../core/train/precision.ts";
import { toNumbers } from "../../../ffi/make.ts";
import { randn } from "../../../ffi/ops.ts";
import { manualSeed } from "../../../ffi/context.ts";
import type { Tensor } from "../../../ffi/tensor.ts";
import { print } from "../models/native.ts";
import { open, rig, rows, run } from "../train/rig.ts";
import { inFolder, python } from "./python.ts";
import { assertSentence, sentenceNamed } from "../../sentences.ts";

open();

const CURSOR: Cursor = {
  epoch: 2,
  step: 23,
  stepInEpoch: 3,
  samples: 184,
  sums: [0.1 + 0.2, 24, 1e-300, 7],
  best: { epoch: 1, valLoss: 1 / 3 },
  valLoss: 0.7,
  refused: [["fast: f32 8x7, f32 8x1"], []],
};
const FACTS = {
  version: "1",
  run: "mine",
  seed: 5,
  learningRate: 1e-3,
  scheduler: { state: {}, group: {} },
  config: { a: 1 },
};

interface Options {
  flags?: string;
  hidden?: number;
  ema?: boolean;
  scaler?: boolean;
  seed?: bigint;
}

/** A small run after three steps. */
function made(
  { flags = "--optimizer adamw", hidden = 8, ema = false, scaler = false, seed = 1n }: Options = {},
) {
  manualSeed(seed);
  const model = mlp({ inputs: 7, hidden, layers: 1, outputs: 1 });
  const built = rig(model, rows, { flags: flags.split(" ") });
  const averages = ema ? createEma(built.arena, 0.9) : null;
  const batch = { input: randn([4, 7]), target: randn([4, 1]) };
  for (let i = 0; i < 3; i++) {
    run(built, [batch]);
    averages?.update();
  }
  const { arena, step: { optimizer } } = built;
  const settings = { init: 1024, growthInterval: 10, min: 1, maxSkipped: 5 };
  const parts: StateParts = {
    names: arena.names,
    stateDict: model.root.stateDict(),
    optimizer,
    scaler: scaler ? new LossScaler(settings, "cpu") : null,
    ema: averages && arena.viewsOf(averages.average).map((t, i): [string, Tensor] => [arena.names[i], t]),
  };
  return parts;
}

/** Everything that loading may change. */
async function state({ stateDict, optimizer, scaler, ema }: StateParts) {
  const tensors = [...stateDict, ...(ema ?? [])].map(([, t]) => t).concat(
    [...optimizer.slots.values()].flat(),
  );
  const { scale, goodSteps, skipped } = scaler ?? {};
  return {
    tensors: await Promise.all(tensors.map(print)),
    steps: optimizer.steps,
    scale,
    goodSteps,
    skipped,
  };
}

function load(parts: StateParts, path: string) {
  using file = readPt(path);
  return loadTraining(parts, file.root, path);
}

async function refused(parts: StateParts, path: string): Promise<string> {
  const before = await state(parts);
  const error = assertThrows(() => load(parts, path), UserError);
  assertEquals(error.kind, "checkpoint");
  assertEquals(await state(parts), before, "refused, but changed");
  return error.message;
}

const saved = (folder: string, parts: StateParts): string => {
  writePt(`${folder}/run.pt`, toTree(parts, CURSOR, FACTS));
  return `${folder}/run.pt`;
};

for (
  const flags of ["--optimizer adamw", "--optimizer sgd", "--optimizer sgd --momentum 0", "--optimizer lamb"]
) {
  Deno.test(
    `${flags}: another run takes everything back to the last bit, averages and cursor too`,
    inFolder(async (folder) => {
      const parts = made({ flags, ema: true, scaler: true });
      Object.assign(parts.scaler!, { scale: 64, goodSteps: 3, skipped: 2 });
      const path = saved(folder, parts);
      const other = made({ flags, ema: true, scaler: true, seed: 2n });
      assertNotEquals(await state(other), await state(parts));
      assertEquals(load(other, path).cursor, CURSOR);
      assertEquals(await state(other), await state(parts));
    }),
  );
}

Deno.test(
  "averages begin with the weights of a checkpoint that has none",
  inFolder((folder) => {
    const path = saved(folder, made());
    const other = made({ ema: true, seed: 2n });
    load(other, path);
    other.ema!.forEach(([name, t], i) => {
      assertEquals(toNumbers(t), toNumbers(other.stateDict[i][1]), name);
    });
  }),
);

Deno.test(
  "a checkpoint of another optimizer is refused with the flag that fits",
  inFolder(async (folder) => {
    const path = saved(folder, made({ flags: "--optimizer sgd" }));
    const said = await refused(made({ seed: 2n }), path);
    assert(said.includes("--optimizer sgd") && said.includes(`--init-from ${path}`), said);
  }),
);

Deno.test(
  "a checkpoint of another model is refused, with every tensor that does not fit in one list",
  inFolder(async (folder) => {
    const said = await refused(
      made({ seed: 2n, ema: true, scaler: true }),
      saved(folder, made({ hidden: 5 })),
    );
    for (
      const line of [
        sentenceNamed("core/checkpoint/training_state: weight file model"),
        "0.bias is [5]",
        "2.weight is [1, 5]",
      ]
    ) {
      assert(said.includes(line), said);
    }
  }),
);

Deno.test(
  "weights without a training state are refused with --init-from",
  inFolder(async (folder) => {
    const parts = made();
    const tree = toTree(parts, CURSOR, FACTS) as Map<string, Value>;
    writePt(`${folder}/weights.pt`, tree.get("model_state_dict")!);
    const said = await refused(made({ seed: 2n }), `${folder}/weights.pt`);
    assert(said.includes(`no training state`) && said.includes(`--init-from ${folder}/weights.pt`), said);
  }),
);

Deno.test(
  "a checkpoint whose optimizer state or averages were taken out or cut is refused",
  inFolder(async (folder) => {
    const tree = () => toTree(made({ ema: true }), CURSOR, FACTS) as Map<string, Value>;
    const write = (root: Value) => (writePt(`${folder}/damaged.pt`, root), `${folder}/damaged.pt`);
    const without = tree();
    without.delete("optimizer_state_dict");
    const said = await refused(made({ seed: 2n }), write(without));
    assert(said.includes("has no optimizer state"), said);

    const short = tree();
    const state = (short.get("optimizer_state_dict") as Map<string, Value>).get("state") as Map<
      number,
      Value
    >;
    (state.get(2) as Map<string, Value>).delete("exp_avg_sq");
    const missing = await refused(made({ seed: 2n }), write(short));
    assertSentence("core/checkpoint/training_state: exp_avg_sq weight should", missing);

    const other = tree();
    const own = other.get("hpctrain") as Map<string, Value>;
    const averages = (toTree(made({ ema: true, hidden: 5 }), CURSOR, FACTS) as Map<string, Value>)
      .get("hpctrain") as Map<string, Value>;
    own.set("ema_state_dict", averages.get("ema_state_dict")!);
    const reshaped = await refused(made({ seed: 2n, ema: true }), write(other));
    assert(reshaped.includes("0.weight is [5, 7] in the file"), reshaped);
  }),
);

Deno.test(
  "torch.load(weights_only=True) finds the keys that scripts rely on",
  inFolder((folder) => {
    const path = saved(folder, made({ ema: true }));
    const keys = python("import torch, sys; print(*torch.load(sys.argv[1], weights_only=True))", path).trim();
    assertEquals(keys.split(" "), [
      "epoch",
      "model_state_dict",
      "optimizer_state_dict",
      "scheduler_state_dict",
      "scaler_state_dict",
      "val_loss",
      "config",
      "hpctrain",
    ]);
  }),
);

Deno.test("a checkpoint of another architecture is loaded, and a line says that the bits will differ", () => {
  const tree = toTree(made(), CURSOR, FACTS) as Map<string, Value>;
  const own = tree.get("hpctrain") as Map<string, Value>;
  assertEquals(loadTraining(made(), tree, "x.pt").notices, []);
  const other = Deno.build.arch === "x86_64" ? "aarch64" : "x86_64";
  own.set("architecture", other);
  assertEquals(loadTraining(made(), tree, "x.pt").notices, [
    sentenceNamed("core/checkpoint/training_state: checkpoint run machine", { other, arch: Deno.build.arch }),
  ]);
  own.delete("architecture"); // an older version wrote none
  assertEquals(loadTraining(made(), tree, "x.pt").notices, []);
});

Deno.test("a tree of nothing but numbers is no checkpoint of a run", () => {
  const error = assertThrows(() => loadTraining(made(), dict({ epoch: 1 }), "x.pt"), UserError);
  assertEquals(error.kind, "checkpoint");
});

Deno.test(
  "a damaged place in the run is refused by the name of what is wrong",
  inFolder(async (folder) => {
    const parts = made();
    const path = `${folder}/odd.pt`;
    const damages: [string, unknown][] = [
      ["step", "many"],
      ["step", -3],
      ["step", 1.5],
      ["epoch", null],
      ["stepInEpoch", {}],
      ["sums", [1, "x"]],
      ["best", { epoch: 1, valLoss: "low" }],
      ["valLoss", []],
      ["refused", ["fast"]],
      ["refused", [[1]]],
    ];
    for (const [name, value] of damages) {
      writePt(path, toTree(parts, { ...CURSOR, [name]: value } as Cursor, FACTS));
      const said = await refused(made({ seed: 2n }), path);
      const wrong = name === "best" ? "valLoss" : name;
      assert(said.includes(`its training state is damaged: ${wrong} is not`), `${name}: ${said}`);
    }
  }),
);

Deno.test(
  "weights of another element type are converted into parameters that gradients are wanted for",
  inFolder((folder) => {
    const path = `${folder}/f64.pt`;
    const { stateDict } = made();
    const values = stateDict.map(([name, t]) => [name, toNumbers(t)] as const);
    writePt(
      path,
      new OrderedDict(
        stateDict.map(([name, t], i) => {
          const bytes = new Uint8Array(Float64Array.from(values[i][1]).buffer);
          return [name, new TensorData("f64", [...t.shape], memoryStorage(bytes))];
        }),
      ),
    );
    const other = made({ seed: 2n });
    using file = readPt(path);
    loadWeights(other.stateDict, file.root, path);
    other.stateDict.forEach(([name, t], i) => assertEquals(toNumbers(t), values[i][1], name));
  }),
);
