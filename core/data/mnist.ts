// MNIST and its relatives from idx files, as torchvision lays them out. May import errors, idx, memory, order, ffi.
import { join } from "../../deps/path.ts";
import { constant, tensor } from "../../ffi/make.ts";
import { div, indexSelect, toDtype } from "../../ffi/ops.ts";
import { scope } from "../../ffi/tensor.ts";
import type { Config } from "../config/settings.ts";
import { UserError } from "../errors.ts";
import { type Idx, readIdx } from "./idx.ts";
import { indexTensor, memorySource } from "./memory.ts";
import { heldOut, splitIndices } from "./order.ts";
import type { Source } from "./source.ts";
import { USUAL } from "./transforms/usual.ts";

const FOLDERS = ["", "raw", "MNIST/raw", "FashionMNIST/raw", "KMNIST/raw"];
const CLASSES = 10;

export interface Labelled {
  readonly path: string;
  readonly images: Idx;
  readonly labels: Idx;
}

export interface MnistSettings {
  readonly data: Config["data"];
  readonly seed: number;
  readonly model: Config["model"];
}

/** The training files, and the test files to validate with, or else a share of the training files. */
export function mnist({ data, seed, model }: MnistSettings): { train: Source; val: Source | null } {
  if (data.data_path === "") {
    throw new UserError(
      "usage",
      "data.type mnist needs --data-path: the folder with train-images-idx3-ubyte.",
    );
  }
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
  const held = test || data.val_samples === 0 ? 0 : heldOut(total, data.validation_split);
  const part = { train: Math.min(data.train_samples, total - held), val: Math.min(data.val_samples, held) };
  const split = splitIndices(total, part, seed);
  const take = (from: Labelled, ids: Int32Array) => ids.length > 0 ? labelled(from, ids, classes) : null;
  const val = test
    ? take(test, splitIndices(test.images.dims[0], { train: data.val_samples, val: 0 }, seed).train)
    : take(train, split.val);
  return { train: take(train, split.train)!, val };
}

/** The images and labels of one half, or null where neither file is there. */
export function readHalf(root: string, half: "train" | "t10k", classes: number): Labelled | null {
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

function find(root: string, name: string, dimensions: number): string | undefined {
  return candidates(root, name, dimensions).find(isFile);
}

/** Every name the file may have: torchvision's, or with the dot that some mirrors have; gzipped or not. */
function candidates(root: string, name: string, dimensions: number): string[] {
  return FOLDERS.flatMap((folder) =>
    ["-", "."].flatMap((mark) =>
      ["", ".gz"].map((ending) => join(root, folder, `${name}${mark}idx${dimensions}-ubyte${ending}`))
    )
  );
}

/** Whether `auto` should take this folder for MNIST. */
export const looksLikeMnist = (root: string): boolean => find(root, "train-images", 3) !== undefined;

/** A file that may not be looked at counts as there: reading it then says why it can't be. */
function isFile(path: string): boolean {
  try {
    return Deno.statSync(path).isFile;
  } catch (error) {
    return error instanceof Deno.errors.PermissionDenied;
  }
}

export function nothingFound(root: string): UserError {
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

/** Pixels stay bytes in memory, a quarter of the room; a batch is scaled as torchvision's ToTensor and Normalize do. */
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
