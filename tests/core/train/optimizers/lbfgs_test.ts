// LBFGS in a step and a run: its evaluations, what does not go with it, and its state in files. Bits: optimizers_test.ts.
import { assert, assertAlmostEquals, assertEquals, assertThrows } from "@std/assert";
import { UserError } from "../../../../core/base/errors.ts";
import { openCheckpoint } from "../../../../core/checkpoint/open.ts";
import { adopt } from "../../../../core/checkpoint/adopt.ts";
import { dict, field, type Value } from "../../../../core/checkpoint/value.ts";
import { mlp } from "../../../../core/models/zoo/mlp.ts";
import { refuseOptimizer, remediesOf } from "../../../../core/train/checks.ts";
import { createOptimizer } from "../../../../core/train/optimizers.ts";
import { groupedOptimizer } from "../../../../core/train/parameter_groups.ts";
import type { MicroBatch } from "../../../../core/train/micro_batch.ts";
import { manualSeed } from "../../../../ffi/context.ts";
import { toNumbers } from "../../../../ffi/make.ts";
import { narrow, randn } from "../../../../ffi/ops.ts";
import { keep, liveTensors, type Tensor } from "../../../../ffi/tensor.ts";
import { inFolder } from "../../checkpoint/python.ts";
import { open, rig, rows, run, settings } from "../rig.ts";
import { contents, trained } from "../started.ts";

open();

const LBFGS = ["--optimizer", "lbfgs"], set = (text: string) => ["--set", `training.optimizer.${text}`];
const WOLFE = [...LBFGS, ...set("line_search_fn=strong_wolfe")];

const made = (flags: readonly string[], dropout = 0) => {
  manualSeed(1n);
  const one = rig(mlp({ inputs: 7, hidden: 37, layers: 2, outputs: 1, dropout }), rows, { flags });
  manualSeed(2n);
  return { rig: one, batch: { input: keep(randn([32, 7])), target: keep(randn([32, 1])) } };
};

Deno.test("each evaluation of a step has the same random draws, and only the first is seen", () => {
  const { rig: { model, arena, step }, batch } = made([], 0.5);
  const losses: number[] = [], gradients: number[][] = [];
  let seen = 0;
  const optimizer = {
    ...createOptimizer(settings(...LBFGS).training.optimizer, arena),
    step(
      _lr: number,
      _found: unknown,
      _clip: unknown,
      closure: { loss: number; again(): number } | null = null,
    ) {
      losses.push(closure!.loss);
      const keepGradients = () => gradients.push([...toNumbers(arena.gradient)]);
      keepGradients();
      for (let i = 0; i < 2; i++) {
        losses.push(closure!.again());
        keepGradients();
      }
    },
  };
  const own = { model, arena, step: { ...step, optimizer, observe: () => seen++ } };
  const first = run(own, [batch], { number: 3 }).loss;
  run(own, [batch], { number: 4 });
  assertEquals(losses.slice(0, 3), [first, first, first]);
  assertEquals([gradients[1], gradients[2]], [gradients[0], gradients[0]]);
  assert(losses[3] !== first && losses[4] === losses[3], "another step draws anew");
  assertEquals(seen, 2);
});

Deno.test("micro-batches are evaluated together, with the losses of the whole batch", () => {
  const few = [...WOLFE, ...set("max_iter=4")], whole = made(few), parts = made(few);
  const cut = ({ input, target }: MicroBatch, from: number, count: number) => ({
    input: keep(narrow(input, 0, from, count)),
    target: keep(narrow(target, 0, from, count)),
  });
  const micro = [cut(parts.batch, 0, 20), cut(parts.batch, 20, 12)];
  for (let number = 0; number < 3; number++) {
    const one = run(whole.rig, [whole.batch], { number, lr: 1 }).loss;
    assertAlmostEquals(run(parts.rig, micro, { number, lr: 1 }).loss, one, 1e-3 * one);
  }
});

Deno.test("steps of LBFGS keep the number of tensors, with and without a search", () => {
  for (const flags of [LBFGS, WOLFE]) {
    const { rig, batch } = made([...flags, ...set("history_size=4")]);
    run(rig, [batch], { lr: 0.1 });
    const before = liveTensors();
    for (let number = 1; number < 9; number++) run(rig, [batch], { number, lr: 0.1 });
    assertEquals(liveTensors(), before);
  }
});

Deno.test("LBFGS refuses fp16, changed gradients and groups of parameters, and nobody is told to clip them", () => {
  const refused = (words: string, ...flags: string[]) =>
    assertThrows(() => refuseOptimizer(settings(...LBFGS, ...flags)), UserError, words);
  refused("fp16", "--amp", "fp16");
  for (const flag of ["--clip-norm", "--clip-value", "--clip-adaptive", "--gradient-noise"]) {
    refused(flag, flag, "0.5");
  }
  refuseOptimizer(settings(...LBFGS, "--amp", "bf16", "--grad-accum", "2"));
  assertEquals(
    [LBFGS, []].map((flags) => remediesOf(settings(...flags).training).includes("--clip-norm 1")),
    [false, true],
  );
  const { rig: { arena } } = made([]), group = { factor: 1, begins: 0, clipNorm: 0, optimizer: {} };
  const grouping = { groups: [group, group], of: arena.names.map((_, i) => i % 2) };
  assertThrows(
    () => groupedOptimizer(settings(...LBFGS).training.optimizer, arena, grouping),
    UserError,
    "takes all weights together",
  );
});

Deno.test(
  "runs with LBFGS go on with the same bits, from files of each format",
  inFolder(async (folder) => {
    const flags = [
      ..."--data-type synthetic --model mlp --train-samples 100 --val-samples 20 --batch-size 20 --epochs 2"
        .split(" "),
      ...[...WOLFE, "--lr", "0.7", "--scheduler", "constant", ...set("max_iter=3"), ...set("history_size=5")],
    ];
    const kept = (path: string) => [...contents(path)].filter(([name]) => /state_dict\//.test(name));
    for (const format of ["pt", "safetensors", "sharded"]) {
      const own = [...flags, "--checkpoint-format", format];
      const go = (name: string, more: string[], resume: string | null = null) =>
        trained(`${folder}/${format}-${name}`, [...own, ...more], resume);
      const straight = await go("straight", []), first = await go("first", ["--max-steps", "4"]);
      const last = await go("last", [], first.path);
      assertEquals(kept(last.path), kept(straight.path), format);
      assert(kept(last.path).length > 20, format);
    }
  }),
);

Deno.test(
  "a state of another model, in another order or without its history is refused before anything changes",
  inFolder(async (folder) => {
    const flags = [
      ..."--data-type synthetic --model mlp --epochs 1 --train-samples 40 --max-steps 1".split(" "),
    ];
    const { path } = await trained(`${folder}/run`, [
      ...flags,
      ...LBFGS,
      "--lr",
      "0.1",
      "--scheduler",
      "constant",
    ]);
    using file = openCheckpoint(path);
    const saved = field(file.root, "optimizer_state_dict"), [group] = field(saved, "param_groups") as Value[];
    const entry = field(field(saved, "state") as Value, 0 as never) as Map<string, Value>;
    const weights = field(file.root, "model_state_dict") as Value;
    const names = [...(weights as Map<string, { shape: readonly number[] }>)];
    const { optimizer } = made(LBFGS).rig.step;
    const stateDict = names.map(([name, { shape }]) => [name, { shape } as Tensor] as const);
    const total = names.reduce((sum, [, { shape }]) => sum + shape.reduce((a, b) => a * b, 1), 0);
    const slots = new Map([...optimizer.slots].map(([name, list]) => [
      name,
      name === "ro" ? list : list.map(() => ({ numel: total }) as Tensor),
    ]));
    const parts = { names: names.map(([name]) => name), stateDict, optimizer: { ...optimizer, slots } };
    const tried = (state: Map<string, Value>, params = field(group, "params")) =>
      adopt(
        dict({
          model: weights,
          optimizer: dict({
            state: new Map([[0, state]]) as Value,
            param_groups: [dict({ params: params! })],
          }),
        }),
        "theirs.pt",
        { parts, stepsPerEpoch: 1, samples: 40, force: false },
      );
    assertEquals(tried(entry).notices.length, 2);
    const without = (name: string) => new Map([...entry].filter(([key]) => key !== name));
    for (const name of ["d", "ro", "old_stps", "t", "n_iter"]) {
      assertThrows(() => tried(without(name)), UserError, name);
    }
    const turned = [...(field(group, "params") as number[])].reverse();
    assertThrows(() => tried(entry, turned), UserError);
  }),
);
