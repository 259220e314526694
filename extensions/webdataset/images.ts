// Images of a WebDataset with classes or numbers; threads decode them where they lie in the shards.
import type { Config } from "../../core/settings/settings.ts";
import { isOfNumbers } from "../../core/settings/losses.ts";
import { UserError } from "../../core/base/errors.ts";
import { isCode } from "../../core/models/user/file.ts";
import { formatPlural } from "../../core/base/format.ts";
import { chooseColumns } from "../../core/data/tables/choose.ts";
import type { Column, Table } from "../../core/data/arrays/table.ts";
import { bytesOf, partOf, product, typedView } from "../../core/data/arrays/numbers.ts";
import type { DataRequest, Sources } from "../../core/data/format.ts";
import { openPool } from "../../core/data/arrays/files.ts";
import { divide, unusedNote } from "../../core/data/source/order.ts";
import { type Source, threadedSource } from "../../core/data/source/source.ts";
import { headerOf } from "../../core/data/images/header.ts";
import { imageParts, sizes, turboJpeg } from "../../core/data/images/stored.ts";
import { naming, type Sized } from "../../core/data/images/listing.ts";
import { checkWhole, type TarSamples } from "./samples.ts";
import { nameOf, type ShardImages, type ShardImagesSpec, TAR_IMAGES_READER } from "./reader.ts";

interface Target {
  /** A row for each sample. */
  readonly values: Float32Array | BigInt64Array;
  readonly shape: readonly number[];
  readonly task: "classification" | "regression";
  readonly outputs: number;
  readonly names?: readonly string[];
  readonly note: string;
}

export function openImages(
  samples: TarSamples,
  image: string,
  table: Table,
  { data, training, model }: DataRequest,
): Sources {
  const { count, path } = samples, members = samples.members.get(image)!;
  checkWhole(samples, image, members);
  const target = training.withoutTargets ? unknown(count, model) : targetOf(table, data, training, model);
  const turbo = turboJpeg();
  const images = imagesOf(samples, image, turbo);
  const chosen = divide(count, data, training.seed, training.unsplit);
  const notes = [
    `JPEG is decoded by ${turbo ?? "this program itself, without libturbojpeg"}`,
    ...(target.note === "" ? [] : [target.note]),
    ...unusedNote(count - chosen.train.length - chosen.val.length, data, "image"),
  ];
  const make = (indices: Int32Array) => source(path, images, target, indices, data);
  return { train: make(chosen.train), val: chosen.val.length > 0 ? make(chosen.val) : null, notes };
}

const unknown = (count: number, model: Config["model"]): Target => ({
  ...{
    values: new BigInt64Array(count),
    shape: [],
    task: "classification",
    outputs: model.output_size || 1,
    note: "",
  },
});

/** One column of whole numbers or texts is classes, unless the loss or the model's outputs mean a quantity. */
function targetOf(
  table: Table,
  data: Config["data"],
  { loss }: DataRequest["training"],
  { output_size }: Config["model"],
): Target {
  const columns = table.columns.filter(({ name }) => !data.features.includes(name));
  const features = [{ ...columns[0], name: "the image", unusable: undefined, onlyByName: false }];
  const { targets } = chooseColumns({ ...table, columns: [...features, ...columns] }, {
    features: ["the image"],
    targets: data.targets,
  });
  const [first] = targets, read = targets.map(numbersOf);
  // A loss of a user's own takes classes where the model gives a score for each.
  const numeric = isOfNumbers(loss) && !(isCode(loss) && output_size > 1) || output_size === 1;
  const isWhole = targets.length === 1 && first.shape.length === 1 && read[0].every(Number.isInteger);
  if (targets.length > 1 && targets.some(({ text }) => text)) {
    const text = targets.find(({ text }) => text)!;
    throw new UserError(
      "data",
      `${table.path}: "${text.name}" holds text, and only a single target may: its texts are classes.`,
    );
  }
  if (isWhole && (first.text || !numeric)) {
    const least = read[0].reduce((a, b) => Math.min(a, b)), most = read[0].reduce((a, b) => Math.max(a, b));
    if (least < 0 || most >= MOST_CLASSES) {
      throw new UserError(
        "data",
        `${table.path}: "${first.name}" of sample ${
          read[0].findIndex((value) => value < 0 || value >= MOST_CLASSES)
        } is ` +
          `${least < 0 ? least : most}, and classes are numbered 0 to ${
            MOST_CLASSES - 1
          }. If it is a quantity, say --loss mse.`,
      );
    }
    const names = first.text?.classes(), outputs = Math.max(output_size, names?.length ?? most + 1);
    return {
      ...{ values: BigInt64Array.from(read[0], BigInt), shape: [], task: "classification", outputs, names },
      note: `Target ${first.name} is ${names ? "text" : "whole numbers"}, taken as ${outputs} classes`,
    };
  }
  const each = targets.map(({ shape }) => product(shape.slice(1))), outputs = each.reduce((a, b) => a + b);
  if (targets.some(({ shape }) => shape.length > 2)) {
    throw new UserError(
      "data",
      `${table.path}: targets of images are classes or numbers, and "${first.name}" is a map.`,
    );
  }
  const samples = read[0].length / each[0], values = new Float32Array(samples * outputs);
  for (let row = 0, to = 0; row < samples; row++) {
    targets.forEach((_, t) => {
      for (let i = 0; i < each[t]; i++) values[to++] = read[t][row * each[t] + i];
    });
  }
  const bad = values.findIndex((value) => !Number.isFinite(value));
  if (bad >= 0) {
    throw new UserError(
      "data",
      `${table.path}: a target of sample ${
        Math.floor(bad / outputs)
      } is NaN or infinite. Repair it, or leave the sample ` +
        "out of the shards.",
    );
  }
  const names = outputs === targets.length ? targets.map(({ name }) => name) : undefined;
  return { values, shape: [outputs], task: "regression", outputs, names, note: "" };
}

const MOST_CLASSES = 1e6;

const numbersOf = ({ read, dtype }: Column): number[] =>
  Array.from(typedView(bytesOf(read()), dtype) as ArrayLike<number>, Number);

function imagesOf(
  { shards, starts, members, keys }: TarSamples,
  image: string,
  turbo: string | null,
): ShardImages {
  const names = new TextEncoder().encode(keys.map((key) => `${key}.${image}`).join("\0"));
  const shared = new Uint8Array(new SharedArrayBuffer(names.length));
  shared.set(names);
  return { shards, starts, ...members.get(image)!, names: shared, turbo };
}

function source(
  path: string,
  images: ShardImages,
  target: Target,
  indices: Int32Array,
  data: Config["data"],
): Source {
  const { text, ...size } = sizes((index) => sizeOf(images, index), indices, data);
  const bytes = new Uint8Array(new SharedArrayBuffer(target.values.byteLength));
  bytes.set(new Uint8Array(target.values.buffer));
  const { task, outputs, names } = target, isClass = task === "classification";
  const reader: ShardImagesSpec = {
    module: TAR_IMAGES_READER,
    images: { ...images, deep: size.deep },
    targets: bytes,
  };
  return threadedSource({
    ...{ name: path, length: indices.length, indices, task, outputs, names },
    reader,
    ...imageParts(size),
    target: { name: isClass ? "labels" : "targets", shape: target.shape, dtype: isClass ? "i64" : "f32" },
    bad: data.bad_samples,
    description: `${path}: ${formatPlural(indices.length, "image")} of ${text} -> ` +
      (isClass ? `${outputs} classes` : formatPlural(outputs, "number")),
    pathOf: (index) => nameOf(images, index),
  });
}

function sizeOf(images: ShardImages, index: number): Sized {
  const { shards, starts, at, sizes } = images, pool = openPool();
  try {
    const file = new Uint8Array(sizes[index]);
    pool.passing(shards[partOf(starts, index)]).read(file, at[index]);
    return naming(nameOf(images, index), (path) => ({ path, ...headerOf(file) }));
  } finally {
    pool.close();
  }
}
