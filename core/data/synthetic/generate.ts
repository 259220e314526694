// Samples that are made are packed into shards by threads and ranks, and a killed run continues; or made on demand.
import type { Libtorch } from "../../../ffi/libraries/find.ts";
import type { Progress } from "../../base/progress.ts";
import { inputOf, perShardOf, rowLayoutOf, targetOf } from "../shards/schema.ts";
import { type Make, type PackPlan, type Report, type Who, writeShards } from "../shards/write.ts";
import { setThreads, threads as threadsNow } from "../../../ffi/context.ts";
import { key } from "../../base/random.ts";
import { packingOf } from "../shards/samples.ts";
import { checkCount, makeFields } from "./fields.ts";
import type { DataRequest, Made, MakingThreads, Sources } from "../format.ts";
import { readIndex } from "../shards/index.ts";
import { defaultConfig } from "../../settings/settings.ts";
import { UserError } from "../../base/errors.ts";

/** 64 ranks have work and a kill costs little, but no file has only a few samples. */
const SHARDS = 64, FEWEST = 16;

interface PackOptions {
  readonly out: string;
  readonly perShard?: number;
  readonly who: Who;
  readonly threads: number;
  readonly libtorch: Libtorch;
  progress(at: Progress): void;
}

export async function packMade(made: Made, work: PackOptions): Promise<Report> {
  const { kind, description, facts, train, val, targets } = made;
  const { out, perShard, who, libtorch, progress } = work;
  const threads = made.threads ? Math.min(work.threads, made.threads.most(), train.length) : 1;
  const before = threadsNow();
  setThreads(1); // a sample is too small to be shared out: each thread makes its own
  const packing = packingOf(train, val, 0);
  const plan: PackPlan = {
    ...packing,
    schema: { ...packing.schema, names: targets },
    out,
    perShard: perShard ??
      Math.min(perShardOf(packing), Math.max(FEWEST, Math.ceil(packing.samples / SHARDS))),
    atOnce: 16 * threads,
    origin: { kind, said: description, facts, hash: hashOf(made) },
  };
  const pool = threads > 1 ? made.threads!.open(libtorch, threads) : null;
  try {
    return await writeShards(plan, who, pool ? byThreads(pool, plan) : packing.make, progress);
  } finally {
    pool?.close();
    packing.close();
    setThreads(before);
  }
}

/** Each thread takes the next sample when it is done; a sample does not depend on its thread. */
function byThreads({ makers }: MakingThreads, { schema, samples, val = 0 }: PackPlan): Make {
  const layout = rowLayoutOf(schema), train = samples - val;
  return async (first, count, rows) => {
    const role = first < train ? "train" : "val", start = role === "train" ? first : first - train;
    let next = 0;
    await Promise.all(makers.map(async (make) => {
      while (next < count) {
        const i = next++;
        const { input, target } = await make(role, start + i);
        inputOf(rows, layout, i).set(input);
        targetOf(rows, layout, i).set(target);
      }
    }));
  };
}

/** The number of samples does not change the hash. */
export const hashOf = ({ kind, facts }: Pick<Made, "kind" | "facts">): string =>
  key(0, kind, JSON.stringify(facts)).toString(16).padStart(16, "0");

/** `read` opens the folder that they were packed into. */
export function openMade(
  request: DataRequest,
  make: (request: DataRequest) => Made,
  read: (request: DataRequest) => Sources,
): Sources {
  const { data_path: folder, type } = request.data;
  if (folder === "") {
    const { train, val } = make(request);
    return { train, val, notes: ["Each sample is made again whenever it is wanted"] };
  }
  const { origin } = readIndex(folder);
  if (origin.kind !== type) {
    throw new UserError(
      "data",
      `${folder} was packed from ${origin.said} (${origin.kind}), and --data-type is ${type}: name a folder that ` +
        "`hpctrain generate-data` wrote, or train on this one with --data-type packed.",
    );
  }
  return read(request);
}

export function gaussianFields(
  train: number,
  val: number,
  seed: number,
  size: number,
  channels: number,
): Made {
  checkCounts(train, val);
  const model = { ...defaultConfig().model, image_size: size, channels };
  const make = (role: "train" | "val", samples: number) =>
    makeFields({ role, samples, seed, loss: "auto", model });
  return {
    kind: "fields",
    train: make("train", train),
    val: val > 0 ? make("val", val) : null,
    description: `Gaussian random fields of ${channels} x ${size} x ${size}, seed ${seed}`,
    facts: { recipe: 1, seed, size, channels },
    targets: ["amplitude", "tilt"],
  };
}

export function checkCounts(train: number, val: number): void {
  checkCount({ role: "train", samples: train });
  checkCount({ role: "val", samples: val });
}

export function bytesOf({ train, val }: Made): number {
  const { input, target } = train;
  const numbers = [input, target].reduce((sum, { shape }) => sum + shape.reduce((a, b) => a * b, 1), 0);
  return (train.length + (val?.length ?? 0)) * 4 * numbers;
}
