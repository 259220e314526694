// Ranks share the writing of packed shards by claims, and a killed run continues.
import * as packed from "./schema.ts";
import type { Shard } from "./schema.ts";
import { join } from "../../../deps/path.ts";
import { holdFolder } from "../../base/files.ts";
import { UserError } from "../../base/errors.ts";
import {
  checkDisk,
  fileSizeOf,
  makeFolder,
  type Put,
  reading,
  sha256Of,
  tidy,
  writeFirst,
  writeNew,
  writeText,
} from "../../base/new_file.ts";
import { crc32 } from "node:zlib";
import type { Progress } from "../../base/progress.ts";
import { readIndex, WORK } from "./index.ts";

export interface Who {
  readonly rank: number;
  readonly world: number;
}

function claim(plan: packed.PackPlan, { rank, world }: Who): () => void {
  const { out } = plan;
  const work = join(out, WORK), mine = join(work, `rank-${rank}`);
  makeFolder(out);
  refuseForeign(out);
  makeFolder(mine);
  const release = holdFolder(mine);
  if (!release) {
    throw new UserError(
      "usage",
      `Another process is packing into ${out}${world > 1 ? ` as rank ${rank}` : ""}. ` +
        "Wait for it, or name another folder.",
    );
  }
  try {
    checkPlan(plan);
    tidy(out);
    tidy(work);
  } catch (error) {
    release();
    throw error;
  }
  return release;
}

function refuseForeign(out: string): void {
  const names = [...reading(out, () => Deno.readDirSync(out))].map(({ name }) => name).sort();
  if (names.length === 0 || names.includes(WORK) || names.includes(packed.INDEX)) return;
  const found = names.slice(0, 3).join(", ") + (names.length > 3 ? ", ..." : "");
  throw new UserError("usage", `${out} is not empty (${found}): name a new folder for the packed data.`);
}

/** The first rank's plan counts; all others must have the same. */
function checkPlan(plan: packed.PackPlan): void {
  const mine = JSON.parse(planText(plan));
  const index = join(plan.out, packed.INDEX), first = join(plan.out, WORK, "plan.json");
  if (fileSizeOf(index) < 0) writeFirst(first, planText(plan));
  const theirs = readPlan(fileSizeOf(index) < 0 ? first : index);
  const differing = [
    "version",
    "encoding",
    "input",
    "target",
    "task",
    "outputs",
    "samples",
    "samples_per_shard",
  ]
    .find((key) => JSON.stringify(theirs[key]) !== JSON.stringify(mine[key]));
  if (!differing && theirs.origin?.hash === mine.origin.hash) return;
  const short = (value: unknown) => String(JSON.stringify(value)).slice(0, 100);
  const what = differing
    ? `its ${differing.replaceAll("_", " ")} is ${short(theirs[differing])}, and now ${
      short(mine[differing])
    }`
    : theirs.origin?.said === mine.origin.said
    ? "its files or settings have changed since"
    : `it comes from ${theirs.origin?.said}, and now from ${mine.origin.said}`;
  throw new UserError(
    "usage",
    `${plan.out} holds other data, packed or half packed: ${what}. Name a new folder, or delete this one first.`,
  );
}

function planText(plan: packed.PackPlan): string {
  return JSON.stringify(planFacts(plan), null, 2) + "\n";
}

function planFacts(plan: packed.PackPlan) {
  const { origin, schema, samples, val = 0 } = plan;
  const { encoding, input, target, task, outputs, names, missing, leads } = schema;
  const layout = encoding === "rows" ? packed.rowLayoutOf(schema) : null;
  return {
    format: packed.FORMAT,
    version: packed.FORMAT_VERSION,
    origin,
    encoding,
    task,
    outputs,
    ...(names ? { names } : {}),
    ...(missing ? { missing } : {}),
    ...(leads ? { leads } : {}),
    input: { ...fieldFacts(input), ...(layout ? { offset: 0 } : {}) },
    target: { ...fieldFacts(target), ...(layout ? { offset: layout.targetAt } : {}) },
    ...(layout ? { crc32: layout.crcAt, row_bytes: layout.rowBytes } : {}),
    header_bytes: packed.HEADER_BYTES,
    samples_per_shard: packed.perShardOf(plan),
    samples: { train: samples - val, val },
  };
}

const fieldFacts = ({ name, shape, dtype, seen, divisor }: packed.StoredField) => ({
  name,
  shape,
  dtype: packed.spelled(dtype),
  seen: packed.spelled(seen),
  ...(divisor ? { divisor } : {}),
});

/** Every rank writes the same bytes. */
function indexText(plan: packed.PackPlan, written: ReadonlyMap<string, Shard>): string {
  const set = (name: "train" | "val") =>
    packed.shardsOf(plan).filter((shard) => shard.set === name).map(({ name }) => {
      const { samples, bytes, sha256 } = written.get(name)!;
      return { name, samples, bytes, sha256 };
    });
  return JSON.stringify({ ...planFacts(plan), train: set("train"), val: set("val") }, null, 2) + "\n";
}

function readPlan(path: string): Record<string, any> {
  try {
    return JSON.parse(Deno.readTextFileSync(path)) ?? {};
  } catch (cause) {
    throw new UserError(
      "usage",
      `${path} can't be read, so what is packed there can't be told. Name a new folder, or delete this one first.`,
      { cause },
    );
  }
}

export type { PackPlan } from "./schema.ts";

/**
 * `first` and `count` number the plan's samples; row `i` is at `i * layout.rowBytes`, its input at 0 and its
 * target at `layout.targetAt`. Other bytes stay zero; the checksum comes after. The content must depend on
 * the sample's number alone.
 */
export type Make = (first: number, count: number, rows: Uint8Array) => void | Promise<void>;

export interface Report {
  readonly shards: number;
  readonly written: number;
  readonly kept: number;
  readonly bytes: number;
  /** False means that other ranks still write: the last writes the index. */
  readonly complete: boolean;
}

export function writeShards(
  plan: packed.PackPlan,
  who: Who,
  make: Make,
  progress: (at: Progress) => void = () => {},
): Promise<Report> {
  const layout = packed.rowLayoutOf(plan.schema);
  return writeAll(plan, who, progress, async ({ first, samples }, put, done) => {
    put(packed.shardHeader(samples, layout.rowBytes));
    const most = Math.max(1, Math.min(plan.atOnce ?? 256, Math.floor(CHUNK_BYTES / layout.rowBytes)));
    for (let at = 0; at < samples; at += most) {
      const count = Math.min(most, samples - at);
      const rows = new Uint8Array(count * layout.rowBytes);
      await make(first + at, count, rows);
      seal(rows, count, layout);
      put(rows);
      done(count);
    }
  });
}

const CHUNK_BYTES = 8 << 20;

function seal(rows: Uint8Array, count: number, layout: packed.RowLayout): void {
  const view = new DataView(rows.buffer, rows.byteOffset);
  for (let i = 0; i < count; i++) {
    const sum = crc32(packed.targetOf(rows, layout, i), crc32(packed.inputOf(rows, layout, i)));
    view.setUint32(i * layout.rowBytes + layout.crcAt, sum, true);
  }
}

export interface Encoded {
  readonly input: Uint8Array;
  readonly target: Uint8Array;
}

/** Samples are input, target, CRC-32; the shard ends with where each begins and the last ends. */
export function writeEncoded(
  plan: packed.PackPlan,
  who: Who,
  make: (sample: number) => Encoded | Promise<Encoded>,
  progress: (at: Progress) => void = () => {},
): Promise<Report> {
  return writeAll(plan, who, progress, async ({ first, samples }, put, done) => {
    const header = packed.shardHeader(samples, 0);
    const starts = new BigUint64Array(samples + 1);
    let at = header.length;
    put(header);
    for (let i = 0; i < samples; i++) {
      const { input, target } = await make(first + i);
      const sum = new Uint8Array(4);
      new DataView(sum.buffer).setUint32(0, crc32(target, crc32(input)), true);
      for (const part of [input, target, sum]) put(part);
      starts[i] = BigInt(at);
      at += input.length + target.length + 4;
      done(1);
    }
    starts[samples] = BigInt(at);
    put(new Uint8Array(starts.buffer));
  });
}

type Fill = (shard: packed.PlannedShard, put: Put, done: (samples: number) => void) => Promise<void>;

async function writeAll(
  plan: packed.PackPlan,
  who: Who,
  progress: (at: Progress) => void,
  fill: Fill,
): Promise<Report> {
  const wanted = packed.shardsOf(plan);
  const mine = wanted.filter((_, k) => k % who.world === who.rank);
  const total = mine.reduce((sum, { samples }) => sum + samples, 0);
  const end = (found: ReadonlyMap<string, packed.Shard>, written: number): Report => ({
    shards: wanted.length,
    written,
    kept: mine.length - written,
    bytes: [...found.values()].reduce((sum, { bytes }) => sum + bytes, 0),
    complete: found.size === wanted.length,
  });
  const before = found(plan, wanted);
  if (before.size === wanted.length && fileSizeOf(join(plan.out, packed.INDEX)) >= 0) {
    checkPlan(plan); // and nothing is written, so that a folder that can't be written to will do
    return end(before, 0);
  }
  checkSpace(plan, wanted);
  const release = claim(plan, who);
  try {
    let done = 0, kept = 0, written = 0;
    for (const shard of mine) {
      if (isWritten(plan, shard)) {
        done += shard.samples;
        kept += shard.samples;
      } else {
        await writeOne(plan, shard, fill, (samples) => progress({ done: done += samples, kept, total }));
        written++;
      }
      progress({ done, kept, total });
    }
    return end(await finish(plan, wanted), written);
  } finally {
    release();
  }
}

/** Everything that all ranks have still to write must fit. */
function checkSpace(plan: packed.PackPlan, wanted: readonly packed.PlannedShard[]): void {
  const missing = wanted.filter(({ name }) => fileSizeOf(join(plan.out, name)) < 0);
  checkDisk(
    `Packing ${missing.length < wanted.length ? "the rest " : ""}into ${plan.out}`,
    plan.out,
    missing.reduce((sum, shard) => sum + packed.roughBytes(shard, plan), 0),
    "Free some space, name a folder on another disk, or pack fewer samples with --train-samples.",
  );
}

const noteOf = ({ out }: packed.PackPlan, name: string) => join(out, WORK, name.replace(/\.bin$/, ".json"));

/** The note is written after its shard is in place. */
async function writeOne(
  plan: packed.PackPlan,
  shard: packed.PlannedShard,
  fill: Fill,
  done: (samples: number) => void,
): Promise<void> {
  const { name, samples } = shard;
  const written = await writeNew(join(plan.out, name), (put) => fill(shard, put, done));
  makeFolder(join(plan.out, WORK));
  await writeText(noteOf(plan, name), JSON.stringify({ name, samples, ...written }));
}

function isWritten(plan: packed.PackPlan, shard: packed.PlannedShard): boolean {
  const path = join(plan.out, shard.name);
  if (fileSizeOf(path) < 0) return false;
  const known = found(plan, [shard]).get(shard.name);
  return known !== undefined && known.sha256 === sha256Of(path);
}

function found(
  plan: packed.PackPlan,
  wanted: readonly packed.PlannedShard[],
): ReadonlyMap<string, packed.Shard> {
  // Notes are read first: they go when the index appears.
  const noted = wanted.map(({ name }) => readNote(plan, name));
  const indexed = noted.includes(null) ? indexOf(plan) : new Map<string, packed.Shard>();
  const shards = wanted.map(({ name }, i) => noted[i] ?? indexed.get(name));
  return new Map(
    shards.flatMap((shard, i) =>
      shard && shard.samples === wanted[i].samples && fileSizeOf(join(plan.out, shard.name)) === shard.bytes
        ? [[shard.name, shard]]
        : []
    ),
  );
}

function readNote(plan: packed.PackPlan, name: string): packed.Shard | null {
  try {
    return JSON.parse(Deno.readTextFileSync(noteOf(plan, name)));
  } catch {
    return null; // none was written
  }
}

function indexOf({ out }: packed.PackPlan): ReadonlyMap<string, packed.Shard> {
  if (fileSizeOf(join(out, packed.INDEX)) < 0) return new Map();
  const { train, val } = readIndex(out);
  return new Map([...train, ...val].map((shard) => [shard.name, shard]));
}

/** The rank that finds all shards writes the index and removes what packing needed. */
async function finish(
  plan: packed.PackPlan,
  wanted: readonly packed.PlannedShard[],
): Promise<ReadonlyMap<string, packed.Shard>> {
  const all = found(plan, wanted);
  if (all.size < wanted.length) return all;
  const path = join(plan.out, packed.INDEX), text = indexText(plan, all);
  if (fileSizeOf(path) < 0 || Deno.readTextFileSync(path) !== text) await writeText(path, text);
  try {
    Deno.removeSync(join(plan.out, WORK), { recursive: true });
  } catch {
    // Another rank removes it too.
  }
  return all;
}
