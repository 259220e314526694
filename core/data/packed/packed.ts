// Packed shards -> samples to train and validate with: held in memory, or read as they are wanted. May import errors,
// config, its siblings, memory, order, reading.
import { join } from "../../../deps/path.ts";
import { div, toDtype } from "../../../ffi/ops.ts";
import { constant } from "../../../ffi/make.ts";
import { scope, type Tensor } from "../../../ffi/tensor.ts";
import type { Config } from "../../config/settings.ts";
import { UserError } from "../../errors.ts";
import { formatPlural } from "../../format.ts";
import { MOST_POSITIONS } from "../../random.ts";
import { memorySource } from "../memory.ts";
import { heldOut, splitIndices } from "../order.ts";
import { type ThreadedParts, threadedSource } from "../reading/threaded_source.ts";
import { checkRoom, heldInMemory } from "../room.ts";
import { answerText, type Batch, type Source } from "../source.ts";
import { USUAL } from "../transforms/usual.ts";
import { sizes } from "../images/sizes.ts";
import { turboJpeg } from "../images/turbo.ts";
import { encodedSize, encodedSpec } from "./encoded_reader.ts";
import { fieldBytes, type Index, type Shard, type StoredField } from "./format.ts";
import { readIndex } from "./index_file.ts";
import { loadRows } from "./load.ts";
import { sizeOf } from "./new_file.ts";
import { packedSpec } from "./reader.ts";
import { chosenTargets, withTargets } from "./targets.ts";

export interface PackedSettings {
  readonly data: Config["data"];
  readonly seed: number;
}

interface Sets {
  readonly train: Source;
  readonly val: Source | null;
  readonly notes: readonly string[];
}

/** The folder's own validation set where it has one, else a share of its samples. */
export function packed({ data, seed }: PackedSettings): Sets {
  const folder = data.data_path;
  const index = readIndex(folder);
  const shards = [...index.train, ...index.val];
  checkShards(folder, shards);
  const count = (list: readonly Shard[]) => list.reduce((sum, { samples }) => sum + samples, 0);
  const { train, val, unused } = choose(count(index.train), count(index.val), data, seed);
  const notes = unused > 0
    ? [
      `Not used: ${formatPlural(unused, "sample")}, because train_samples is ${data.train_samples} and ` +
      `val_samples ${data.val_samples}`,
    ]
    : [];
  const open = opener(folder, index, shards, train.length + val.length, data, notes);
  const columns = chosenTargets(folder, index.schema, data.targets, notes);
  const make = (ids: Int32Array) => columns ? withTargets(open(ids), columns) : open(ids);
  return { train: make(train), val: val.length > 0 ? make(val) : null, notes };
}

/** The readers that this folder's samples need. */
export const readersOf = (folder: string): string[] =>
  readIndex(folder).schema.encoding === "encoded" ? ["packed-encoded"] : ["packed"];

/** Before anything is read: what is there, and whole. */
function checkShards(folder: string, shards: readonly Shard[]): void {
  for (const { name, bytes } of shards) {
    const size = sizeOf(join(folder, name));
    if (size === bytes) continue;
    throw new UserError(
      "data",
      `${join(folder, name)} ${
        size < 0 ? "is not there" : `has ${size} bytes, and ${bytes} belong to it`
      }. ` +
        "Copy it again, or run the same pack command again: it writes what is missing.",
    );
  }
  const samples = shards.reduce((sum, shard) => sum + shard.samples, 0);
  if (samples > MOST_POSITIONS || samples === 0) {
    throw new UserError(
      "data",
      `${folder} has ${samples} samples; from 1 to ${MOST_POSITIONS} can be put in order.`,
    );
  }
}

/** Sample numbers: those to train with come first in the shards, those to validate with after them. */
function choose(train: number, val: number, data: Config["data"], seed: number) {
  const most = { train: data.train_samples, val: data.val_samples };
  const of = (total: number, wanted: number, first: number) =>
    splitIndices(total, { train: Math.min(wanted, total), val: 0 }, seed).train.map((id) => first + id);
  if (val > 0) {
    const chosen = { train: of(train, most.train, 0), val: of(val, most.val, train) };
    return { ...chosen, unused: train + val - chosen.train.length - chosen.val.length };
  }
  const held = most.val === 0 ? 0 : heldOut(train, data.validation_split);
  const part = { train: Math.min(most.train, train - held), val: Math.min(most.val, held) };
  return { ...splitIndices(train, part, seed), unused: train - part.train - part.val };
}

/** Makes the sources of these samples; `wanted` is how many there will be in all. */
function opener(
  folder: string,
  index: Index,
  shards: readonly Shard[],
  wanted: number,
  data: Config["data"],
  notes: string[],
): (ids: Int32Array) => Source {
  const { layout, schema: { input, target, task, outputs, names } } = index;
  const parts = {
    name: folder,
    task,
    outputs,
    names,
    description: `${folder}: ${sizeText(index)} -> ${
      answerText(task, outputs, target.shape)
    }, packed from ${index.origin.said}`,
    usual: USUAL[index.origin.kind],
    bytewise: input.seen === "f32",
    finish: ({ input: x, target: y }: Batch) => ({ input: seen(x, input), target: seen(y, target) }),
  };
  if (!layout) return images(folder, index, shards, parts, data);
  const bytes = wanted * (layout.inputBytes + layout.targetBytes);
  if (heldInMemory(data.in_memory, bytes)) {
    checkRoom(folder, bytes, wanted, "Say --in-memory auto to have them read as they are wanted.");
    const fields = [input.name, target.name] as const;
    return (ids) =>
      scope(() => {
        const loaded = loadRows(folder, shards, index, ids, data.bad_samples);
        const lost = ids.length - loaded.indices.length;
        if (lost > 0) notes.push(`Left out ${formatPlural(lost, "damaged sample")} (--bad-samples skip)`);
        return memorySource({ ...parts, fields, ...loaded });
      });
  }
  const reader = packedSpec(folder, shards, input, layout);
  const bad = data.bad_samples;
  return (indices) =>
    threadedSource({ ...parts, length: indices.length, indices, reader, stored: input, target, bad });
}

/** Decoded as they are wanted; their sizes may differ, so they are made equal as those of files are. */
function images(
  folder: string,
  { schema }: Index,
  shards: readonly Shard[],
  parts: Omit<ThreadedParts, "length" | "indices" | "reader" | "stored" | "target" | "bad">,
  data: Config["data"],
): (ids: Int32Array) => Source {
  const { input, target } = schema;
  const reader = encodedSpec(folder, shards, fieldBytes(target), turboJpeg());
  return (indices) => {
    const { width, height } = sizes((index) => encodedSize(reader, index), indices, data);
    const stored = { ...input, shape: [3, height, width] };
    return threadedSource({
      ...parts,
      length: indices.length,
      indices,
      reader,
      stored,
      target,
      bad: data.bad_samples,
    });
  };
}

const seen = (values: Tensor, { seen, divisor }: StoredField): Tensor => {
  const numbers = toDtype(values, seen);
  return divisor ? div(numbers, constant(divisor, seen, values.device)) : numbers;
};

function sizeText({ schema: { encoding, task, input: { shape, dtype } } }: Index): string {
  if (encoding === "encoded") return "images";
  if (task === "language") return `windows of ${shape.join(" x ")}`;
  if (shape.length === 1) return formatPlural(shape[0], "feature");
  const what = dtype === "u8" && shape.length === 3 ? "images" : "samples";
  return `${what} of [${shape.join(", ")}]`;
}
