// Simulated samples are packed into shards by threads and ranks, and a killed run continues.
import type { Libtorch } from "../../../ffi/libraries/find.ts";
import type { SimulationSpec } from "./options.ts";
import { INDEX, inputOf, perShardOf, rowLayoutOf, targetOf } from "../formats/packed/schema.ts";
import { type Make, type Plan, type Report, type Who, writeShards } from "../formats/packed/write.ts";
import { openProgress, type Progress } from "../../base/progress.ts";
import type { SampleRequest, SimulatedSample, SimulationThreadOptions } from "./thread.ts";
import { setThreads, threads as threadsNow } from "../../../ffi/context.ts";
import { key } from "../../base/random.ts";
import { packingOf } from "../formats/packed/samples.ts";
import { freeMemory } from "../../base/memory.ts";
import { bytesOf, type Made, madeFor } from "./source.ts";
import { join } from "../../../deps/path.ts";
import { parseDuration } from "../../settings/setting.ts";
import type { Config } from "../../settings/settings.ts";
import { coresHere } from "../../base/topology.ts";
import { UserError } from "../../base/errors.ts";
import { formatBytes, formatDuration, formatPlural, formatRate } from "../../base/format.ts";
import { freeAt, sizeOf } from "../../base/new_file.ts";
import { looksPacked } from "../formats/packed/index.ts";

// Each thread takes the next sample when it is done; a sample does not depend on its thread.

interface Pool {
  make(plan: Plan): Make;
  close(): void;
}

function openPool(spec: SimulationSpec, libtorch: Libtorch, threads: number): Pool {
  const orders: SimulationThreadOptions = { spec, libtorch };
  const workers = Array.from({ length: threads }, (_, i) => {
    const worker = new Worker(new URL("./thread.ts", import.meta.url), {
      type: "module",
      name: `maker ${i + 1}`,
    });
    worker.postMessage(orders);
    return worker;
  });
  const ask = (worker: Worker, wanted: SampleRequest) =>
    new Promise<SimulatedSample>((resolve, reject) => {
      worker.onmessage = ({ data }: MessageEvent<SimulatedSample>) => resolve(data);
      worker.onerror = (event) => {
        event.preventDefault();
        reject(new Error(`internal: a thread that made sample ${wanted.id} ended: ${event.message}`));
      };
      worker.postMessage(wanted);
    });
  return {
    make({ schema, samples, val = 0 }) {
      const layout = rowLayoutOf(schema), train = samples - val;
      return async (first, count, rows) => {
        const role = first < train ? "train" : "val", start = role === "train" ? first : first - train;
        let next = 0;
        await Promise.all(workers.map(async (worker) => {
          while (next < count) {
            const i = next++;
            const { maps, targets } = await ask(worker, { role, id: start + i });
            inputOf(rows, layout, i).set(new Uint8Array(maps.buffer));
            targetOf(rows, layout, i).set(new Uint8Array(targets.buffer));
          }
        }));
      };
    },
    close() {
      for (const worker of workers) worker.terminate();
    },
  };
}

/** 64 ranks have work and a kill costs little, but no file has only a few samples. */
const SHARDS = 64, FEWEST = 16;
/** Making a sample takes this many bytes a grid cell at its peak, as measured. */
const BYTES_A_CELL = 150;

interface PackOptions {
  readonly out: string;
  readonly perShard?: number;
  readonly who: Who;
  readonly threads: number;
  readonly libtorch: Libtorch;
  progress(at: Progress): void;
}

export async function packMade(made: Made, work: PackOptions): Promise<Report> {
  const { kind, description, facts, train, val, targets, spec } = made;
  const { out, perShard, who, libtorch, progress } = work;
  const threads = spec ? Math.min(work.threads, fitting(spec.values.grid), train.length) : 1;
  const before = threadsNow();
  setThreads(1); // a sample is too small to be shared out: each thread makes its own
  const packing = packingOf(train, val, 0);
  const plan: Plan = {
    ...packing,
    schema: { ...packing.schema, names: targets },
    out,
    perShard: perShard ??
      Math.min(perShardOf(packing), Math.max(FEWEST, Math.ceil(packing.samples / SHARDS))),
    atOnce: 16 * threads,
    origin: { kind, said: description, facts, hash: hashOf(made) },
  };
  const pool = spec && threads > 1 ? openPool(spec, libtorch, threads) : null;
  try {
    return await writeShards(plan, who, pool ? pool.make(plan) : packing.make, progress);
  } finally {
    pool?.close();
    packing.close();
    setThreads(before);
  }
}

const fitting = (grid: number): number =>
  Math.max(1, Math.floor(freeMemory() / 2 / (BYTES_A_CELL * grid ** 3)));

/** The number of samples does not change the hash. */
const hashOf = ({ kind, facts }: Pick<Made, "kind" | "facts">): string =>
  key(0, kind, JSON.stringify(facts)).toString(16).padStart(16, "0");

// Training without a path generates into the run's folder first, where the data fits.

/** Generated data takes at most this share of the free disk. */
const SHARE = 0.5;
const POLL_MS = 100;

interface Ready {
  readonly config: Config;
  readonly notes: readonly string[];
}

interface RankShare {
  readonly rank: number;
  readonly world: number;
  readonly localWorld: number;
}
const ALONE: RankShare = { rank: 0, world: 1, localWorld: 1 };

/** The result names the folder as the data's path where the ranks generated something. */
export async function generateMissing(
  config: Config,
  libtorch: Libtorch,
  who: RankShare = ALONE,
  { from, freeIn = freeAt }: {
    /** Who wants it: it takes minutes, and a shell's variable may be forgotten. */
    readonly from?: string;
    readonly freeIn?: (folder: string) => number | undefined;
  } = {},
): Promise<Ready> {
  const { data, output, distributed } = config;
  const made = data.data_path === "" ? madeFor(config) : null;
  if (!made) return { config, notes: [] };
  const out = folderOf(made, output.save_dir);
  const bytes = bytesOf(made), amount = `${formatPlural(samplesOf(made), "sample")} (${formatBytes(bytes)})`;
  // Data that was begun fitted then, and takes a part of what is no longer free.
  const free = looksPacked(out) ? undefined : freeIn(out);
  if (free !== undefined && bytes > SHARE * free) {
    return { config, notes: [`Not kept on disk: ${amount}, where ${formatBytes(free)} are free`] };
  }
  const quiet = output.quiet || output.json || who.rank > 0;
  const say = (line: string) => quiet ? undefined : console.log(line);
  say(`Generating ${amount} into ${out}, unless they are there${from ? `: ${from}` : ""}`);
  const began = performance.now();
  const now = await generate(made, out, libtorch, who, quiet);
  const seconds = (performance.now() - began) / 1000;
  const patience = parseDuration(distributed.timeout, "seconds")!.count;
  if (who.world > 1) await othersDone(out, who, patience, say);
  const notes = [
    now === 0
      ? `Generated before: ${out}`
      : `Generated ${formatPlural(now, "sample")} in ${formatDuration(seconds)}, ` +
        `${formatRate(now / seconds)} a second; the next run finds them in ${out}`,
  ];
  return { config: { ...config, data: { ...data, data_path: out } }, notes };
}

async function generate(
  made: Made,
  out: string,
  libtorch: Libtorch,
  who: RankShare,
  quiet: boolean,
): Promise<number> {
  const progress = openProgress("Generating", { quiet });
  const threads = Math.max(1, Math.floor(coresHere() / who.localWorld));
  let now = 0;
  await packMade(made, {
    out,
    who,
    threads,
    libtorch,
    progress(at) {
      now = at.done - at.kept;
      progress.update(at);
    },
  }).finally(progress.clear);
  return now;
}

/** The last rank writes the index. Added shards show that another rank still works. */
async function othersDone(
  out: string,
  { rank, world }: RankShare,
  patience: number,
  say: (line: string) => void,
): Promise<void> {
  let seen = -1, since = performance.now();
  while (sizeOf(join(out, INDEX)) < 0) {
    if (seen < 0) say("Waiting for the other ranks, which generate theirs");
    const there = [...Deno.readDirSync(out)].length;
    if (there !== seen) [seen, since] = [there, performance.now()];
    if (performance.now() - since > 1000 * patience) {
      throw new UserError(
        "communication",
        `Rank ${rank} of ${world} has generated its share of ${out}, and for ${formatDuration(patience)} ` +
          "(distributed.timeout) no other rank has added a shard: look at what those said. Started again, all " +
          "go on where they were.",
      );
    }
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

const samplesOf = ({ train, val }: Made) => train.length + (val?.length ?? 0);

const folderOf = (made: Made, saveDir: string): string => {
  const hash = key(made.train.length, made.val?.length ?? 0, hashOf(made)).toString(16).padStart(16, "0");
  return join(saveDir, "data", `${made.kind}-${hash.slice(0, 8)}`);
};
