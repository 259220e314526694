// The index of packed shards: written, read and checked, and the shards verified against it.
import * as packed from "./schema.ts";
import type { Index, Shard } from "./schema.ts";
import { join } from "../../../deps/path.ts";
import { messageOf, UserError } from "../../base/errors.ts";
import { formatBytes, formatPlural } from "../../base/format.ts";
import { fileSizeOf, sha256Of } from "../../base/new_file.ts";
import { openProgress } from "../../base/progress.ts";
import type { Missing } from "../source/source.ts";

export function looksPacked(folder: string): boolean {
  try {
    return Deno.readTextFileSync(join(folder, packed.INDEX)).slice(0, 200).includes(`"${packed.FORMAT}"`);
  } catch {
    return isBeingPacked(folder);
  }
}

/** Packing keeps its progress here until the index exists. */
export const WORK = ".packing";

function isBeingPacked(folder: string): boolean {
  try {
    return Deno.statSync(join(folder, WORK)).isDirectory;
  } catch {
    return false;
  }
}

/** Nothing in an index is trusted before it is checked. */
export function readIndex(folder: string): Index {
  const path = join(folder, packed.INDEX);
  const wrong = (what: string) =>
    new UserError("data", `${path} ${what}. Copy the whole folder again, or pack the data again.`);
  let json: Record<string, unknown>;
  try {
    json = JSON.parse(Deno.readTextFileSync(path));
  } catch (cause) {
    if (cause instanceof SyntaxError) throw wrong("is no JSON: it is damaged or cut off");
    throw new UserError("data", noIndex(folder, path, cause), { cause });
  }
  if (json?.format !== packed.FORMAT) {
    throw wrong(`is no index of packed data: its "format" is not "${packed.FORMAT}"`);
  }
  if (json.version !== packed.FORMAT_VERSION) {
    throw wrong(
      `is of version ${JSON.stringify(json.version)}; this program reads version ${packed.FORMAT_VERSION}`,
    );
  }
  return checked(json, wrong);
}

function noIndex(folder: string, path: string, cause: unknown): string {
  if (isBeingPacked(folder)) {
    return `${folder} is not packed completely: there is no index.json yet. Run the same pack command again; ` +
      "it goes on where it was.";
  }
  return cause instanceof Deno.errors.NotFound
    ? `There is no ${path}: name the folder that hpctrain pack wrote with --data-path.`
    : `${path} can't be read: ${messageOf(cause).split(" (os error")[0]}.`;
}

type Json = Record<string, unknown>;

type Wrong = (what: string) => UserError;

const TASKS = ["classification", "regression", "language", "segmentation"] as const;

/** No name of a shard leads out of the folder. */
const SHARD_NAME = /^[\w-][\w.-]*$/;

function checked(json: Json, wrong: Wrong): Index {
  const encoding = (["rows", "encoded"] as const).find((name) => name === json.encoding);
  const task = TASKS.find((name) => name === json.task);
  if (!encoding || !task) {
    throw wrong(`has the ${encoding ? "task" : "encoding"} ${short(json.task)}, which is unknown here`);
  }
  const outputs = whole(json.outputs, "outputs", wrong);
  const schema = {
    encoding,
    task,
    outputs,
    input: field(json.input, "input", wrong),
    target: field(json.target, "target", wrong),
    ...(Array.isArray(json.names) ? { names: json.names.map(String) } : {}),
    ...(json.missing === undefined ? {} : { missing: missingOf(json.missing) }),
    ...(json.leads === undefined ? {} : { leads: whole(json.leads, "leads", wrong) }),
  };
  const layout = encoding === "rows" ? packed.rowLayoutOf(schema) : null;
  if (layout && (json.row_bytes !== layout.rowBytes || json.crc32 !== layout.crcAt)) {
    throw wrong(
      `says row_bytes ${short(json.row_bytes)}, but its fields make rows of ${layout.rowBytes} bytes`,
    );
  }
  const origin = json.origin as Index["origin"];
  if (
    typeof origin?.kind !== "string" || typeof origin.hash !== "string" || typeof origin.said !== "string"
  ) {
    throw wrong('lacks "origin" with kind, hash and said');
  }
  const set = (name: "train" | "val") =>
    list(json[name], name, wrong).map((shard, i) =>
      shardOf(shard, `${name}[${i}]`, layout?.rowBytes ?? null, wrong)
    );
  const samplesPerShard = whole(json.samples_per_shard, "samples_per_shard", wrong);
  return {
    format: packed.FORMAT,
    version: packed.FORMAT_VERSION,
    origin,
    schema,
    layout,
    samplesPerShard,
    train: set("train"),
    val: set("val"),
  };
}

function missingOf(value: unknown): Missing {
  const { input, target } = (value ?? {}) as Json;
  return { input: input === true, target: target === true };
}

function field(value: unknown, where: string, wrong: Wrong): packed.StoredField {
  const json = (value ?? {}) as Json;
  const dtype = packed.unspelled(json.dtype), seen = packed.unspelled(json.seen);
  if (!dtype || !seen) {
    throw wrong(`has ${where} of the type ${short(dtype ? json.seen : json.dtype)}, which is unknown here`);
  }
  const shape = list(json.shape, `${where}.shape`, wrong).map((size) => whole(size, `${where}.shape`, wrong));
  const divisor = json.divisor === undefined
    ? {}
    : { divisor: whole(json.divisor, `${where}.divisor`, wrong) };
  return { name: String(json.name ?? where), shape, dtype, seen, ...divisor };
}

function shardOf(value: unknown, where: string, rowBytes: number | null, wrong: Wrong): Shard {
  const { name, sha256, ...json } = (value ?? {}) as Json;
  if (typeof name !== "string" || !SHARD_NAME.test(name)) throw wrong(`has no name of a file in ${where}`);
  if (typeof sha256 !== "string" || !/^[0-9a-f]{64}$/.test(sha256)) throw wrong(`has no sha256 in ${where}`);
  const samples = whole(json.samples, `${where}.samples`, wrong),
    bytes = whole(json.bytes, `${where}.bytes`, wrong);
  if (rowBytes !== null && bytes !== packed.HEADER_BYTES + samples * rowBytes) {
    throw wrong(
      `says that ${name} has ${bytes} bytes, and ${samples} samples take ${
        packed.HEADER_BYTES + samples * rowBytes
      }`,
    );
  }
  return { name, samples, bytes, sha256 };
}

function whole(value: unknown, where: string, wrong: Wrong): number {
  if (typeof value === "number" && Number.isSafeInteger(value) && value >= 1) return value;
  throw wrong(`has ${short(value)} as ${where}, where a whole number from 1 on belongs`);
}

function list(value: unknown, where: string, wrong: Wrong): unknown[] {
  if (Array.isArray(value)) return value;
  throw wrong(`has no list ${where}`);
}

const short = (value: unknown) => String(JSON.stringify(value)).slice(0, 80);

export function verifyShards(folder: string, quiet: boolean): string {
  const { train, val } = readIndex(folder);
  const shards = [...train, ...val];
  const total = shards.reduce((sum, { samples }) => sum + samples, 0);
  const progress = openProgress("Verifying", { quiet });
  const wrong: string[] = [];
  let done = 0;
  for (const { name, bytes, sha256, samples } of shards) {
    const path = join(folder, name), size = fileSizeOf(path);
    if (size < 0) wrong.push(`${name} is not there`);
    else if (size !== bytes) wrong.push(`${name} has ${size} of ${bytes} bytes`);
    else if (sha256Of(path) !== sha256) wrong.push(`${name} has another checksum`);
    progress.update({ done: done += samples, kept: 0, total });
  }
  progress.clear();
  const size = formatBytes(shards.reduce((sum, { bytes }) => sum + bytes, 0));
  if (wrong.length === 0) {
    return `verified: every checksum is right (${formatPlural(shards.length, "shard")}, ${size})`;
  }
  throw new UserError(
    "data",
    `${folder} is damaged: ${wrong.slice(0, MOST).join(", ")}${wrong.length > MOST ? ", ..." : ""} ` +
      `(${wrong.length} of ${
        formatPlural(shards.length, "shard")
      }). Copy these again, or delete them and run the ` +
      "same pack command again: it writes what is missing.",
  );
}

const MOST = 10;
