// Batch norm over the samples of all ranks, on one rank: the same as plain batch norm.
import { assert } from "@std/assert";
import { aloneCollectives } from "../../../../core/ranks/collectives.ts";
import { resnet } from "../../../../core/models/zoo/resnet.ts";
import { block, type Model, model } from "../../../../core/models/model.ts";
import { BatchNorm } from "../../../../core/models/nn/norms.ts";
import { Linear } from "../../../../core/models/nn/linear.ts";
import { Group } from "../../../../core/models/nn/module.ts";
import { straight } from "../../../../core/train/blocks.ts";
import { segmented } from "../../../../core/train/gradients/overlapped.ts";
import { openSyncNorms } from "../../../../core/train/gradients/sync_norms.ts";
import { toNumbers, zero_ } from "../../../../ffi/make.ts";
import { clone, flatten, randint, randn } from "../../../../ffi/ops.ts";
import { manualSeed } from "../../../../ffi/context.ts";
import { scope } from "../../../../ffi/tensor.ts";
import { useLibtorch } from "../../../libtorch.ts";
import { rig, settings } from "../rig.ts";

useLibtorch();

/** Its batch norm is over the data itself, which asks for no gradient. */
function normFirst(): Model {
  const norm = new BatchNorm(3), linear = new Linear(3 * 64 * 64, 10);
  return model("norm first", new Group({ norm, linear }), [
    block("norm", norm, (x) => norm.forward(x)),
    block("linear", linear, (x) => linear.forward(flatten(x, 1))),
  ], { layers: "norm, linear" });
}

const MODELS: Record<string, () => Model> = {
  "in a resnet": () => resnet("resnet18", { channels: 3, outputs: 10 }),
  "over the data itself": normFirst,
};

for (const [where, make] of Object.entries(MODELS)) {
  Deno.test(`batch norm over all ranks, ${where}, has the gradient and the statistics of plain batch norm`, () => {
    const facts = {
      task: "classification",
      input: { shape: [3, 64, 64], dtype: "f32" },
      outputs: 10,
    } as const;
    const gradients = (synced: boolean) => {
      manualSeed(1n);
      const { model, arena, step } = rig(make(), facts);
      const norms = synced ? openSyncNorms(settings(), model, aloneCollectives(), "cpu") : null;
      assert(!synced || norms !== null);
      return scope(() => {
        manualSeed(2n);
        const input = randn([12, 3, 64, 64]), target = randint(0, 10, [12]);
        zero_(arena.gradient);
        const outcome = synced
          ? segmented(step.pass, input, target, null, null)
          : straight(step.pass, input, target, null);
        const buffers = model.root.namedBuffers().map(([, t]) => [...toNumbers(t)]);
        return { loss: outcome.loss.item(), gradient: toNumbers(clone(arena.gradient)), buffers };
      });
    };
    const plain = gradients(false), synced = gradients(true);
    const norm = (values: Float64Array) => Math.sqrt(values.reduce((sum, v) => sum + v * v, 0));
    const apart = norm(plain.gradient.map((v, i) => v - synced.gradient[i])) / norm(plain.gradient);
    assert(apart < 1e-5, String(apart));
    assert(Math.abs(plain.loss - synced.loss) < 1e-6 * plain.loss);
    plain.buffers.flat().forEach((v, i) => {
      const other = synced.buffers.flat()[i];
      assert(Math.abs(v - other) <= 1e-5 * Math.max(1, Math.abs(v)), `${i}: ${v} ${other}`);
    });
  });
}
