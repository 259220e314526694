// For a model on the CPU the threads make the floats: the same bits as where the batch is finished by libtorch.
import { assert, assertEquals } from "@std/assert";
import { createHash } from "node:crypto";
import type { Config } from "../../../../core/settings/settings.ts";
import { order, partsOf } from "../../../../core/data/source/order.ts";
import { loadReader } from "../../../../core/data/source/reader.ts";
import { type Batch, batchOf, type Source, threadedSource } from "../../../../core/data/source/source.ts";
import { transformed } from "../../../../core/data/transforms/apply.ts";
import { createLoss } from "../../../../core/models/losses.ts";
import { openFeed } from "../../../../core/train/feed.ts";
import { constant, readBytes } from "../../../../ffi/make.ts";
import { div, toDtype } from "../../../../ffi/ops.ts";
import { liveTensors, scope, type Tensor } from "../../../../ffi/tensor.ts";
import { useLibtorch } from "../../../libtorch.ts";
import { settings } from "../tables/help.ts";
import { madeImages, SHAPE } from "../source/made_images.ts";

useLibtorch();
await loadReader(madeImages);

const LENGTH = 50;
const images = (bytewise: boolean): Source =>
  threadedSource({
    name: "made",
    length: LENGTH,
    indices: null,
    reader: madeImages,
    stored: { name: "images", shape: SHAPE, dtype: "u8" },
    target: { name: "labels", shape: [], dtype: "i64" },
    bad: "fail",
    task: "classification",
    outputs: 10,
    description: "made",
    bytewise,
    finish: ({ input, target }) => ({ input: div(toDtype(input, "f32"), constant(255)), target }),
  });

const WAYS: [name: string, data: Partial<Config["data"]>][] = [
  ["as they are", {}],
  ["normalised", { normalise: "imagenet" }],
  ["cropped, flipped and normalised", { normalise: "imagenet", random_crop: 8, flip: "horizontal" }],
  ["normalised and mixed", { mean: ["0.1", "0.5", "0.9"], std: ["0.3", "1", "0.07"], mixup: 0.4 }],
];

const hash = (t: Tensor) => createHash("sha256").update(readBytes(t)).digest("hex");
const bits = (
  { input, target }: Batch,
) => [hash(input), hash(target), input.shape, input.dtype, target.dtype];

for (const [name, data] of WAYS) {
  for (const count of [0, 2]) {
    Deno.test(`images ${name}: ${count} threads make the floats that libtorch makes, bit for bit`, () => {
      const config = settings({ data });
      const { train: source } = transformed({ train: images(true), val: null }, {
        data: config.data,
        seed: 3,
      });
      assertEquals(source.host?.threaded?.input.dtype, "f32");
      const loss = createLoss(config.training, source.facts);
      const lanes = [{ source, rows: 18, parts: 1 }];
      const feed = openFeed({
        device: "cpu",
        channelsLast: false,
        loss,
        threads: { count, prefetch: 1e6, lanes },
      });
      const before = liveTensors();
      try {
        const supply = feed.of(source);
        const samples = order(LENGTH, 1, 4, true), mixing = config.data.mixup > 0;
        const parts = (step: number) => partsOf(samples, step, { global: 16, micro: 16 }, 4, mixing);
        let asked = 0;
        supply.begin(() => asked < 4 ? parts(asked++) : null);
        for (let step = 0; step < 4; step++) {
          scope(() => assertEquals(bits(supply.take()![0]), bits(batchOf(source, parts(step)[0]))));
        }
        assertEquals(liveTensors(), before);
      } finally {
        feed.close();
      }
    });
  }
}

Deno.test("what is no table of bytes is left to libtorch", () => {
  const made = (data: Partial<Config["data"]>, bytewise: boolean) =>
    transformed({ train: images(bytewise), val: null }, { data: settings({ data }).data, seed: 3 }).train
      .host;
  assert(made({}, true));
  assertEquals([made({ scaling: "log" }, true), made({}, false)], [undefined, undefined]);
});
