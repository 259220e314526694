// Packed shards are loaded into memory where they fit, and read by threads otherwise.
import { constant, tensor, toDevice } from "../../../ffi/make.ts";
import { div, indexSelect, toDtype } from "../../../ffi/ops.ts";
import { scope, type Tensor } from "../../../ffi/tensor.ts";
import { UserError } from "../../base/errors.ts";
import { loadReader } from "../source/reader.ts";
import type { DataRequest, Sources } from "../format.ts";
import { fieldBytes, type Index, type PackedSchema, type Shard, type StoredField } from "./schema.ts";
import { didYouMean } from "../../base/suggest.ts";
import { answerText, type Batch, type Source, type ThreadedParts, threadedSource } from "../source/source.ts";
import { join } from "../../../deps/path.ts";
import type { Config } from "../../settings/settings.ts";
import { formatPlural } from "../../base/format.ts";
import { MOST_POSITIONS } from "../../base/random.ts";
import { checkFreeMemory, heldInMemory } from "../../base/memory.ts";
import { memorySource } from "../source/memory.ts";
import { divide, someOf, unusedNote } from "../source/order.ts";
import { USUAL } from "../transforms/values.ts";
import { sizes, turboJpeg } from "../images/stored.ts";
import { encodedReader, encodedSize, encodedSpec } from "./encoded_reader.ts";
import { readIndex } from "./index.ts";
import { fileSizeOf } from "../../base/new_file.ts";
import { loadRows } from "./loaded_rows.ts";
import { packedReader, packedSpec } from "./reader.ts";

function chosenTargets(
  folder: string,
  { task, target, names = [] }: PackedSchema,
  wanted: readonly string[],
  notes: string[],
): readonly number[] | null {
  if (wanted.length === 0 || wanted.join() === names.join()) return null;
  if (task !== "regression" || target.shape.join() !== String(names.length)) {
    // The settings used for packing may stay: they chose the target then.
    notes.push(`No effect: data.targets, as the target in ${folder} is no list of numbers with names`);
    return null;
  }
  return wanted.map((name) => {
    const column = names.indexOf(name);
    if (column >= 0) return column;
    throw new UserError(
      "usage",
      `${folder} has no target "${name}".${didYouMean(name, names)} It has ${names.join(", ")}.`,
    );
  });
}

function withTargets(source: Source, columns: readonly number[]): Source {
  const { names = [], target, facts, reference, units } = source;
  const chosen = columns.map((column) => names[column]);
  return {
    ...source,
    names: chosen,
    units: units && { mean: columns.map((i) => units.mean[i]), std: columns.map((i) => units.std[i]) },
    reference: reference && columns.map((column) => reference[column]),
    describe: () => `${source.describe()}; of these: ${chosen.join(", ")}`,
    target: { ...target, shape: [columns.length] },
    facts: { ...facts, outputs: columns.length },
    finish: (raw, part) =>
      scope(() => {
        const { input, target } = source.finish(raw, part);
        const index = toDevice(tensor(Int32Array.from(columns)), target.device);
        return { input, target: indexSelect(target, 1, index) };
      }),
  };
}

/** Without a validation set in the folder, a share of its samples validates. */
export function openPacked({ data, training: { seed } }: DataRequest): Sources {
  const folder = data.data_path;
  const index = readIndex(folder);
  const shards = [...index.train, ...index.val];
  checkShards(folder, shards);
  const count = (list: readonly Shard[]) => list.reduce((sum, { samples }) => sum + samples, 0);
  const { train, val, unused } = choose(count(index.train), count(index.val), data, seed);
  const notes = unusedNote(unused, data);
  const open = opener(folder, index, shards, train.length + val.length, data, notes);
  const columns = chosenTargets(folder, index.schema, data.targets, notes);
  const { leads } = index.schema;
  const make = (ids: Int32Array): Source => {
    const source = { ...open(ids), packedFrom: index.origin.kind };
    return columns ? withTargets(source, columns) : leads ? { ...source, leads } : source;
  };
  const divides = index.val.length > 0 && val.length > 0;
  return {
    train: make(train),
    val: val.length > 0 ? make(val) : null,
    ...(divides && { divided: `the validation set in ${folder}` }),
    notes,
  };
}

export const loadPackedReader = (folder: string): Promise<void> =>
  loadReader({
    module: readIndex(folder).schema.encoding === "encoded" ? encodedReader : packedReader,
  });

function checkShards(folder: string, shards: readonly Shard[]): void {
  for (const { name, bytes } of shards) {
    const size = fileSizeOf(join(folder, name));
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

/** Training samples come first in the shards, validation samples after them. */
function choose(train: number, val: number, data: Config["data"], seed: number) {
  const most = { train: data.train_samples, val: data.val_samples };
  const of = (total: number, wanted: number, first: number) =>
    someOf(total, wanted, seed).map((id) => first + id);
  if (val > 0) {
    const chosen = { train: of(train, most.train, 0), val: of(val, most.val, train) };
    return { ...chosen, unused: train + val - chosen.train.length - chosen.val.length };
  }
  const chosen = divide(train, data, seed);
  return { ...chosen, unused: train - chosen.train.length - chosen.val.length };
}

function opener(
  folder: string,
  index: Index,
  shards: readonly Shard[],
  wanted: number,
  data: Config["data"],
  notes: string[],
): (ids: Int32Array) => Source {
  const { layout, schema: { input, target, task, outputs, names } } = index;
  const missing = data.missing === "fail" ? undefined : index.schema.missing;
  const parts = {
    name: folder,
    task,
    outputs,
    names,
    description: `${folder}: ${sizeText(index)} -> ${
      answerText(task, outputs, target.shape)
    }, packed from ${index.origin.said}`,
    usual: USUAL[index.origin.kind],
    missing,
    bytewise: input.seen === "f32",
    finish: ({ input: x, target: y }: Batch) => ({ input: seen(x, input), target: seen(y, target) }),
  };
  if (!layout) return images(folder, index, shards, parts, data);
  const bytes = wanted * (layout.inputBytes + layout.targetBytes);
  if (heldInMemory(data.in_memory, bytes)) {
    checkFreeMemory(folder, bytes, wanted, "Say --in-memory auto to have them read as they are wanted.");
    const fields = [input.name, target.name] as const;
    return (ids) =>
      scope(() => {
        const loaded = loadRows(folder, shards, index, layout, ids, data.bad_samples);
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

/** Sizes of images may differ, so they are made equal as those of files are. */
function images(
  folder: string,
  { schema }: Index,
  shards: readonly Shard[],
  parts: Omit<ThreadedParts, "length" | "indices" | "reader" | "stored" | "target" | "bad">,
  data: Config["data"],
): (ids: Int32Array) => Source {
  const { input, target } = schema;
  const reader = encodedSpec(folder, shards, fieldBytes(target), turboJpeg(), input.dtype === "f32");
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
