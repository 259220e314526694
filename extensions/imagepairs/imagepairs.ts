// Folders of images and, beside them, of label images: the class of each pixel as a grey value or a place in a
// palette. An image and its label have the same name.
import { join, relative } from "../../deps/path.ts";
import { UserError } from "../../core/base/errors.ts";
import { formatPlural } from "../../core/base/format.ts";
import type { DataReader, DataRequest, Sources } from "../../core/data/format.ts";
import { divide, someOf, unusedNote } from "../../core/data/source/order.ts";
import { BadSample } from "../../core/data/arrays/rows.ts";
import { type Source, threadedSource } from "../../core/data/source/source.ts";
import { openReusedBuffer } from "../../core/data/images/header.ts";
import { imageParts, sizes, turboJpeg } from "../../core/data/images/stored.ts";
import {
  imageCount,
  type ImagePairs,
  imagePath,
  imageSizeOf,
  type Listing,
  naming,
  pairImages,
  readFile,
} from "../../core/data/images/listing.ts";
import {
  type Folders,
  IMAGE_FOLDERS,
  LABELS,
  type Names,
  pairFoldersIn,
  partIn,
  TEST,
  TRAIN,
  USUAL_NAMES,
  VAL,
} from "./format.ts";
import { openLabels, type PairsSpec } from "./reader.ts";
import { loadReader, openReader } from "../../core/data/source/reader.ts";
import { openSamples, type Preview, type SampleAt } from "../../core/data/preview/preview.ts";
import { colourOfClass, type Raster, rowMajorStrides } from "../../core/data/preview/picture.ts";

const PAIRS_READER: string = new URL("./reader.ts", import.meta.url).href;

/** The images to train with; `divided` where other parts have folders of their own. */
function trainingFolders(path: string, of = USUAL_NAMES): { divided: boolean; folders: Folders } {
  const divided = partIn(path, TRAIN, of), folders = divided ?? pairFoldersIn(path, of);
  if (folders) return { divided: divided !== null, folders };
  const [images, labels] = [of.images[0], of.labels[0]];
  throw new UserError(
    "data",
    `${path} has no folders ${images} and ${labels} (or train/${images} and train/${labels}) in it, which image pairs are ` +
      "read from. Folders of other names are named as --features IMAGE_FOLDERS --targets LABELS, with --data-type imagepairs.",
  );
}

/** --features and --targets name the folders. */
const namesOf = ({ features, targets }: DataRequest["data"]): Names => ({
  images: features.length === 1 ? features : IMAGE_FOLDERS,
  labels: targets.length === 1 ? targets : LABELS,
});

export function openPairs(request: DataRequest): Sources {
  const { data, training: { seed, ignore_index: ignored } } = request, path = data.data_path;
  const of = namesOf(data), { divided, folders } = trainingFolders(path, of);
  const paired = ({ images, labels }: Folders) => pairImages(images, labels);
  const own = (names: readonly string[]) => {
    const found = divided ? partIn(path, names, of) : null;
    return found && paired(found);
  };
  const train = paired(folders), val = data.val_samples > 0 ? own(VAL) : null, test = own(TEST);
  const { note, ...classes } = classesOf(path, train, request);
  const total = imageCount(train.images);
  const chosen = divide(total, data, seed, val !== null), turbo = turboJpeg();
  const all = (pairs: ImagePairs, most: number) => someOf(imageCount(pairs.images), most, seed);
  const valIndices = val ? all(val, data.val_samples) : chosen.val;
  const there = total + (val ? imageCount(val.images) : 0);
  const make = (pairs: ImagePairs, indices: Int32Array) =>
    source(pairs, indices, { ...classes, turbo, ignored }, request);
  return {
    train: make(train, chosen.train),
    ...(val && { divided: `${path}/${VAL.find((name) => partIn(path, [name], of))}` }),
    val: valIndices.length > 0 ? make(val ?? train, valIndices) : null,
    test: test && make(test, all(test, imageCount(test.images))),
    notes: [
      note,
      ...unusedNote(there - chosen.train.length - valIndices.length, data, "image"),
      ...[train, val, test].flatMap((pairs) => pairs && pairs.others.count > 0 ? [leftOut(pairs)] : []),
      ...(ignored >= 0 ? [`Pixels of the class ${ignored} count nowhere (training.ignore_index)`] : []),
    ],
  };
}

const leftOut = ({ labels, others: { count, example } }: ImagePairs): string =>
  `Left out ${formatPlural(count, "label image")} in ${labels.root} without an image, such as ${example}`;

/** So many label images are looked at for the number of classes, and to show them. */
const LOOKED_AT = 64;

interface Classes {
  readonly names: readonly string[];
  readonly outputs: number;
  /** The number that is stored for each class, where it is not the class itself. */
  readonly values: readonly number[] | null;
  readonly note: string;
}

/** Names of classes are lines of classes.txt; otherwise label images say how many there are. */
function classesOf(
  path: string,
  { labels }: ImagePairs,
  { data, model, training: { ignore_index: ignored, classes = 0 } }: DataRequest,
): Classes {
  const file = join(path, NAMES), names = classNamesIn(path), count = imageCount(labels);
  const stored = numbersIn(labels, data.bad_samples), numbers = stored.filter((number) => number !== ignored);
  const values = levelsAmong(numbers, names.length || model.output_size || classes),
    spread = values && `, ${values.join(", ")} in the files`;
  const where = count > LOOKED_AT ? `${LOOKED_AT} of ${count}` : "all";
  if (names.length > 0) {
    const note = `Classes are named in ${file}${spread ?? ""}`;
    return { names, outputs: model.output_size || names.length, values, note };
  }
  if (model.output_size > 0) {
    const note = `Labels are of ${model.output_size} classes (--output-size)${spread ?? ""}`;
    return { names, outputs: model.output_size, values, note };
  }
  if (values) {
    const note = `Labels are of ${values.length} classes: ${where} label images have the values ${
      values.join(", ")
    }`;
    return { names, outputs: values.length, values, note };
  }
  const most = numbers.at(-1) ?? -1;
  if (most === 255 && ignored !== 255) {
    throw new UserError(
      "data",
      `Label images in ${labels.root} have the class 255, which mostly stands for "unknown": say --set ` +
        "training.ignore_index=255, or --output-size 256 if there are so many classes.",
    );
  }
  const note = `Labels are of ${
    most + 1
  } classes, the most in ${where} label images (--output-size says otherwise)`;
  return { names, outputs: Math.max(1, most + 1), values, note };
}

const MOST_LEVELS = 9;

/**
 * Masks that are drawn have their classes as even steps from black to white: 0 and 255, or 0, 127 and 255. Where `known` tells how
 * many there are, these images may lack some; 0 tells nothing.
 */
function levelsAmong(numbers: readonly number[], known: number): readonly number[] | null {
  const seen = numbers.length, count = known > seen && known <= MOST_LEVELS ? known : seen, steps = count - 1;
  if (!(steps >= 1 && count <= MOST_LEVELS && (numbers.at(-1) ?? 0) >= count)) return null;
  const levels = Array.from({ length: count }, (_, i) => {
    const level = 255 * i / steps;
    return numbers.find((number) => Math.abs(number - level) < 1) ?? Math.floor(level);
  });
  return numbers.every((number) => levels.includes(number)) ? levels : null;
}

/** The numbers in the label images that are looked at, rising. */
function numbersIn(labels: Listing, bad: DataRequest["data"]["bad_samples"]): number[] {
  const total = imageCount(labels), count = Math.min(total, LOOKED_AT);
  const read = openLabels(), room = openReusedBuffer(), found = new Set<number>();
  for (let i = 0; i < count; i++) {
    try {
      const numbers = naming(
        imagePath(labels, Math.floor(i * total / count)),
        (path) => read(readFile(path, room), null, (pixels) => new Int32Array(pixels)),
      );
      for (const number of numbers) found.add(number);
    } catch (error) {
      if (!(error instanceof BadSample)) throw error;
      if (bad === "fail") {
        throw new UserError("data", `${error.path} ${error.reason}.`, { cause: error });
      }
    }
  }
  return [...found].sort((a, b) => a - b);
}

const NAMES = "classes.txt";

export function classNamesIn(path: string): readonly string[] {
  try {
    return Deno.readTextFileSync(join(path, NAMES)).split("\n").map((line) => line.trim()).filter((line) =>
      line !== ""
    );
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return [];
    throw error;
  }
}

interface Labelling extends Omit<Classes, "note"> {
  readonly turbo: string | null;
  readonly ignored: number;
}

function source(
  { images, labels }: ImagePairs,
  indices: Int32Array,
  { names, outputs, values, turbo, ignored }: Labelling,
  { data }: DataRequest,
): Source {
  const { text, ...size } = sizes((index) => imageSizeOf(images, index), indices, data, true),
    { width, height } = size;
  const reader: PairsSpec = {
    ...{ module: PAIRS_READER, images, labels, turbo, deep: size.deep, classes: outputs, ignored },
    ...{ sides: [height, width], values },
  };
  return threadedSource({
    name: images.root,
    length: indices.length,
    indices: indices.length === imageCount(images) ? null : indices,
    reader,
    ...imageParts(size),
    target: { name: "labels", shape: [height, width], dtype: "i32" },
    bad: data.bad_samples,
    task: "segmentation",
    outputs,
    names: names.length > 0 ? names : undefined,
    description: `${images.root}: ${
      formatPlural(indices.length, "image")
    } of ${text} -> ${outputs} classes a pixel`,
    ...(ignored >= 0 && { missing: { input: false, target: true } }),
    pathOf: (index) => imagePath(images, index),
  });
}

export const reader: DataReader = {
  prepare: async () => {
    await import("./reader.ts"); // named here, so that it is in the executable
    await loadReader({ module: PAIRS_READER });
  },
  open: openPairs,
  preview: previewPairs,
};

const MOST_CLASSES = 2 ** 31;

function previewPairs<R>(path: string, use: (preview: Preview) => R): R {
  const { folders } = trainingFolders(path);
  const { images, labels, others } = pairImages(folders.images, folders.labels);
  const count = imageCount(images), { height, width } = imageSizeOf(images, 0), names = classNamesIn(path);
  const spec: PairsSpec = {
    ...{ module: PAIRS_READER, images, labels, turbo: null },
    ...{ sides: [height, width], classes: MOST_CLASSES, ignored: -1 },
  };
  const reader = openReader(spec);
  const sampleAt = openSamples(reader, { shape: [height, width], dtype: "i32" });
  try {
    return use({
      path,
      kind: "images with a class for each pixel",
      bytes: null,
      samples: count,
      noun: "field",
      facts: {
        "train with": `${images.root}: ${count} images of ${height} x ${width}`,
        "pixels of each class": sharesOf(sampleAt, count, names),
        ...(others.count > 0
          ? { "left out": `${others.count} label images without an image, such as ${others.example}` }
          : {}),
      },
      fields: [
        { name: "images", shape: [count, 3, height, width], dtype: "u8", read: null },
        { name: "labels", shape: [count, height, width], dtype: "i32", read: null },
      ],
      classes: null,
      pictures: {
        field: "images, with labels beside them",
        count,
        raster: (sample) => besideLabels(sampleAt(sample)),
        caption: (sample) => relative(images.root, imagePath(images, sample)),
      },
    });
  } finally {
    reader.close();
  }
}

function sharesOf(sampleAt: SampleAt, count: number, names: readonly string[]): string {
  const looked = Math.min(count, LOOKED_AT), pixels = new Map<number, number>();
  let total = 0;
  for (let i = 0; i < looked; i++) {
    const labels = sampleAt(Math.floor(i * count / looked)).target;
    for (let k = 0; k < labels.length; k++) {
      const label = Number(labels[k]);
      pixels.set(label, (pixels.get(label) ?? 0) + 1);
    }
    total += labels.length;
  }
  const shares = [...pixels].sort(([a], [b]) => a - b)
    .map(([label, some]) => `${names[label] ?? label} ${Number((100 * some / total).toPrecision(3))}%`);
  return shares.join(", ") + (looked < count ? ` (${looked} images were looked at)` : "");
}

function besideLabels({ input, target }: ReturnType<SampleAt>): Raster {
  const { data, shape: [, height, width], strides = rowMajorStrides(input.shape) } = input;
  const values = new Uint8Array(3 * height * 2 * width);
  for (let c = 0; c < 3; c++) {
    for (let y = 0; y < height; y++) {
      const to = (c * height + y) * 2 * width;
      for (let x = 0; x < width; x++) {
        const label = Number(target[y * width + x]);
        values[to + x] = Number(data[c * strides[0] + y * strides[1] + x * strides[2]]);
        values[to + width + x] = colourOfClass(label)[c];
      }
    }
  }
  const shape = [3, height, 2 * width];
  return { values, shape, strides: rowMajorStrides(shape), isImage: true };
}
