// The finders with a model whose batch norms can't train on one sample: ResNet-18 of images as small as its downsampling.
import { assert, assertEquals, assertThrows } from "@std/assert";
import { UserError } from "../../../../core/base/errors.ts";
import { memorySource } from "../../../../core/data/source/memory.ts";
import type { Facts } from "../../../../core/models/model.ts";
import { LonelyBatch } from "../../../../core/models/nn/lonely_batch.ts";
import { resnet } from "../../../../core/models/zoo/resnet.ts";
import type { Built } from "../../../../core/train/build.ts";
import { searchBatches } from "../../../../core/train/finders/batch.ts";
import { fitBatch } from "../../../../core/train/finders/fit.ts";
import { stepTimer } from "../../../../core/train/finders/timing.ts";
import type { Launch } from "../../../../core/train/launch.ts";
import { manualSeed } from "../../../../ffi/context.ts";
import { NativeError } from "../../../../ffi/errors.ts";
import { zeros } from "../../../../ffi/make.ts";
import { randn } from "../../../../ffi/ops.ts";
import type { Tensor } from "../../../../ffi/tensor.ts";
import { open, rig, settings } from "../rig.ts";

open();

const FLAGS = ["--shuffle=false"];

function made(count: number, side: number) {
  const facts: Facts = {
    task: "classification",
    input: { shape: [1, side, side], dtype: "f32" },
    outputs: 10,
  };
  manualSeed(1n);
  const model = resnet("resnet18", { channels: 1, outputs: 10 });
  const input = randn([count, ...facts.input.shape]), target = zeros([count], { dtype: "i64" });
  const about = { name: "made", task: facts.task, outputs: facts.outputs, description: "" };
  const train = memorySource({ ...about, input, target });
  const { arena, step: { pass, optimizer } } = rig(model, facts);
  const built = { pass, arena, model, amp: "off", channelsLast: false, data: { train } } as unknown as Built;
  return { built, optimizer };
}

function sizesTried(count: number, side: number): number[] {
  const { built, optimizer } = made(count, side);
  const time = stepTimer(settings(...FLAGS), built, "cpu", { optimizer, scaler: null });
  const found = searchBatches({ samples: count, memory: null }, time, () => {})!;
  assert(found.tried.every(({ rate }) => rate! > 0));
  return found.tried.map(({ size }) => size);
}

Deno.test("find-batch begins at 2 where a batch norm would have one value of one sample, and else at 1", () => {
  assertEquals(sizesTried(5, 16), [2, 4]);
  assertEquals(sizesTried(2, 64), [1, 2]); // their last batch norms have four values of a sample
  assertThrows(() => sizesTried(1, 16), LonelyBatch); // there is no second sample
});

Deno.test("--batch-size auto comes to no size that batch norms refuse, and says that memory ends", () => {
  const { built } = made(8, 16), root = built.model.blocks[0], { forward } = root;
  const most = (rows: number) =>
    Object.assign(root, {
      forward(x: Tensor) {
        if (x.shape[0] > rows) throw new NativeError("convolution", "", "CUDA out of memory");
        return forward.call(root, x);
      },
    });
  const launch = {
    config: settings(...FLAGS, "--batch-size", "auto"),
    ...{ resume: null, team: null, device: "cpu" },
  } as unknown as Launch;
  launch.config.training.batch_size = 8;
  most(3);
  assertEquals(fitBatch(launch, built, 1).config.training.batch_size, 2);
  most(1);
  assertEquals(assertThrows(() => fitBatch(launch, built, 1), UserError).kind, "memory");
});
