// Folders of images have one folder a class, as in torchvision's ImageFolder.
import type { Config } from "../../../settings/settings.ts";
import { UserError } from "../../../base/errors.ts";
import { BadSample } from "../../arrays/rows.ts";
import { loadReader, openReader } from "../../source/reader.ts";
import { relative } from "../../../../deps/path.ts";
import { formatPlural } from "../../../base/format.ts";
import type { DataReader, DataRequest, Sources } from "../../format.ts";
import { halvesOf } from "./format.ts";
import {
  byCodePoint,
  imageCount,
  imagePath,
  IMAGES_READER,
  imageSizeOf,
  labelOf,
  type Listed,
  listImages,
  looseImages,
} from "../../images/listing.ts";
import type { ImagesSpec } from "../../images/reader.ts";
import { imageParts, sizes, turboJpeg } from "../../images/stored.ts";
import { hasRoom } from "../../../models/user/file.ts";
import { divide, heldOut, someOf } from "../../source/order.ts";
import { type Source, threadedSource } from "../../source/source.ts";
import { openSamples, type Preview, sampleImages } from "../../preview/preview.ts";

function openImageFolder(request: DataRequest): Sources {
  const { data, training: { seed, withoutTargets }, model } = request;
  const loose = withoutTargets ? looseImages(data.data_path) : null;
  if (loose) return withoutClasses(loose, request);
  const halves = halvesOf(data.data_path);
  const found = listImages(halves.train);
  const val = halves.val && data.val_samples > 0 ? listImages(halves.val) : null;
  const notes = [...otherFiles(found), ...(val ? otherFiles(val) : [])];
  const all = val ? [...new Set([...found.classes, ...val.classes])].sort(byCodePoint) : found.classes;
  if (val && halves.val) {
    notes.push(...sameClasses([halves.train, found], [halves.val, val], hasRoom(model, all.length)));
  }
  const train = all.length > found.classes.length ? relabelled(found, all) : found;
  const outputs = model.output_size || train.classes.length;
  if (outputs < train.classes.length) {
    throw new UserError(
      "usage",
      `${halves.train} has ${train.classes.length} classes, but model.output_size (--output-size) is ${outputs}. ` +
        "Leave it out, and it is the number of classes.",
    );
  }
  const turbo = turboJpeg();
  notes.push(`JPEG is decoded by ${turbo ?? "this program itself, without libturbojpeg"}`);
  const total = imageCount(train.listing);
  const held = val || data.val_samples === 0 ? 0 : heldOut(total, data.validation_split);
  const chosen = divide(total, data, seed, val !== null), most = val ? imageCount(val.listing) : held;
  const valIndices = val ? someOf(most, data.val_samples, seed) : chosen.val;
  notes.push(...unused("train_samples", data.train_samples, total - held, chosen.train.length));
  notes.push(...unused("val_samples", data.val_samples, most, valIndices.length));
  const make = (listed: Listed, indices: Int32Array) => source(listed, indices, outputs, turbo, data);
  return {
    train: make(train, chosen.train),
    ...(val && halves.val && { divided: halves.val }),
    val: valIndices.length > 0 ? make(val ? relabelled(val, train.classes) : train, valIndices) : null,
    notes,
  };
}

/** They are all predicted, or a model learns to give them back. */
function withoutClasses(
  listing: Listed["listing"],
  { data, training: { seed, learns }, model }: DataRequest,
): Sources {
  const listed = { classes: [], listing, others: { count: 0, example: "" } }, turbo = turboJpeg();
  const total = imageCount(listing), all = Int32Array.from({ length: total }, (_, i) => i);
  const { train, val } = learns ? divide(total, data, seed, false) : { train: all, val: all.subarray(0, 0) };
  const make = (indices: Int32Array) => source(listed, indices, model.output_size || 1, turbo, data);
  return { train: make(train), val: val.length > 0 ? make(val) : null, notes: [] };
}

function otherFiles({ listing, others: { count, example } }: Listed): string[] {
  if (count === 0) return [];
  return [
    `Left out ${formatPlural(count, "file")} in ${listing.root} that are no images, such as ${example}`,
  ];
}

/**
 * A class that was never trained on is a mistake, but where the model has room for it; one that only validation lacks may be
 * meant.
 */
function sameClasses(
  [path, train]: readonly [string, Listed],
  [valPath, val]: readonly [string, Listed],
  room: boolean,
): string[] {
  const unknown = val.classes.filter((name) => !train.classes.includes(name));
  const missing = train.classes.filter((name) => !val.classes.includes(name));
  if (unknown.length > 0 && !room) {
    throw new UserError(
      "data",
      `${valPath} has ${formatPlural(unknown.length, "class folder")} that ${path} has not: ${
        some(unknown)
      }` +
        `${
          missing.length > 0 ? `; it lacks ${some(missing)}` : ""
        }. The folders of both must have the same names, or --output-size the number of all.`,
    );
  }
  const note = `${valPath} has no images of ${missing.length} of ${train.classes.length} classes: ${
    some(missing)
  }`;
  const untrained = `Only ${valPath} has ${some(unknown)}: classes are numbered by all names in their order`;
  return [
    `Validation is with ${valPath}`,
    ...(missing.length > 0 ? [note] : []),
    ...(unknown.length > 0 ? [untrained] : []),
  ];
}

const some = (names: readonly string[]) => names.slice(0, 5).join(", ") + (names.length > 5 ? ", ..." : "");

function relabelled(listed: Listed, classes: readonly string[]): Listed {
  const labels = listed.listing.labels.map((label) => classes.indexOf(listed.classes[label]));
  return { ...listed, classes, listing: { ...listed.listing, labels } };
}

function unused(
  setting: "train_samples" | "val_samples",
  most: number,
  found: number,
  used: number,
): string[] {
  return used === found
    ? []
    : [`Not used: ${found - used} of ${found} images, because ${setting} is ${most}`];
}

function source(
  { classes, listing }: Listed,
  indices: Int32Array,
  outputs: number,
  turbo: string | null,
  data: Config["data"],
): Source {
  const { text, ...size } = sizes((index) => imageSizeOf(listing, index), indices, data);
  const reader: ImagesSpec = { module: IMAGES_READER, listing, turbo, deep: size.deep };
  return threadedSource({
    name: listing.root,
    length: indices.length,
    indices: indices.length === imageCount(listing) ? null : indices,
    reader,
    ...imageParts(size),
    target: { name: "labels", shape: [], dtype: "i64" },
    bad: data.bad_samples,
    task: "classification",
    outputs,
    names: classes,
    description: `${listing.root}: ${
      formatPlural(indices.length, "image")
    } of ${text} -> ${classes.length} classes`,
    pathOf: (index) => imagePath(listing, index),
    labels: () => indices.map((index) => labelOf(listing, index)),
  });
}

const PREVIEWED = 64;
const LABEL = { shape: [], dtype: "i64" } as const;

function previewImages<R>(path: string, use: (preview: Preview) => R): R {
  const halves = halvesOf(path);
  const { classes, listing, others } = listImages(halves.train);
  const val = halves.val ? listImages(halves.val) : null;
  const spec: ImagesSpec = { module: IMAGES_READER, listing, turbo: null };
  const reader = openReader(spec);
  const sampleAt = openSamples(reader, LABEL);
  const count = imageCount(listing);
  const { shape, text, deep } = sizesOf(listing, count);
  try {
    return use({
      path,
      kind: "images in class folders",
      bytes: null,
      samples: count,
      noun: "field",
      facts: {
        "train with": `${halves.train}: ${count} images of ${text}`,
        ...(val ? { "validate with": `${halves.val}: ${imageCount(val.listing)} images` } : {}),
        ...(others.count > 0
          ? { "left out": `${others.count} files that are no images, such as ${others.example}` }
          : {}),
      },
      fields: [
        { name: "images", shape: [count, 3, ...shape], dtype: deep ? "u16" : "u8", read: null },
        { name: "labels", shape: [count], dtype: "i64", read: null },
      ],
      classes: classCounts(classes, listing, count),
      pictures: {
        field: "images",
        count,
        raster: sampleImages(sampleAt),
        // The first images are all of one class.
        some: (many) => Array.from({ length: many }, (_, i) => Math.floor(i * count / many)),
        caption: (sample) =>
          `${classes[labelOf(listing, sample)]}, ${relative(listing.root, imagePath(listing, sample))}`,
      },
    });
  } finally {
    reader.close();
  }
}

function classCounts(classes: readonly string[], listing: Listed["listing"], count: number) {
  const counts = new Array<number>(classes.length).fill(0);
  const { starts, labels } = listing;
  labels.forEach((label, folder) => counts[label] += (starts[folder + 1] ?? count) - starts[folder]);
  return classes.map((name, label) => ({ name, samples: counts[label] }));
}

function sizesOf(
  listing: Listed["listing"],
  count: number,
): { shape: readonly number[]; text: string; deep: boolean } {
  const looked = Math.min(count, PREVIEWED);
  const sizes = Array.from({ length: looked }, (_, i) => {
    try {
      return imageSizeOf(listing, Math.floor(i * count / looked));
    } catch (error) {
      if (error instanceof BadSample) return null;
      throw error;
    }
  });
  const good = sizes.filter((size) => size !== null);
  const bad = looked - good.length;
  const lengths = (name: "height" | "width") => good.map((size) => size[name]);
  const [least, most] = [Math.min, Math.max].map((of) => ({
    height: of(...lengths("height")),
    width: of(...lengths("width")),
  }));
  const one = good.length > 0 && least.height === most.height && least.width === most.width;
  const where = looked < count ? ` (${looked} were looked at)` : "";
  const broken = bad > 0 ? `; ${bad} can't be read` : "";
  const text = one
    ? `${most.height} x ${most.width}`
    : good.length === 0
    ? "no known size"
    : `various sizes, ${least.height} to ${most.height} high and ${least.width} to ${most.width} wide`;
  const deep = good.some(({ deep }) => deep), bits = deep ? ", 16 bits a value" : "";
  return { shape: one ? [most.height, most.width] : [], text: `${text}${bits}${where}${broken}`, deep };
}

export const reader: DataReader = {
  prepare: async () => {
    await import("../../images/reader.ts"); // named here, so that it is in the executable
    await loadReader({ module: IMAGES_READER });
  },
  open: openImageFolder,
  preview: previewImages,
};
