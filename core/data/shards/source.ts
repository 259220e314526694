// Packed shards are loaded into memory where they fit, and read by threads otherwise.
import { askForHugePages } from "../../../ffi/libc.ts";
import { borrowBytes, constant, memoryBlockOf, tensor, toDevice, uninitialised } from "../../../ffi/make.ts";
import { div, indexSelect, narrow, toDtype } from "../../../ffi/ops.ts";
import { scope, type Tensor } from "../../../ffi/tensor.ts";
import { UserError } from "../../base/errors.ts";
import { BadSample } from "../arrays/rows.ts";
import { loadReader } from "../source/reader.ts";
import type { DataRequest, Sources } from "../format.ts";
import {
  fieldBytes,
  HEADER_BYTES,
  type Index,
  inputOf,
  type PackedSchema,
  type RowLayout,
  type Shard,
  type StoredField,
  targetOf,
} from "./schema.ts";
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
import { crc32 } from "node:zlib";
import { partOf } from "../arrays/numbers.ts";
import { damagedSample, openShards, packedReader, packedSpec, startsOf } from "./reader.ts";

interface Loaded {
  readonly input: Tensor;
  readonly target: Tensor;
  readonly indices: Int32Array;
}

function loadRows(
  folder: string,
  shards: readonly Shard[],
  { schema: { input, target } }: Index,
  layout: RowLayout,
  ids: Int32Array,
  bad: "fail" | "skip",
): Loaded {
  const { inputBytes, targetBytes } = layout;
  return scope(() => {
    const make = (field: typeof input) => uninitialised([ids.length, ...field.shape], { dtype: field.dtype });
    const rows = { input: make(input), target: make(target) };
    askForHugePages(memoryBlockOf(rows.input));
    const inputs = borrowBytes(rows.input), targets = borrowBytes(rows.target);
    const kept = new Int32Array(ids.length);
    let count = 0;
    const files = openShards(folder, shards.map(({ name }) => name));
    try {
      const rowOf = openWindow(files, shards, layout, ids.length);
      for (const id of ids) {
        try {
          const row = rowOf(id);
          inputs.set(row.input, count * inputBytes);
          targets.set(row.target, count * targetBytes);
          kept[count++] = id;
        } catch (error) {
          if (!(error instanceof BadSample)) throw error;
          if (bad === "skip") continue;
          throw new UserError("data", `Sample ${id} (${error.path}) ${error.reason}.`, { cause: error });
        }
      }
    } finally {
      files.close();
    }
    if (count === ids.length) return { ...rows, indices: ids };
    if (count === 0) {
      throw new UserError("data", `Every sample in ${folder} is damaged. Copy the folder again.`);
    }
    const good = (all: Tensor) => narrow(all, 0, 0, count);
    return { input: good(rows.input), target: good(rows.target), indices: kept.slice(0, count) };
  });
}

const WINDOW_BYTES = 8 << 20;

type Files = ReturnType<typeof openShards>;

type Row = { readonly input: Uint8Array; readonly target: Uint8Array };

/** Rows come in ascending order, and are valid until the next. */
function openWindow(
  files: Files,
  shards: readonly Shard[],
  layout: NonNullable<Index["layout"]>,
  wanted: number,
): (id: number) => Row {
  const { rowBytes, crcAt } = layout;
  const starts = startsOf(shards);
  const many = wanted > starts[shards.length] / 4;
  const most = many ? Math.max(1, Math.floor(WINDOW_BYTES / rowBytes)) : 1;
  let window = new Uint8Array(0), view = new DataView(window.buffer), from = 0, to = 0;
  return (id) => {
    const shard = partOf(starts, id);
    if (id < from || id >= to) {
      from = id;
      to = Math.min(id + most, starts[shard + 1]);
      window = new Uint8Array((to - from) * rowBytes);
      view = new DataView(window.buffer);
      files.read(shard, window, HEADER_BYTES + (from - starts[shard]) * rowBytes);
    }
    const i = id - from;
    const input = inputOf(window, layout, i), target = targetOf(window, layout, i);
    if (crc32(target, crc32(input)) !== view.getUint32(i * rowBytes + crcAt, true)) {
      throw damagedSample(files.path(shard));
    }
    return { input, target };
  };
}

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
