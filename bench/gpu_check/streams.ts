// Checks of what runs beside what: events, copies under computation, late reading, the feed, memory.
import { resolveSettings } from "../../core/settings/resolve.ts";
import { batchOf, plainPart } from "../../core/data/source/source.ts";
import { build } from "../../core/train/build.ts";
import { memoryInUse } from "../../core/train/device.ts";
import { evaluate } from "../../core/train/evaluate.ts";
import { openFeed } from "../../core/train/feed.ts";
import { finished } from "../../core/train/micro_batch.ts";
import { startReadback } from "../../ffi/readback.ts";
import * as cuda from "../../ffi/cuda.ts";
import { ones, readBytes, uninitialised, zeros } from "../../ffi/make.ts";
import { clone, copy_, mm } from "../../ffi/ops.ts";
import { type Device, keep, liveTensors, scope } from "../../ffi/tensor.ts";
import { type Check, judged, SMALL } from "./check.ts";

/** Milliseconds of what `queue` puts on the computing stream, by two events. */
function timed(queue: () => void): number {
  const [from, to] = [cuda.newEvent(true), cuda.newEvent(true)];
  cuda.synchroniseCuda();
  cuda.recordEvent(from, cuda.currentStream());
  scope(queue);
  cuda.recordEvent(to, cuda.currentStream());
  cuda.synchroniseEvent(to);
  const ms = cuda.elapsedMs(from, to);
  [from, to].forEach(cuda.destroyEvent);
  return ms;
}

/** Something to be busy with: `times` products of square matrices. */
function compute(device: Device, size: number, times: number): () => void {
  const a = ones([size, size], { device });
  return () => {
    for (let i = 0; i < times; i++) scope(() => mm(a, a));
  };
}

const TOY = 32;

const events: Check = {
  name: "events time work",
  gpuOnly: true,
  run: (c) =>
    scope(() => {
      const { device } = c, size = c.quick ? TOY : 4096;
      timed(compute(device, size, 5)); // cuBLAS makes itself at home
      const [few, many] = [10, 40].map((times) => timed(compute(device, size, times)));
      const figure = `${few.toFixed(2)} ms for 10 products, ${many.toFixed(2)} ms for 40`;
      return { ok: judged(c, many > 3 * few && many < 5 * few), figure };
    }),
};

const overlap: Check = {
  name: "a pinned copy runs under a matrix product",
  gpuOnly: true,
  run: (c) =>
    scope(() => {
      const { device } = c, length = 1 << (c.quick ? 10 : 27);
      const host = uninitialised([length], { dtype: "f32", pinned: true });
      const there = uninitialised([length], { dtype: "f32", device });
      const side = cuda.poolStream();
      const products = compute(device, c.quick ? TOY : 8192, 12);
      const copied = cuda.newEvent(), begun = cuda.newEvent();
      const copy = () => {
        cuda.recordEvent(begun, cuda.currentStream());
        cuda.waitForEvent(side, begun);
        cuda.onStream(side, () => copy_(there, host, true));
        cuda.recordEvent(copied, side);
      };
      const join = () => cuda.waitForEvent(cuda.currentStream(), copied);
      const one = () => (copy(), join());
      const both = () => (copy(), products(), join());
      [one, products, both].forEach(timed);
      const [alone, work, together] = [one, products, both].map(timed);
      const hidden = (alone + work - together) / Math.min(alone, work);
      const [a, w, t] = [alone, work, together].map((ms) => ms.toFixed(1));
      const figure = `${(100 * hidden).toFixed(0)}% hidden: copy ${a} ms, products ${w} ms, both ${t} ms`;
      return { ok: judged(c, hidden > 0.5), figure };
    }),
};

const late: Check = {
  name: "a value is read without waiting for what was queued behind it",
  gpuOnly: true,
  run: (c) =>
    scope(() => {
      const { device } = c, products = compute(device, c.quick ? TOY : 8192, 12);
      const work = [timed(products), timed(products)][1]; // cuBLAS makes itself at home in the first
      const value = startReadback(keep(ones([1], { device })));
      products();
      const began = performance.now();
      const read = value.take((host) => host.item());
      const waited = performance.now() - began;
      cuda.synchroniseCuda();
      const figure = `after ${waited.toFixed(2)} ms, with ${work.toFixed(1)} ms of products behind it`;
      return { ok: read === 1 && judged(c, waited < work / 4), figure };
    }),
};

const feed: Check = {
  name: "50 batches come through the feed as they are",
  run({ device, quick }) {
    const { config } = resolveSettings({ argv: [...SMALL.mlp], env: {} });
    const { data: { train }, pass } = build(config, device);
    const supply = openFeed({ device, channelsLast: false, loss: pass.loss }).of(train);
    const sizes = [64, 17, 33, 64, 128];
    const idsOf = (n: number) =>
      [0, 1].map((part) =>
        plainPart(
          Array.from({ length: sizes[(n + part) % 5] }, (_, i) => (n * 31 + part * 7 + i) % train.length),
        )
      );
    let wrong = 0, asked = 0;
    supply.begin(() => asked < 50 ? idsOf(asked++) : null);
    scope(() => {
      const busy = compute(device, quick || device === "cpu" ? TOY : 4096, 4);
      for (let n = 0; n < 50; n++) {
        scope(() => {
          const batches = supply.take()!.map(finished);
          busy(); // what reads the batch is queued behind this, while the next batches are already copied
          const read = batches.map(({ input, target }) => [clone(input), clone(target)]);
          supply.queued();
          if (n % 7 !== 6) supply.ahead();
          idsOf(n).forEach((part, i) => {
            const straight = batchOf(train, part);
            if (!equal(readBytes(read[i][0]), readBytes(straight.input))) wrong++;
            if (!equal(readBytes(read[i][1]), readBytes(straight.target))) wrong++;
          });
        });
      }
    });
    return { ok: wrong === 0, figure: `${200 - wrong} of 200 tensors equal` };
  },
};

const equal = (a: Uint8Array, b: Uint8Array) => a.length === b.length && a.every((byte, i) => byte === b[i]);

const GIB = 2 ** 30, MIB = 2 ** 20;

const evaluations: Check = {
  name: "50 evaluations leave streams, events, tensors and memory as they were",
  gpuOnly: true,
  async run({ device, quick }) {
    const { config } = resolveSettings({
      argv: [...SMALL["simple-convnet"], "--val-samples", quick ? "16" : "2048"],
      env: {},
    });
    const { data: { val }, pass } = build(config, device);
    const feed = openFeed({ device, channelsLast: false, loss: pass.loss });
    const counts = () => {
      cuda.synchroniseCuda();
      return [
        cuda.cudaHeld().streams,
        cuda.cudaHeld().events,
        liveTensors(),
        Math.round(cuda.cudaMemory().used / MIB),
      ];
    };
    const seen: number[][] = [];
    for (let i = 0; i < 51; i++) {
      await evaluate(pass, val!, feed, quick ? 8 : 512, () => {});
      if (i === 0 || i === 50) seen.push(counts());
    }
    feed.close();
    const [first, last] = seen.map((each) => each.join(", "));
    return { ok: first === last, figure: `streams, events, tensors, MiB: ${first}, then ${last}` };
  },
};

const memory: Check = {
  name: "the memory figure sees what is taken",
  gpuOnly: true,
  run: ({ device, quick }) =>
    scope(() => {
      const before = memoryInUse(device);
      const taken = quick ? GIB / 16 : GIB;
      zeros([taken / 4], { device });
      cuda.synchroniseCuda();
      const risen = (memoryInUse(device) - before) / taken;
      return {
        ok: risen > 0.9 && risen < 1.5,
        figure: `${(taken / MIB)} MiB were taken, ${risen.toFixed(2)} times that seen`,
      };
    }),
};

export const streams: readonly Check[] = [memory, events, overlap, late, feed, evaluations];
