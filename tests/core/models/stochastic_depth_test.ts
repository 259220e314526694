// Stochastic depth against torchvision's, and in models: keyed like dropout, absent in evaluation.
import { isThere, testOf } from "./there.ts";
import { assert, assertEquals, assertNotEquals, assertThrows } from "@std/assert";
import { UserError } from "../../../core/base/errors.ts";
import { createModel } from "../../../core/models/registry.ts";
import type { Facts } from "../../../core/models/model.ts";
import { depthAt, StochasticDepth } from "../../../core/models/nn/stochastic_depth.ts";
import { backward, gradOf, requireGrad } from "../../../ffi/autograd.ts";
import { manualSeed } from "../../../ffi/context.ts";
import { toNumbers } from "../../../ffi/make.ts";
import { mul, randn, sum } from "../../../ffi/ops.ts";
import { askPeer } from "../../peer.ts";
import { inFolder, python } from "../checkpoint/python.ts";
import { settings } from "../train/rig.ts";
import { contents, eventsIn, started, trained } from "../train/started.ts";
import { open } from "./native.ts";

open();

const CASES = [{ shape: [64, 3, 2, 2], p: 0.3 }, { shape: [50, 7, 4], p: 0.9 }, { shape: [20, 5], p: 0.5 }];

Deno.test("a branch is left out of torchvision's samples, with its bits and its gradients", async () => {
  const theirs = await askPeer<{ output: number[]; gradient: number[] }[]>(
    "models/stochastic_depth.py",
    CASES,
  );
  CASES.forEach(({ shape, p }, i) => {
    manualSeed(1n);
    const x = requireGrad(randn(shape)), depth = new StochasticDepth(p);
    manualSeed(2n);
    const y = depth.forward(x);
    backward(sum(mul(y, y)));
    assertEquals([...toNumbers(y)], theirs[i].output);
    assertEquals([...toNumbers(gradOf(x)!)], theirs[i].gradient);
    depth.train(false);
    assert(depth.forward(x) === x);
  });
});

Deno.test("the share grows evenly from the first block to the last", () => {
  assertEquals([0, 1, 2, 3].map((block) => depthAt(0.3, block, 4).toFixed(2)), [
    "0.00",
    "0.10",
    "0.20",
    "0.30",
  ]);
  assertEquals(depthAt(0.3, 0, 1), 0.3);
});

Deno.test("models have it where they are residual, and others refuse it in a sentence", () => {
  const images: Facts = { task: "classification", input: { shape: [3, 32, 32], dtype: "f32" }, outputs: 4 };
  const shares = (...flags: string[]) =>
    createModel(settings("--stochastic-depth", "0.3", ...flags).model, images).root.modules()
      .flatMap((m) => m instanceof StochasticDepth ? [m.p.toFixed(2)] : []);
  if (isThere("resnet18")) {
    assertEquals(shares("--model", "resnet18").length, 8);
    assertEquals(shares("--model", "resnet18").at(-1), "0.30");
  }
  const vit = () =>
    assertEquals(shares("--model", "vit", "--layers", "4", "--set", "model.patch_size=8"), [
      "0.00",
      "0.10",
      "0.20",
      "0.30",
    ]);
  if (isThere("vit")) vit();
  assertThrows(
    () => shares("--model", "simple-convnet"),
    UserError,
    "simple-convnet has none that are known",
  );
});

testOf(
  "vit",
  "a run draws the same after stops and with blocks computed twice, and evaluates the whole model",
  inFolder(async (folder) => {
    python(
      `
import sys, numpy as np
r = np.random.default_rng(0)
np.savez(sys.argv[1] + "/i.npz", x=r.standard_normal((64, 3, 8, 8)).astype("f4"), y=r.integers(0, 3, 64))
`,
      folder,
    );
    const flags =
      `--data-path ${folder}/i.npz --model vit --layers 2 --set model.patch_size=4 --batch-size 16 --epochs 2 --lr 0.01 --scheduler constant`
        .split(" ");
    const go = (name: string, more: string[], resume: string | null = null) =>
      trained(`${folder}/${name}`, [...flags, ...more], resume);
    const weights = (path: string) =>
      [...contents(path)].filter(([name]) => name.startsWith("/model_state_dict/"));
    const depth = ["--stochastic-depth", "0.5"], straight = await go("straight", depth);
    const first = await go("first", [...depth, "--max-steps", "3"]),
      last = await go("last", depth, first.path);
    assertEquals(weights(last.path), weights(straight.path));
    assertEquals(
      weights((await go("twice", [...depth, "--gradient-checkpointing"])).path),
      weights(straight.path),
    );
    assertNotEquals(weights((await go("plain", [])).path), weights(straight.path));
    // Without training, an evaluation is the plain model's.
    const val = async (name: string, more: string[]) =>
      await started(`${folder}/${name}`, [...flags, ...more, "--lr", "0", "--epochs", "1"], async (run) => {
        const { trainLoop } = await import("../../../core/train/loop.ts");
        await trainLoop(run);
        return (await eventsIn(run)).find(({ kind }) => kind === "eval")!.val_loss;
      });
    assertEquals(await val("still", depth), await val("still-plain", []));
  }),
);
