// What is to be packed, and into which shards: functions of the plan alone, so that every rank has the same.
// May import format.
import { HEADER_BYTES, layoutOf, MOST_SHARDS, type Origin, type Schema, SHARD_BYTES } from "./format.ts";

export interface Plan {
  /** The folder. */
  readonly out: string;
  readonly schema: Schema;
  /** All of them; the last `val` are to validate with. */
  readonly samples: number;
  readonly val?: number;
  /** As format.ts says unless told. */
  readonly perShard?: number;
  readonly origin: Origin;
  /** The most samples that are asked for at once; it changes no byte. */
  readonly atOnce?: number;
  /** About how large an encoded sample is. */
  readonly sampleBytes?: number;
}

/** One shard that is to be there. */
export interface Wanted {
  readonly name: string;
  readonly set: "train" | "val";
  readonly first: number;
  readonly samples: number;
  /** Null where samples are encoded, each as long as it is. */
  readonly bytes: number | null;
}

export function perShardOf(
  { schema, perShard, sampleBytes, samples }: Pick<Plan, "schema" | "perShard" | "sampleBytes" | "samples">,
): number {
  const each = schema.encoding === "rows" ? layoutOf(schema).rowBytes : sampleBytes ?? 1;
  const fitting = Math.max(1, Math.floor(SHARD_BYTES / each), Math.ceil(samples / MOST_SHARDS));
  return perShard ?? Math.min(fitting, samples);
}

/** No shard has samples of both sets. */
export function shardsOf(plan: Plan): Wanted[] {
  const { samples, val = 0, schema } = plan;
  const perShard = perShardOf(plan);
  const rowBytes = schema.encoding === "rows" ? layoutOf(schema).rowBytes : null;
  const wanted: Wanted[] = [];
  const add = (set: Wanted["set"], from: number, to: number) => {
    for (let first = from; first < to; first += perShard) {
      const count = Math.min(perShard, to - first);
      const bytes = rowBytes === null ? null : HEADER_BYTES + count * rowBytes;
      const name = `shard-${String(wanted.length).padStart(5, "0")}.bin`;
      wanted.push({ name, set, first, samples: count, bytes });
    }
  };
  add("train", 0, samples - val);
  add("val", samples - val, samples);
  return wanted;
}

/** About how much of the disk a shard takes. */
export const roughBytes = ({ bytes, samples }: Wanted, { sampleBytes = 0 }: Plan): number =>
  bytes ?? HEADER_BYTES + samples * (sampleBytes + 16);
