// Our side of the loader benchmark reads by the training loop's own feed; loader_worker.ts begins it.
import type { Resolved } from "../core/settings/resolve.ts";
import { loadDataReader, openData } from "../core/data/open/open.ts";
import { order, partsOf } from "../core/data/source/order.ts";
import { createLoss } from "../core/models/losses.ts";
import { loaderThreads, openDeviceBeside } from "../core/train/device.ts";
import { openFeed } from "../core/train/feed.ts";
import type { MicroBatch } from "../core/train/micro_batch.ts";
import { mean, mul, toDtype } from "../ffi/ops.ts";
import { type Device, scope, type Tensor } from "../ffi/tensor.ts";
import { answerRounds, peakMemory } from "./contestant.ts";

type Each = (batch: MicroBatch) => boolean | void;

/** Reads an epoch, giving each batch to `each`, which may say that it is enough; returns the samples read. */
async function open(resolved: Resolved, device: Device): Promise<(each: Each) => number> {
  const { config } = resolved;
  await loadDataReader(config.data);
  const { train } = openData(config.data, config.training, config.model);
  const { seed, batch_size } = config.training;
  const lanes = [{ source: train, rows: batch_size, parts: 1 }];
  const loss = createLoss(config.training, train.facts);
  const { loaders: count } = loaderThreads(resolved, device);
  const threads = { count, prefetch: config.data.prefetch_mib * 2 ** 20, lanes };
  const feed = openFeed({ device, channelsLast: false, loss, threads });
  const supply = feed.of(train);
  const steps = Math.ceil(train.length / batch_size);
  const cut = { global: batch_size, micro: batch_size };
  let epoch = 0;
  return (each) => {
    const samples = order(train.length, seed, epoch, true);
    let asked = 0, seen = 0;
    supply.begin(() => asked < steps ? partsOf(samples, asked++, cut, epoch, false) : null);
    for (let more = true; more;) {
      more = scope(() => {
        const batch = supply.take()?.[0];
        if (!batch) return false;
        seen += batch.input.shape[0];
        return each(batch) !== true;
      });
    }
    epoch++;
    return seen;
  };
}

const say = (value: unknown) => console.log(JSON.stringify(value));

/** The mean and the mean square of what each batch has, summed with the weight of its samples. */
function moments(read: (each: Each) => number): void {
  let about = {};
  const sums = { input: 0, square: 0, target: 0 };
  const samples = read(({ input, target }) => {
    const add = (name: keyof typeof sums, t: Tensor) => sums[name] += mean(t).item() * input.shape[0];
    const x = toDtype(input, "f64");
    add("input", x);
    add("square", mul(x, x));
    add("target", toDtype(target, "f64"));
    about = { shape: input.shape.slice(1), types: [input.dtype, target.dtype] };
  });
  const over = (sum: number) => sum / samples;
  say({
    samples,
    ...about,
    input: over(sums.input),
    square: over(sums.square),
    target: over(sums.target),
  });
}

function rounds(read: (each: Each) => number): Promise<void> {
  return answerRounds((epochs) => {
    let samples = 0;
    for (let i = 0; i < epochs; i++) samples += read(() => {});
    return samples;
  });
}

/** Data is open when the samples can be asked for; what is held in memory has been read by then. */
async function opening({ config }: Resolved): Promise<void> {
  const before = Deno.memoryUsage().rss, began = performance.now();
  await loadDataReader(config.data);
  const { train } = openData(config.data, config.training, config.model);
  const seconds = (performance.now() - began) / 1000;
  say({ seconds, memory: peakMemory() - before, samples: train.length });
}

/** `what`: as bench/peers/loader.py has it. */
export async function readAs(what: string, resolved: Resolved): Promise<void> {
  if (what === "open") {
    await openDeviceBeside(resolved.config, () => Promise.resolve());
    return await opening(resolved);
  }
  const { device } = await openDeviceBeside(resolved.config, () => loadDataReader(resolved.config.data));
  const began = performance.now(); // Python has imported torch, and what reads the file, by now
  const read = await open(resolved, device);
  if (what === "first") {
    read(() => true);
    say({ seconds: (performance.now() - began) / 1000 });
  } else if (what === "rounds") await rounds(read);
  else moments(read);
}
