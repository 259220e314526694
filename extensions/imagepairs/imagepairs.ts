// Folders of images and, beside them, of label images: the class of each pixel as a grey value or a place in a
// palette. An image and its label have the same name.
import { isFolder } from "../../core/base/files.ts";
import { join, relative } from "../../deps/path.ts";
import { UserError } from "../../core/base/errors.ts";
import { formatPlural } from "../../core/base/format.ts";
import type { DataRequest, Format, Sources } from "../../core/data/format.ts";
import { holds } from "../../core/data/arrays/paths.ts";
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
  naming,
  pairImages,
  readFile,
} from "../../core/data/images/listing.ts";
import { openLabels, type PairsSpec } from "./reader.ts";
import { loadReader, openReader } from "../../core/data/source/reader.ts";
import { openSamples, type Preview, type SampleAt } from "../../core/data/preview/preview.ts";
import { type Raster, rowMajorStrides } from "../../core/data/preview/picture.ts";

const PAIRS_READER: string = new URL("./reader.ts", import.meta.url).href;

/** The first name that exists counts. */
const IMAGES = ["images", "JPEGImages"], LABELS = ["labels", "masks", "annotations", "SegmentationClass"];
const TRAIN = ["train", "training"], VAL = ["val", "valid", "validation"], TEST = ["test", "testing"];

interface Folders {
  readonly images: string;
  readonly labels: string;
}

const firstOf = (root: string, names: readonly string[]): string | null => {
  const name = names.find((name) => isFolder(join(root, name)));
  return name === undefined ? null : join(root, name);
};

function foldersIn(root: string): Folders | null {
  const images = firstOf(root, IMAGES), labels = firstOf(root, LABELS);
  return images !== null && labels !== null ? { images, labels } : null;
}

/** A part is a folder above images and labels, or a folder in each. */
function partIn(root: string, names: readonly string[]): Folders | null {
  const above = firstOf(root, names), whole = foldersIn(root);
  const inside = above === null ? null : foldersIn(above);
  if (inside || !whole) return inside;
  const images = firstOf(whole.images, names), labels = firstOf(whole.labels, names);
  return images !== null && labels !== null ? { images, labels } : null;
}

/** TIFF pairs folders by itself. */
const TIFF_ENDINGS = [".tif", ".tiff", ".gtiff", ".geotiff"];

function looksLikePairs(path: string): boolean {
  const folders = isFolder(path) ? partIn(path, TRAIN) ?? foldersIn(path) : null;
  return folders !== null && !holds(folders.images, TIFF_ENDINGS);
}

/** The images to train with; `divided` where other parts have folders of their own. */
function trainingFolders(path: string): { divided: boolean; folders: Folders } {
  const divided = partIn(path, TRAIN), folders = divided ?? foldersIn(path);
  if (folders) return { divided: divided !== null, folders };
  throw new UserError(
    "data",
    `${path} has no folders images and labels (or train/images and train/labels) in it, which image pairs are read from.`,
  );
}

export function openPairs(request: DataRequest): Sources {
  const { data, training: { seed, ignore_index: ignored } } = request, path = data.data_path;
  const { divided, folders } = trainingFolders(path);
  const paired = ({ images, labels }: Folders) => pairImages(images, labels);
  const own = (names: readonly string[]) => {
    const found = divided ? partIn(path, names) : null;
    return found && paired(found);
  };
  const train = paired(folders), val = data.val_samples > 0 ? own(VAL) : null, test = own(TEST);
  const { names, outputs, note } = classesOf(path, train, request);
  const total = imageCount(train.images);
  const chosen = divide(total, data, seed, val !== null), turbo = turboJpeg();
  const all = (pairs: ImagePairs, most: number) => someOf(imageCount(pairs.images), most, seed);
  const valIndices = val ? all(val, data.val_samples) : chosen.val;
  const there = total + (val ? imageCount(val.images) : 0);
  const make = (pairs: ImagePairs, indices: Int32Array) =>
    source(pairs, indices, { names, outputs, turbo, ignored }, request);
  return {
    train: make(train, chosen.train),
    ...(val && { divided: `${path}/${VAL.find((name) => partIn(path, [name]))}` }),
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

/** Names of classes are lines of classes.txt; otherwise label images say how many there are. */
function classesOf(
  path: string,
  { labels }: ImagePairs,
  { data, model, training: { ignore_index: ignored } }: DataRequest,
): { names: readonly string[]; outputs: number; note: string } {
  const file = join(path, NAMES), names = classNamesIn(path);
  if (names.length > 0) {
    return { names, outputs: model.output_size || names.length, note: `Classes are named in ${file}` };
  }
  if (model.output_size > 0) {
    return {
      names,
      outputs: model.output_size,
      note: `Labels are of ${model.output_size} classes (--output-size)`,
    };
  }
  const total = imageCount(labels),
    count = Math.min(total, LOOKED_AT),
    read = openLabels(),
    room = openReusedBuffer();
  let most = -1;
  for (let i = 0; i < count; i++) {
    try {
      const numbers = naming(
        imagePath(labels, Math.floor(i * total / count)),
        (path) => read(readFile(path, room), null, (pixels) => new Int32Array(pixels)),
      );
      for (const number of numbers) if (number > most && number !== ignored) most = number;
    } catch (error) {
      if (!(error instanceof BadSample)) throw error;
      if (data.bad_samples === "fail") {
        throw new UserError("data", `${error.path} ${error.reason}.`, { cause: error });
      }
    }
  }
  if (most === 255 && ignored !== 255) {
    throw new UserError(
      "data",
      `Label images in ${labels.root} have the class 255, which mostly stands for "unknown": say --set ` +
        "training.ignore_index=255, or --output-size 256 if there are so many classes.",
    );
  }
  const where = count < total ? `${count} of ${total}` : "all";
  const note = `Labels are of ${
    most + 1
  } classes, the most in ${where} label images (--output-size says otherwise)`;
  return { names, outputs: Math.max(1, most + 1), note };
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

interface Labelling {
  readonly names: readonly string[];
  readonly outputs: number;
  readonly turbo: string | null;
  readonly ignored: number;
}

function source(
  { images, labels }: ImagePairs,
  indices: Int32Array,
  { names, outputs, turbo, ignored }: Labelling,
  { data }: DataRequest,
): Source {
  const { text, ...size } = sizes((index) => imageSizeOf(images, index), indices, data),
    { width, height } = size;
  const reader: PairsSpec = {
    ...{ module: PAIRS_READER, images, labels, turbo, deep: size.deep, classes: outputs, ignored },
    sides: [height, width],
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

export const imagepairs: Format = {
  endings: [],
  folder: { has: "folders images and labels", detect: looksLikePairs },
  path: "the folder with images and labels",
  reader: async () => {
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

/** The first colours are told apart by most eyes (Okabe and Ito); others are grey. */
const COLOURS = [
  ...[[0, 114, 178], [230, 159, 0], [0, 158, 115], [204, 121, 167]],
  ...[[86, 180, 233], [213, 94, 0], [240, 228, 66]],
];

function besideLabels({ input, target }: ReturnType<SampleAt>): Raster {
  const { data, shape: [, height, width], strides = rowMajorStrides(input.shape) } = input;
  const values = new Uint8Array(3 * height * 2 * width);
  for (let c = 0; c < 3; c++) {
    for (let y = 0; y < height; y++) {
      const to = (c * height + y) * 2 * width;
      for (let x = 0; x < width; x++) {
        const label = Number(target[y * width + x]);
        values[to + x] = Number(data[c * strides[0] + y * strides[1] + x * strides[2]]);
        values[to + width + x] = COLOURS[label]?.[c] ?? (label * 37) % 200;
      }
    }
  }
  const shape = [3, height, 2 * width];
  return { values, shape, strides: rowMajorStrides(shape), isImage: true };
}
