import { assertEquals } from "@std/assert";
import { loadAllReaders } from "../../../core/data/open/readers.ts";
import { build } from "../../../core/train/build.ts";
import { imagesLast } from "../../../core/train/feed.ts";
import { toNumbers } from "../../../ffi/make.ts";
import { conv2d, maxPool2d, randn } from "../../../ffi/ops.ts";
import { scope } from "../../../ffi/tensor.ts";
import { open, settings } from "./rig.ts";

await loadAllReaders();
open();

for (const channels of [1, 3]) {
  Deno.test(`images of ${channels} channels are the same numbers channels last, and convolutions keep them so`, () =>
    scope(() => {
      const images = randn([2, channels, 8, 6]), last = imagesLast(images);
      assertEquals([...toNumbers(last)], [...toNumbers(images)]);
      assertEquals(last.strides, [48 * channels, 1, 6 * channels, channels]);
      const maps = maxPool2d(conv2d(last, randn([5, channels, 3, 3])), [2, 2]);
      assertEquals([maps.shape, maps.strides], [[2, 5, 3, 2], [30, 1, 10, 5]]);
    }));
}

Deno.test("on a CPU the models that are faster so have their images channels last, unless it is switched off", () => {
  const lies = (...argv: string[]) => {
    const given = ["--data-type=synthetic", "--train-samples=4", "--val-samples=0", "--quiet", ...argv];
    const { model, channelsLast } = scope(() => build(settings(...given), "cpu"));
    model.root.free();
    return channelsLast;
  };
  for (const model of ["simple-convnet", "cosmo-cnn", "unet"]) {
    assertEquals([model, lies(`--model=${model}`)], [model, true]);
    assertEquals([model, lies(`--model=${model}`, "--no-channels-last")], [model, false]);
  }
  for (const model of ["mlp", "resnet18"]) assertEquals([model, lies(`--model=${model}`)], [model, false]);
  assertEquals(lies("--model=resnet18", "--channels-last=on"), true);
});
