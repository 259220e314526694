import { isFolder } from "../../core/base/files.ts";
import { join } from "../../deps/path.ts";
import type { Format } from "../../core/data/format.ts";
import { holds } from "../../core/data/arrays/paths.ts";

/** The first name that exists counts. */
export const IMAGE_FOLDERS = ["images", "imgs", "image", "img", "JPEGImages"];
export const LABELS = ["labels", "masks", "label", "mask", "annotations", "SegmentationClass", "gt"];
export const TRAIN = ["train", "training"], VAL = ["val", "valid", "validation"], TEST = ["test", "testing"];

export interface Folders {
  readonly images: string;
  readonly labels: string;
}

/** Folders of images and of labels may have any of these names. */
export interface Names {
  readonly images: readonly string[];
  readonly labels: readonly string[];
}

export const USUAL_NAMES: Names = { images: IMAGE_FOLDERS, labels: LABELS };

const firstOf = (root: string, names: readonly string[]): string | null => {
  const name = names.find((name) => isFolder(join(root, name)));
  return name === undefined ? null : join(root, name);
};

export function pairFoldersIn(root: string, of: Names): Folders | null {
  const images = firstOf(root, of.images), labels = firstOf(root, of.labels);
  return images !== null && labels !== null ? { images, labels } : null;
}

/** A part is a folder above images and labels, or a folder in each. */
export function partIn(root: string, names: readonly string[], of = USUAL_NAMES): Folders | null {
  const above = firstOf(root, names), whole = pairFoldersIn(root, of);
  const inside = above === null ? null : pairFoldersIn(above, of);
  if (inside || !whole) return inside;
  const images = firstOf(whole.images, names), labels = firstOf(whole.labels, names);
  return images !== null && labels !== null ? { images, labels } : null;
}

/** TIFF pairs folders by itself. */
const TIFF_ENDINGS = [".tif", ".tiff", ".gtiff", ".geotiff"];

function looksLikePairs(path: string): boolean {
  const folders = isFolder(path) ? partIn(path, TRAIN) ?? pairFoldersIn(path, USUAL_NAMES) : null;
  return folders !== null && !holds(folders.images, TIFF_ENDINGS);
}

export const imagepairs: Format = {
  endings: [],
  folder: { has: "folders images and labels", detect: looksLikePairs },
  path: "the folder with images and labels",
  load: () => import("./imagepairs.ts").then(({ reader }) => reader),
};
