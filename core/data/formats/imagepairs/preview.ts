// `inspect` shows of image pairs each image beside its label in colours, and how many pixels are of each class.
import { relative } from "../../../../deps/path.ts";
import { openReader } from "../../source/reader.ts";
import { openSamples, type Preview, type SampleAt } from "../../preview/preview.ts";
import { type Raster, rowMajor } from "../../preview/picture.ts";
import { imageCount, pairImages, pathOf, sizeOf } from "../images/listing.ts";
import { namesIn, PAIRS_READER, trainingFolders } from "./pairs.ts";
import type { PairsSpec } from "./reader.ts";

/** So many label images are looked at. */
const LOOKED_AT = 64;
const MOST_CLASSES = 2 ** 31;

export function previewPairs<R>(path: string, use: (preview: Preview) => R): R {
  const { folders } = trainingFolders(path);
  const { images, labels, others } = pairImages(folders.images, folders.labels);
  const count = imageCount(images), { height, width } = sizeOf(images, 0), names = namesIn(path);
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
        caption: (sample) => relative(images.root, pathOf(images, sample)),
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
  const { data, shape: [, height, width], strides = rowMajor(input.shape) } = input;
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
  return { values, shape, strides: rowMajor(shape), isImage: true };
}
