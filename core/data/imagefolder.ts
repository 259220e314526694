// Images in folders, one folder a class, as torchvision's ImageFolder reads them. May import errors, format, images,
// reading, order, ffi.
import { join } from "../../deps/path.ts";
import { constant } from "../../ffi/make.ts";
import { div, toDtype } from "../../ffi/ops.ts";
import type { Config } from "../config/settings.ts";
import { UserError } from "../errors.ts";
import { formatPlural } from "../format.ts";
import { foldersIn, IMAGE, imageCount, type Listed, listImages } from "./images/listing.ts";
import { sizeOf } from "./images/files.ts";
import type { ImagesSpec } from "./images/reader.ts";
import { sizes } from "./images/sizes.ts";
import { turboJpeg } from "./images/turbo.ts";
import { heldOut, splitIndices } from "./order.ts";
import { threadedSource } from "./reading/threaded_source.ts";
import type { Source } from "./source.ts";
import { USUAL } from "./transforms/usual.ts";

/** Names of the folders of a set that is divided already; the first that is there counts. */
const TRAIN = ["train", "training"];
const VAL = ["val", "valid", "validation", "test"];

export interface ImageFolderSettings {
  readonly data: Config["data"];
  readonly seed: number;
  readonly model: Config["model"];
}

interface Found {
  readonly train: Source;
  readonly val: Source | null;
  readonly notes: readonly string[];
}

export function imagefolder({ data, seed, model }: ImageFolderSettings): Found {
  const halves = halvesOf(data.data_path);
  const train = listImages(halves.train);
  const val = halves.val && data.val_samples > 0 ? listImages(halves.val) : null;
  const notes = [...otherFiles(train), ...(val ? otherFiles(val) : [])];
  if (val) notes.push(...sameClasses(halves.train, train, halves.val!, val));
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
  const part = { train: Math.min(data.train_samples, total - held), val: Math.min(data.val_samples, held) };
  const chosen = splitIndices(total, part, seed);
  const valIndices = val
    ? splitIndices(imageCount(val.listing), { train: data.val_samples, val: 0 }, seed).train
    : chosen.val;
  notes.push(...unused("train_samples", data.train_samples, total - held, part.train));
  notes.push(
    ...unused("val_samples", data.val_samples, val ? imageCount(val.listing) : held, valIndices.length),
  );
  const make = (listed: Listed, indices: Int32Array) => source(listed, indices, outputs, turbo, data);
  return {
    train: make(train, chosen.train),
    val: valIndices.length > 0 ? make(val ? relabelled(val, train.classes) : train, valIndices) : null,
    notes,
  };
}

/** Whether `auto` should take this folder for one: there are images in one of its folders. */
export function looksLikeImages(root: string): boolean {
  const inside = (folder: string) =>
    quietly(() => [...Deno.readDirSync(folder)].some(({ name }) => IMAGE.test(name)));
  return quietly(() => {
    const { train } = halvesOf(root);
    return foldersIn(train).some((name) => inside(join(train, name)));
  });
}

/** What can't be looked at is for whoever reads it to complain of. */
function quietly(test: () => boolean): boolean {
  try {
    return test();
  } catch {
    return false;
  }
}

/** What is divided already has folders of those names with the classes' folders in them. */
export function halvesOf(path: string): { train: string; val: string | null } {
  const folders = foldersIn(path);
  const named = (names: readonly string[]) =>
    names.find((name) => folders.includes(name) && foldersIn(join(path, name)).length > 0);
  const train = named(TRAIN), val = named(VAL);
  if (train === undefined) return { train: path, val: null };
  return { train: join(path, train), val: val === undefined ? null : join(path, val) };
}

function otherFiles({ listing, others: { count, example } }: Listed): string[] {
  if (count === 0) return [];
  return [
    `Left out ${formatPlural(count, "file")} in ${listing.root} that are no images, such as ${example}`,
  ];
}

/** A class to validate with that was never trained on is a mistake; one that is only missing there may be meant. */
function sameClasses(path: string, train: Listed, valPath: string, val: Listed): string[] {
  const unknown = val.classes.filter((name) => !train.classes.includes(name));
  const missing = train.classes.filter((name) => !val.classes.includes(name));
  if (unknown.length > 0) {
    throw new UserError(
      "data",
      `${valPath} has ${formatPlural(unknown.length, "class folder")} that ${path} has not: ${
        some(unknown)
      }` +
        `${
          missing.length > 0 ? `; it lacks ${some(missing)}` : ""
        }. The folders of both must have the same names.`,
    );
  }
  const note = `${valPath} has no images of ${missing.length} of ${train.classes.length} classes: ${
    some(missing)
  }`;
  return [`Validation is with ${valPath}`, ...(missing.length > 0 ? [note] : [])];
}

const some = (names: readonly string[]) => names.slice(0, 5).join(", ") + (names.length > 5 ? ", ..." : "");

/** The numbers of the classes are those of training, whichever of them are there. */
function relabelled(listed: Listed, classes: readonly string[]): Listed {
  const labels = listed.listing.labels.map((label) => classes.indexOf(listed.classes[label]));
  return { ...listed, listing: { ...listed.listing, labels } };
}

function unused(
  setting: "train_samples" | "val_samples",
  most: number,
  there: number,
  used: number,
): string[] {
  return used === there
    ? []
    : [`Not used: ${there - used} of ${there} images, because ${setting} is ${most}`];
}

function source(
  { classes, listing }: Listed,
  indices: Int32Array,
  outputs: number,
  turbo: string | null,
  data: Config["data"],
): Source {
  const reader: ImagesSpec = { kind: "images", listing, turbo };
  const { width, height, said } = sizes((index) => sizeOf(listing, index), indices, data);
  return threadedSource({
    name: listing.root,
    length: indices.length,
    indices: indices.length === imageCount(listing) ? null : indices,
    reader,
    stored: { name: "images", shape: [3, height, width], dtype: "u8" },
    target: { name: "labels", shape: [], dtype: "i64" },
    bad: data.bad_samples,
    task: "classification",
    outputs,
    names: classes,
    description: `${listing.root}: ${
      formatPlural(indices.length, "image")
    } of ${said} -> ${classes.length} classes`,
    usual: USUAL.imagefolder,
    bytewise: true,
    finish: ({ input, target }) => ({
      input: div(toDtype(input, "f32"), constant(255, "f32", input.device)),
      target,
    }),
  });
}
