// Packs made samples into shards: by threads where there are some, shared by ranks, going on after a kill.
// May import packed, its siblings, random, ffi.
import type { Libtorch } from "../../../ffi/libraries/types.ts";
import { setThreads, threads as threadsNow } from "../../../ffi/random.ts";
import { key } from "../../random.ts";
import { packingOf } from "../packed/from_source.ts";
import { perShardOf } from "../packed/plan.ts";
import { type Plan, type Progress, type Report, type Who, writeShards } from "../packed/write.ts";
import { freeMemory } from "../../memory.ts";
import type { Made } from "./made.ts";
import { openPool } from "./pool.ts";

/** So many that 64 ranks have work and a kill costs little of it; but no files of a few samples. */
const SHARDS = 64, FEWEST = 16;
/** What making a sample takes at its peak, for each cell of the grid: measured. */
const BYTES_A_CELL = 150;

export interface Work {
  readonly out: string;
  readonly perShard?: number;
  readonly who: Who;
  /** That make samples. */
  readonly threads: number;
  readonly libtorch: Libtorch;
  progress(at: Progress): void;
}

export async function packMade(made: Made, work: Work): Promise<Report> {
  const { kind, said, facts, train, val, targets, spec } = made;
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
    origin: { kind, said, facts, hash: hashOf(made) },
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

/** So many threads that half of the free memory does for them. */
const fitting = (grid: number): number =>
  Math.max(1, Math.floor(freeMemory() / 2 / (BYTES_A_CELL * grid ** 3)));

/** Of all that the samples depend on but their number. */
export const hashOf = ({ kind, facts }: Pick<Made, "kind" | "facts">): string =>
  key(0, kind, JSON.stringify(facts)).toString(16).padStart(16, "0");
