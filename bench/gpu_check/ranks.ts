// Checks of ranks that communicate by NCCL: one rank in this process, and two by the whole program, on one GPU where
// there is but one.
import { openFlightRecorder } from "../../core/ranks/flight_recorder.ts";
import { type NcclCollectives, openNcclEngine } from "../../core/ranks/nccl/engine.ts";
import * as cuda from "../../ffi/cuda.ts";
import { ones, tensor, toDevice, toNumbers, zeros } from "../../ffi/make.ts";
import { findNccl, noNcclSentence } from "../../ffi/nccl/find.ts";
import { openNccl } from "../../ffi/nccl/nccl.ts";
import { copy_, mm, toDtype } from "../../ffi/ops.ts";
import { keep, scope } from "../../ffi/tensor.ts";
import { type Check, type Context, judged, type Outcome, relative } from "./check.ts";
import { failed, fromEvents } from "./runs.ts";

/** The first NCCL that lets ranks share a GPU. */
const SHARED = [2, 30];

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

/** Null where two ranks can run here, else what to say. */
function unable(c: Context): Outcome | null {
  const { version } = openNccl(ncclHere(c));
  const [, major, minor] = /(\d+)\.(\d+)/.exec(version)!.map(Number);
  if (cuda.cudaDevices() > 1 || major > SHARED[0] || minor >= SHARED[1]) return null;
  return {
    ok: null,
    figure: `not here: one GPU, and ${version} (from ${SHARED.join(".")} on ranks can share one)`,
  };
}

const two = (c: Context, folder: string, ...words: string[]) => {
  // Its own process for each rank, which share a device where there is but one.
  const env = { NCCL_MULTI_RANK_GPU_ENABLE: "1", CUDA_VISIBLE_DEVICES: visible() };
  return c.program.once(folder, ["launch", "-n", "2", "--", ...words, "--device", "cuda"], env);
};

const visible = () =>
  Deno.env.get("CUDA_VISIBLE_DEVICES") ??
    Array.from({ length: Math.min(2, cuda.cudaDevices()) }, (_, i) => i).join();

const bandwidth: Check = {
  name: "two ranks by NCCL: all-reduce",
  gpuOnly: true,
  async run(c) {
    const not = unable(c);
    if (not) return not;
    const ended = await two(
      c,
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
const TRAINED: Readonly<Record<string, readonly string[]>> = {
  "": GPT,
  " with ZeRO-1": [...GPT, "--zero=1"],
  " with captured steps": [...GPT, "--set", "distributed.capture=true"],
  " with batch norm over both": ["--model=cosmo-cnn", "--sync-bn", "--optimizer=sgd", "--lr=1e-4"],
};

const training = (how: string, flags: readonly string[]): Check => ({
  name: `two ranks by NCCL train to the losses of one${how}`,
  gpuOnly: true,
  async run(c) {
    const not = unable(c);
    if (not) return not;
    const steps = c.quick ? 5 : 20; // the last two of five are replayed, where steps are captured
    const words = [...COMMON, ...flags, `--max-steps=${steps}`];
    const own = words.filter((word) => !word.startsWith("--zero"));
    const one = await c.program.again(`rank-alone${how}`, [...own, "--device", "cuda"]);
    if (one.code !== 0) return failed(one);
    if (!c.quick) await c.program.rest(); // it would hold memory beside the ranks
    const both = await two(c, `two-ranks${how}`, ...words);
    if (both.code !== 0) return failed(both);
    const [alone, together] = ["rank-alone", "two-ranks"].map((at) =>
      fromEvents(c.program, at + how, "run", "step", "loss")
    );
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
