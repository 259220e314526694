// MNIST and its relatives are idx files: a header of big-endian numbers, then one byte a value.
import { gunzipSync } from "node:zlib";
import { UserError } from "../../../base/errors.ts";
import { formatPlural } from "../../../base/format.ts";
import { basename } from "../../../../deps/path.ts";
import { constant, tensor } from "../../../../ffi/make.ts";
import { div, indexSelect, toDtype } from "../../../../ffi/ops.ts";
import { scope } from "../../../../ffi/tensor.ts";
import type { DataReader, DataRequest, Sources } from "../../format.ts";
import { find, FOLDERS, IDX_NAME } from "./format.ts";
import { indexTensor, memorySource } from "../../source/memory.ts";
import { divide, someOf, unusedNote } from "../../source/order.ts";
import type { Source } from "../../source/source.ts";
import { USUAL } from "../../transforms/values.ts";
import { picturesOf, type Preview } from "../../preview/preview.ts";
import type { PreviewField } from "../../preview/axes.ts";

// Gzip reaches 1032:1, images about 5:1: a file above this ratio is made to fill the memory.
const MAX_RATIO = 200;

interface Idx {
  readonly dims: readonly number[];
  readonly bytes: Uint8Array;
}

/** `what` names the content in messages: "images". */
function readIdx(path: string, what: string, dimensions: number): Idx {
  const file = unzipped(path, readFile(path));
  if (file.length === 0) throw refusal(path, "is empty. Copy it again from where it came from.");
  const headerLength = 4 + 4 * dimensions;
  const header = new DataView(file.buffer, file.byteOffset, Math.min(file.length, headerLength));
  const magic = header.byteLength < 4 ? undefined : header.getUint32(0);
  // The mark is two zero bytes, 8 for unsigned bytes, and the number of dimensions.
  const expected = 0x0800 + dimensions;
  if (magic !== expected) {
    throw refusal(
      path,
      `is no idx file of ${what}: it should begin with ${hex(expected)}, but begins with ${
        magic === undefined ? formatPlural(file.length, "byte") + " only" : hex(magic)
      }${otherFormat(magic)}.`,
    );
  }
  if (header.byteLength < headerLength) throw truncated(path, headerLength, file.length, "for its header");
  const dims = Array.from({ length: dimensions }, (_, i) => header.getUint32(4 + 4 * i));
  const size = headerLength + dims.reduce((a, b) => a * b, 1);
  if (file.length < size) throw truncated(path, size, file.length, `for ${what} of ${dims.join(" x ")}`);
  if (file.length > size) {
    throw refusal(
      path,
      `is longer than its header says: ${size} bytes expected for ${what} of ${dims.join(" x ")}, ` +
        `${file.length} found. Copy it again from where it came from.`,
    );
  }
  if (size === headerLength) throw refusal(path, `holds no ${what}: its header says ${dims.join(" x ")}.`);
  return { dims, bytes: file.subarray(headerLength) };
}

function readFile(path: string): Uint8Array {
  try {
    return Deno.readFileSync(path);
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message.split(":")[0] : String(cause);
    throw new UserError("data", `${path} can't be read: ${reason}. Check its permissions.`, { cause });
  }
}

function unzipped(path: string, file: Uint8Array): Uint8Array {
  if (file[0] !== 0x1f || file[1] !== 0x8b) return file;
  try {
    const maxOutputLength = Math.max(MAX_RATIO * file.length, 1 << 20);
    const { buffer, byteOffset, byteLength } = gunzipSync(file, { maxOutputLength });
    return new Uint8Array(buffer, byteOffset, byteLength);
  } catch (cause) {
    if (cause instanceof RangeError) {
      throw refusal(
        path,
        `unpacks to more than ${MAX_RATIO} times its size, as no data does. If it is right, unpack it with gunzip.`,
      );
    }
    throw new UserError(
      "data",
      `${path} is a damaged or truncated gzip file of ${formatPlural(file.length, "byte")}. ` +
        "Copy it again from where it came from.",
      { cause },
    );
  }
}

function otherFormat(magic: number | undefined): string {
  switch (magic) {
    case 0x0801:
      return " (idx labels)";
    case 0x0803:
      return " (idx images)";
    case 0x504b0304:
      return " (a zip file: unpack it)";
    case 0x89504e47:
      return " (a PNG image)";
    default:
      return "";
  }
}

const hex = (magic: number) => `0x${magic.toString(16).padStart(8, "0")}`;

const refusal = (path: string, sentence: string) => new UserError("data", `${path} ${sentence}`);

const truncated = (path: string, expected: number, found: number, why: string) =>
  refusal(
    path,
    `is truncated: ${expected} bytes expected ${why}, ${found} found. Copy it again from where it came from.`,
  );

const CLASSES = 10;

interface Labelled {
  readonly path: string;
  readonly images: Idx;
  readonly labels: Idx;
}

/** The test files validate, or else a share of the training files. */
function openMnist({ data, training: { seed }, model }: DataRequest): Sources {
  const classes = model.output_size || CLASSES;
  const train = readHalf(data.data_path, "train", classes);
  if (!train) throw nothingFound(data.data_path);
  const test = data.val_samples > 0 ? readHalf(data.data_path, "t10k", classes) : null;
  if (test && sizeOf(test) !== sizeOf(train)) {
    throw new UserError(
      "data",
      `${test.path} has images of ${sizeOf(test)}, but ${train.path} of ${sizeOf(train)}. ` +
        "Use files of one data set.",
    );
  }
  const total = train.images.dims[0];
  const split = divide(total, data, seed, test !== null);
  const take = (from: Labelled, ids: Int32Array) => ids.length > 0 ? labelled(from, ids, classes) : null;
  const val = test ? take(test, someOf(test.images.dims[0], data.val_samples, seed)) : take(train, split.val);
  const used = split.train.length + (val?.length ?? 0);
  const notes = unusedNote(total + (test?.images.dims[0] ?? 0) - used, data, "image");
  return { train: take(train, split.train)!, val, ...(test && { divided: test.path }), notes };
}

/** Null means that neither file exists. */
function readHalf(root: string, half: "train" | "t10k", classes: number): Labelled | null {
  const imagesPath = find(root, `${half}-images`, 3), labelsPath = find(root, `${half}-labels`, 1);
  if (!imagesPath && !labelsPath) return null;
  if (!imagesPath || !labelsPath) {
    const missing = imagesPath ? `${half}-labels-idx1-ubyte` : `${half}-images-idx3-ubyte`;
    throw new UserError(
      "data",
      `${imagesPath ?? labelsPath} is there, but ${missing} is not: put it beside it.`,
    );
  }
  const images = readIdx(imagesPath, "images", 3), labels = readIdx(labelsPath, "labels", 1);
  if (images.dims[0] !== labels.dims[0]) {
    throw new UserError(
      "data",
      `${imagesPath} has ${images.dims[0]} images, but ${labelsPath} has ${labels.dims[0]} labels. ` +
        "Use two files of one data set.",
    );
  }
  const bad = labels.bytes.findIndex((label) => label >= classes);
  if (bad >= 0) {
    throw new UserError(
      "data",
      `${labelsPath}: the label of sample ${bad} (counted from 0) is ${labels.bytes[bad]}, outside 0 to ` +
        `${
          classes - 1
        }. If the data has more classes, set model.output_size (--output-size) to their number.`,
    );
  }
  return { path: imagesPath, images, labels };
}

function nothingFound(root: string): UserError {
  const names = "train-images-idx3-ubyte and train-labels-idx1-ubyte";
  let found = "There is no such folder.";
  try {
    if (Deno.statSync(root).isFile) found = "That is a file: give the folder it is in.";
    else {
      const inside = [...Deno.readDirSync(root)].map((entry) => entry.name).sort();
      found = inside.length === 0
        ? "The folder is empty."
        : `Found there: ${inside.slice(0, 8).join(", ")}${inside.length > 8 ? ", ..." : ""}.`;
    }
  } catch (error) {
    if (error instanceof Deno.errors.PermissionDenied) {
      found = "The folder can't be read: check its permissions.";
    }
  }
  return new UserError(
    "data",
    `No MNIST in ${root}: looked for ${names} (or .gz) there and in ${FOLDERS.slice(1).join(", ")}. ${found}`,
  );
}

const sizeOf = ({ images }: Labelled) => `${images.dims[1]} x ${images.dims[2]}`;

/** Pixels stay bytes in memory; batches are scaled as by torchvision's ToTensor and Normalize. */
function labelled({ path, images, labels }: Labelled, ids: Int32Array, classes: number): Source {
  const [total, height, width] = images.dims;
  const [input, target] = scope(() => {
    const all = [tensor(images.bytes, [total, 1, height, width]), tensor(labels.bytes)];
    const index = indexTensor(ids);
    return ids.length === total ? all : all.map((field) => indexSelect(field, 0, index));
  });
  return memorySource({
    name: path,
    task: "classification",
    outputs: classes,
    fields: ["images", "labels"],
    description: `${path}: ${ids.length} images of ${height} x ${width} -> ${classes} classes`,
    indices: ids,
    input,
    target,
    usual: USUAL.mnist,
    finish: ({ input, target }) => ({
      input: div(toDtype(input, "f32"), constant(255, "f32", input.device)),
      target: toDtype(target, "i64"),
    }),
  });
}

function idxPreview(path: string): Preview {
  const dimensions = Number(IDX_NAME.exec(path)?.[1] ?? 3);
  const what = ({ 1: "labels", 3: "images" } as const)[dimensions] ?? "values";
  const field = idxField(what, readIdx(path, what, dimensions));
  return {
    path,
    kind: `idx file of ${what}`,
    bytes: Deno.statSync(path).size,
    samples: field.shape[0],
    noun: "array",
    facts: {},
    fields: [field],
    classes: null,
    pictures: picturesOf([field]),
  };
}

/** A preview refuses no label, so it takes classes up to 255. */
const MOST_CLASSES = 256;

const previewMnist = <R>(path: string, use: (preview: Preview) => R): R =>
  use(IDX_NAME.test(path) ? idxPreview(path) : mnistPreview(path));

function mnistPreview(path: string): Preview {
  const train = readHalf(path, "train", MOST_CLASSES), test = readHalf(path, "t10k", MOST_CLASSES);
  if (!train) throw nothingFound(path);
  const fields = [train, ...(test ? [test] : [])].flatMap((half) => {
    const name = half === train ? "train" : "t10k";
    return [idxField(`${name} images`, half.images), idxField(`${name} labels`, half.labels)];
  });
  const { labels } = train;
  return {
    path,
    kind: "MNIST's idx files",
    bytes: fields.reduce((sum, { shape }) => sum + shape.reduce((product, size) => product * size, 1), 0),
    samples: train.images.dims[0],
    noun: "array",
    facts: {
      "read from": basename(train.path),
      "to validate with": test
        ? `${test.images.dims[0]} samples in ${basename(test.path)}`
        : "no files of their own",
    },
    fields,
    classes: null,
    pictures: { ...picturesOf(fields)!, caption: (sample) => String(labels.bytes[sample]) },
  };
}

function idxField(name: string, { dims, bytes }: Idx): PreviewField {
  const row = dims.slice(1).reduce((product, size) => product * size, 1);
  return {
    name,
    shape: dims,
    dtype: "u8",
    read: (first, count) => bytes.subarray(first * row, (first + count) * row),
  };
}

export const reader: DataReader = { open: openMnist, preview: previewMnist };
