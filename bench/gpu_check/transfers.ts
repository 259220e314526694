// Checks of what goes between the device and the rest: images from the loader to the GPU, weights from it to a file.
import { join } from "paths";
import { resolveSettings } from "../../core/settings/resolve.ts";
import { order, partsOf } from "../../core/data/source/order.ts";
import { planBatches } from "../../core/train/batches.ts";
import { build } from "../../core/train/build.ts";
import { lanesOf, openFeed } from "../../core/train/feed.ts";
import { finished } from "../../core/train/micro_batch.ts";
import { synchroniseCuda } from "../../ffi/cuda.ts";
import { scope } from "../../ffi/tensor.ts";
import { type Check, type Context, settings } from "./check.ts";
import { failed, fromEvents } from "./runs.ts";

/** Files of MNIST's form, with images of another size. */
function writeImages(folder: string, count: number, side: number): void {
  const file = (name: string, magic: number, dims: number[], bytes: Uint8Array) => {
    const head = new DataView(new ArrayBuffer(4 + 4 * dims.length));
    [magic, ...dims].forEach((word, i) => head.setUint32(4 * i, word));
    const whole = new Uint8Array(head.byteLength + bytes.length);
    whole.set(new Uint8Array(head.buffer));
    whole.set(bytes, head.byteLength);
    Deno.writeFileSync(join(folder, name), whole);
  };
  const pixels = new Uint8Array(count * side * side);
  for (let i = 0; i < pixels.length; i++) pixels[i] = (i * 2654435761) >>> 24;
  file("train-images-idx3-ubyte", 0x803, [count, side, side], pixels);
  file("train-labels-idx1-ubyte", 0x801, [count], new Uint8Array(count).map((_, i) => i % 10));
}

const toDevice: Check = {
  name: "images from memory, normalised, to the device",
  alone: true,
  run(c) {
    const [count, side, batch, steps] = c.quick ? [64, 16, 8, 10] : [4096, 224, 256, 120];
    const folder = join(c.folder, "images");
    Deno.mkdirSync(folder);
    writeImages(folder, count, side);
    const argv = ["--model", "resnet18", "--data-type", "mnist", "--data-path", folder, "--val-samples", "0"];
    const { config } = resolveSettings({
      argv: [...argv, "--batch-size", String(batch), "--train-samples", String(count), "--amp", "off"],
      env: {},
    });
    const built = build(config, c.device), { train } = built.data;
    const plan = planBatches(config.training, train.length, 1);
    const threads = {
      count: c.quick ? 1 : Math.max(1, navigator.hardwareConcurrency - 1),
      prefetch: config.data.prefetch_mib * 2 ** 20,
      lanes: lanesOf(built, config, plan, 1),
    };
    const { channelsLast, pass: { loss } } = built;
    const feed = openFeed({ device: c.device, channelsLast, loss, threads });
    const supply = feed.of(train), perEpoch = Math.floor(count / batch);
    let asked = 0, bytes = 0;
    supply.begin(() => {
      const epoch = Math.floor(asked / perEpoch), step = asked++ % perEpoch;
      return partsOf(order(count, 0, epoch, true), step, { global: batch, micro: batch }, epoch, false);
    });
    const take = (times: number) => {
      const began = performance.now();
      for (let i = 0; i < times; i++) {
        scope(() => {
          const [{ input }] = supply.take()!.map(finished);
          bytes = 4 * input.shape.reduce((a, b) => a * b, 1);
        });
        supply.queued();
        supply.ahead();
      }
      synchroniseCuda();
      return (performance.now() - began) / 1000;
    };
    take(5);
    const seconds = take(steps);
    feed.close();
    const images = steps * batch / seconds, rate = steps * bytes / seconds;
    return {
      ok: bytes === 4 * batch * side * side,
      figure: `${images.toFixed(0)} images/s of ${side} x ${side}, ${
        (rate / 1e9).toFixed(2)
      } GB/s, batches of ${batch}`,
      detail: { images, rate, batch, side },
    };
  },
};

const saves: Check = {
  name: "saves beside training",
  alone: true,
  async run(c: Context) {
    const [layers, embed, context, steps] = c.quick ? [1, 64, 32, 6] : [12, 768, 1024, 60];
    const size = {
      "model.layers": layers,
      "model.embed": embed,
      "model.heads": embed / 64,
      "model.context": context,
    };
    const flags = ["--model", "gpt", "--batch-size", c.quick ? "2" : "8", "--max-steps", String(steps)];
    const samples = ["--train-samples", "512", "--val-samples", "0", "--run-name", "gpt", "--no-wandb"];
    const more = settings({
      ...size,
      "training.save_interval": `${steps / 3}steps`,
      "training.log_interval": 1,
    });
    const device = c.device === "cpu" ? "cpu" : "cuda";
    const ended = await c.program.once("saves", [...flags, ...samples, ...more, "--device", device]);
    if (ended.code !== 0) return failed(ended);
    const of = (field: string) => fromEvents(c.program, "saves", "gpt", "save", field);
    const [bytes, seconds, held] = [of("bytes"), of("seconds"), of("stall_s")];
    const most = (values: readonly number[]) => Math.max(...values);
    return {
      // A save that is due while one is under way is left to the next.
      ok: held.length >= (c.quick ? 1 : 2),
      figure: `${held.length} of ${(most(bytes) / 1e6).toFixed(0)} MB: training was held for ${
        (1e3 * most(held)).toFixed(0)
      } ms at most, in place after ${most(seconds).toFixed(2)} s`,
      detail: { bytes, seconds, held },
    };
  },
};

export const transfers: readonly Check[] = [toDevice, saves];
