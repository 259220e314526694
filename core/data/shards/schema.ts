// The format of packed shards has fields, layout, headers and a plan. docs/packed.md describes it.
import { type DType, dtypeBytes } from "../../../ffi/dtype.ts";
import type { Facts } from "../../models/model.ts";
import type { Missing } from "../source/source.ts";

export const FORMAT = "hpctrain-packed", FORMAT_VERSION = 1;
export const INDEX = "index.json";
export const HEADER_BYTES = 64;
/** A stopped shard is packed again, so shards are small; they grow where there would be too many. */
const SHARD_BYTES = 64 << 20, MOST_SHARDS = 256;

export interface StoredField {
  readonly name: string;
  readonly shape: readonly number[];
  readonly dtype: DType;
  readonly seen: DType;
  /** Stored numbers are divided by this: 255 for pixels. */
  readonly divisor?: number;
}

export interface PackedSchema {
  /** "rows" have one size; "encoded" images are as long as their files (JPEG, PNG, WebP). */
  readonly encoding: "rows" | "encoded";
  readonly input: StoredField;
  readonly target: StoredField;
  readonly task: Facts["task"];
  readonly outputs: number;
  /** Names of the classes 0, 1, 2, ..., or of the target's numbers. */
  readonly names?: readonly string[];
  /** NaN in these fields is a missing point; absent where there is none. */
  readonly missing?: Missing;
  /** A forecast's targets of the first lead come first, then those of the next; absent where there is one lead. */
  readonly leads?: number;
}

/** Two origins with one hash give the same bytes. */
export interface PackedOrigin {
  readonly kind: string;
  readonly hash: string;
  readonly said: string;
  /** The hash covers the facts, plain JSON such as the parameters of a simulation. */
  readonly facts?: Readonly<Record<string, unknown>>;
}

export interface Shard {
  readonly name: string;
  readonly samples: number;
  readonly bytes: number;
  readonly sha256: string;
}

export interface Index {
  readonly format: typeof FORMAT;
  readonly version: typeof FORMAT_VERSION;
  readonly origin: PackedOrigin;
  readonly schema: PackedSchema;
  readonly layout: RowLayout | null;
  readonly samplesPerShard: number;
  readonly train: readonly Shard[];
  readonly val: readonly Shard[];
}

/** Offsets in a row; the CRC-32 covers the input's bytes followed by the target's. */
export interface RowLayout {
  readonly rowBytes: number;
  readonly inputBytes: number;
  readonly targetAt: number;
  readonly targetBytes: number;
  readonly crcAt: number;
}

const upTo = (multiple: number, bytes: number) => Math.ceil(bytes / multiple) * multiple;

export const fieldBytes = ({ shape, dtype }: Pick<StoredField, "shape" | "dtype">): number =>
  shape.reduce((product, size) => product * size, dtypeBytes(dtype));

export function rowLayoutOf({ input, target }: Pick<PackedSchema, "input" | "target">): RowLayout {
  const inputBytes = fieldBytes(input), targetBytes = fieldBytes(target);
  const targetAt = upTo(8, inputBytes);
  const crcAt = upTo(4, targetAt + targetBytes);
  return { rowBytes: upTo(8, crcAt + 4), inputBytes, targetAt, targetBytes, crcAt };
}

export const inputOf = (rows: Uint8Array, { rowBytes, inputBytes }: RowLayout, i: number): Uint8Array =>
  rows.subarray(i * rowBytes, i * rowBytes + inputBytes);
export const targetOf = (rows: Uint8Array, layout: RowLayout, i: number): Uint8Array => {
  const at = i * layout.rowBytes + layout.targetAt;
  return rows.subarray(at, at + layout.targetBytes);
};

const MAGIC = "HPCTPACK";

/** A shard's head has the magic, version, encoding, samples and bytes of a row (0: each has its own). */
export function shardHeader(samples: number, rowBytes: number): Uint8Array {
  const header = new Uint8Array(HEADER_BYTES), view = new DataView(header.buffer);
  header.set(new TextEncoder().encode(MAGIC));
  view.setUint32(8, FORMAT_VERSION, true);
  view.setUint32(12, rowBytes === 0 ? 1 : 0, true);
  view.setBigUint64(16, BigInt(samples), true);
  view.setBigUint64(24, BigInt(rowBytes), true);
  return header;
}

const SPELLED: Readonly<Partial<Record<DType, string>>> = {
  u8: "uint8",
  i8: "int8",
  i16: "int16",
  i32: "int32",
  i64: "int64",
  u16: "uint16",
  u32: "uint32",
  u64: "uint64",
  f16: "float16",
  bf16: "bfloat16",
  f32: "float32",
  f64: "float64",
  bool: "bool",
};

export function spelled(dtype: DType): string {
  const name = SPELLED[dtype];
  if (!name) throw new Error(`internal: ${dtype} can't be packed.`);
  return name;
}

export const unspelled = (name: unknown): DType | undefined =>
  (Object.keys(SPELLED) as DType[]).find((dtype) => SPELLED[dtype] === name);

export interface PackPlan {
  readonly out: string;
  readonly schema: PackedSchema;
  readonly samples: number;
  readonly val?: number;
  readonly perShard?: number;
  readonly origin: PackedOrigin;
  /** This is the most samples that are read at once; it changes no byte. */
  readonly atOnce?: number;
  readonly sampleBytes?: number;
}

export interface PlannedShard {
  readonly name: string;
  readonly set: "train" | "val";
  readonly first: number;
  readonly samples: number;
  /** Null means encoded samples, each as long as it is. */
  readonly bytes: number | null;
}

export function perShardOf(
  { schema, perShard, sampleBytes, samples }: Pick<
    PackPlan,
    "schema" | "perShard" | "sampleBytes" | "samples"
  >,
): number {
  const each = schema.encoding === "rows" ? rowLayoutOf(schema).rowBytes : sampleBytes ?? 1;
  const fitting = Math.max(1, Math.floor(SHARD_BYTES / each), Math.ceil(samples / MOST_SHARDS));
  return perShard ?? Math.min(fitting, samples);
}

/** No shard has samples of both sets. */
export function shardsOf(plan: PackPlan): PlannedShard[] {
  const { samples, val = 0, schema } = plan;
  const perShard = perShardOf(plan);
  const rowBytes = schema.encoding === "rows" ? rowLayoutOf(schema).rowBytes : null;
  const wanted: PlannedShard[] = [];
  const add = (set: PlannedShard["set"], from: number, to: number) => {
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

export const roughBytes = ({ bytes, samples }: PlannedShard, { sampleBytes = 0 }: PackPlan): number =>
  bytes ?? HEADER_BYTES + samples * (sampleBytes + 16);
