// Checks of ranks that communicate by NCCL: one rank in this process, and two or four by the whole program, which share the
// GPUs that there are.
import { openFlightRecorder } from "../../core/ranks/flight_recorder.ts";
import { type NcclCollectives, openNcclEngine } from "../../core/ranks/nccl/engine.ts";
import * as cuda from "../../ffi/cuda.ts";
import { ones, tensor, toDevice, toNumbers, zeros } from "../../ffi/make.ts";
import { findNccl, noNcclSentence } from "../../ffi/nccl/find.ts";
import { copy_, mm, toDtype } from "../../ffi/ops.ts";
import { keep, scope } from "../../ffi/tensor.ts";
import { type Check, type Context, judged, type Outcome, relative } from "./check.ts";
import { failed, fromEvents } from "./runs.ts";

function ncclHere(c: Context): string {
  const { chosen, rejected } = findNccl(c.libtorch.dir, undefined, cuda.gpuBackend());
  if (!chosen) throw new Error(noNcclSentence(rejected, cuda.gpuBackend()));
  return chosen.path;
}

/** A communicator of one rank: every call goes the whole way through NCCL, the streams and the thread that watches. */
async function alone(c: Context): Promise<NcclCollectives> {
  const device = Number(c.device.slice("cuda:".length));
  return await openNcclEngine({
    path: ncclHere(c),
    runtime: cuda.gpuRuntime(),
    device,
    rank: 0,
    world: 1,
    flight: openFlightRecorder(),
    timeout: 60,
    share: (id) => id!,
    stream: cuda.poolStream(device, true),
    computing: () => cuda.currentStream(device),
    one: keep(zeros([1], { device: c.device })),
  });
}

const oneRank: Check = {
  name: "one rank by NCCL: every collective, every type",
  gpuOnly: true,
  async run(c) {
    const engine = await alone(c);
    const wrong = scope(() => {
      const values = [1, 2, 3, 4];
      const here = () => toDevice(tensor(values), c.device);
      const same = (what: string, t: ReturnType<typeof here>) =>
        `${toNumbers(t)}` === `${values}` ? [] : [what];
      const reduced = (["f32", "f64", "bf16", "f16", "i32", "i64", "u8"] as const).flatMap((type) => {
        const t = toDtype(here(), type);
        engine.wait(engine.allReduce(t, "sum", "check"));
        return same(`all-reduce of ${type}`, t);
      });
      const [sent, gathered, scattered] = [here(), zeros([4], c), zeros([4], c)];
      engine.broadcast(sent, 0, "check");
      engine.allGather(gathered, here(), "check");
      engine.reduceScatter(scattered, here(), "check");
      engine.wait(engine.barrier("check"));
      return [
        ...reduced,
        ...same("broadcast", sent),
        ...same("all-gather", gathered),
        ...same("reduce-scatter", scattered),
      ];
    });
    const { version } = engine;
    await engine.close();
    return {
      ok: wrong.length === 0,
      figure: wrong.length === 0 ? version : `${version}: not ${wrong.join(", ")}`,
    };
  },
};

/** A collective contains what was queued before it, what follows its wait sees its result, and the host never waits. */
const ordered: Check = {
  name: "a collective waits for what computes, and what computes for it, while the host goes on",
  gpuOnly: true,
  async run(c) {
    const engine = await alone(c);
    const outcome = scope((): Outcome => {
      const size = c.quick ? 32 : 8192;
      const a = ones([size, size], c), t = zeros([1 << 20], c), after = zeros([1 << 20], c);
      const busy = () => {
        for (let i = 0; i < 12; i++) scope(() => mm(a, a));
      };
      busy(); // cuBLAS makes itself at home
      engine.wait(engine.barrier("check")); // and NCCL
      cuda.synchroniseCuda();
      const began = performance.now();
      busy();
      copy_(t, ones([1 << 20], c));
      engine.wait(engine.allReduce(t, "sum", "check"));
      copy_(after, t);
      const queued = performance.now() - began;
      const sum = toNumbers(after).reduce((a, b) => a + b);
      const done = performance.now() - began;
      return {
        ok: sum === 1 << 20 && judged(c, queued < done / 2),
        figure: `queued in ${queued.toFixed(1)} ms, done after ${done.toFixed(1)} ms, ${sum} of ${
          1 << 20
        } arrived`,
      };
    });
    await engine.close();
    return outcome;
  },
};

/** A process for each rank, on the first GPU. */
const sharing = (c: Context, count: number, folder: string, ...words: string[]) => {
  const [first] = (Deno.env.get("CUDA_VISIBLE_DEVICES") ?? "0").split(",");
  const launch = ["launch", "--ranks-per-gpu", String(count), "--"];
  return c.program.once(folder, [...launch, ...words, "--device", "cuda"], { CUDA_VISIBLE_DEVICES: first });
};

const bandwidth: Check = {
  name: "two ranks by NCCL: all-reduce",
  gpuOnly: true,
  async run(c) {
    const ended = await sharing(
      c,
      2,
      "allreduce",
      "bench",
      "allreduce",
      "--json",
      "--sizes",
      c.quick ? "4KiB,64KiB" : "4KiB,1MiB,64MiB,256MiB",
    );
    if (ended.code !== 0) return failed(ended);
    const { backend, measured } = JSON.parse(ended.out);
    const [first, last] = [measured[0], measured.at(-1)];
    const figure = `${(1e6 * first.seconds).toFixed(0)} us for 4 KiB, ${
      (last.bus / 1e9).toFixed(1)
    } GB/s bus for ${last.bytes / 2 ** 20} MiB`;
    return { ok: backend === "nccl" && judged(c, first.seconds < 0.01), figure, detail: measured };
  },
};

const COMMON: readonly string[] = [
  ...["--dropout=0", "--data-type=synthetic", "--train-samples=512", "--val-samples=16"],
  ...["--global-batch-size=16", "--amp=off", "--no-tf32", "--log-interval=1", "--run-name=run"],
];
const GPT = ["--model=gpt", "--layers=2", "--hidden-size=64", "--heads=4", "--context=32"];
const NORMED = ["--model=cosmo-cnn", "--sync-bn", "--optimizer=sgd", "--lr=1e-4"];
const TRAINED: Readonly<Record<string, readonly [number, readonly string[]]>> = {
  "two ranks by NCCL": [2, GPT],
  "two ranks by NCCL op by op": [2, [...GPT, "--no-compile"]],
  "two ranks by NCCL with libtorch's kernels captured": [2, [...GPT, "--compile=exact"]],
  "two ranks by NCCL with batch norm over both": [2, NORMED],
  "four ranks by NCCL with ZeRO-1": [4, [...GPT, "--zero=1"]],
};

const training = (how: string, [count, flags]: typeof TRAINED[string]): Check => ({
  name: `${how} train to the losses of one`,
  gpuOnly: true,
  async run(c) {
    const steps = c.quick ? 5 : 20; // the last two of five are replayed, where steps are captured
    const words = [...COMMON, ...flags, `--max-steps=${steps}`];
    const own = words.filter((word) => !word.startsWith("--zero"));
    const [whole, shared] = [`alone-${how}`, `ranks-${how}`];
    const one = await c.program.again(whole, [...own, "--device", "cuda"]);
    if (one.code !== 0) return failed(one);
    if (!c.quick) await c.program.rest(); // it would hold memory beside the ranks
    const all = await sharing(c, count, shared, ...words);
    if (all.code !== 0) return failed(all);
    const [alone, together] = [whole, shared].map((at) => fromEvents(c.program, at, "run", "step", "loss"));
    const apart = relative(together, alone);
    return {
      ok: alone.length === steps && apart < 1e-4,
      figure: `${alone.length} losses, ${apart.toExponential(1)} apart (at most 1e-4)`,
    };
  },
});

/** By it two ranks are known to be on one device, whatever number each gives it. */
const identity: Check = {
  name: "the device has the driver's own name",
  gpuOnly: true,
  run() {
    const uuid = cuda.cudaUuid();
    const known: string[] = [];
    try {
      for (const { name } of Deno.readDirSync("/proc/driver/nvidia/gpus")) {
        const text = Deno.readTextFileSync(`/proc/driver/nvidia/gpus/${name}/information`);
        known.push(/^GPU UUID:\s*(GPU-[0-9a-f-]+)/m.exec(text)?.[1] ?? "");
      }
    } catch { /* a container may hide the list */ }
    const listed = known.filter((name) => name !== "");
    const ok = uuid !== null && /^GPU(-[0-9a-f]+){5}$/.test(uuid) &&
      (listed.length === 0 || listed.includes(uuid));
    return {
      ok,
      figure: `${uuid}, ${
        listed.length === 0 ? "and no list to compare" : `in the list of ${listed.length}`
      }`,
    };
  },
};

export const ranks: readonly Check[] = [
  identity,
  oneRank,
  ordered,
  bandwidth,
  ...Object.entries(TRAINED).map(([how, flags]) => training(how, flags)),
];
