import { join } from "../../../../deps/path.ts";
import type { Format } from "../../format.ts";
import { foldersIn, IMAGE_FILE, looseImages } from "../../images/listing.ts";

/** The first name that exists counts. */
const TRAIN = ["train", "training"];
const VAL = ["val", "valid", "validation", "test"];

function looksLikeImages(root: string): boolean {
  const inside = (folder: string) =>
    quietly(() => [...Deno.readDirSync(folder)].some(({ name }) => IMAGE_FILE.test(name)));
  return quietly(() => {
    const { train } = halvesOf(root);
    return inside(train) || foldersIn(train).some((name) => inside(join(train, name)));
  });
}

/** The code that reads such a folder refuses it later. */
function quietly(test: () => boolean): boolean {
  try {
    return test();
  } catch {
    return false;
  }
}

/** A divided set has folders of those names, with the classes' folders in them. */
export function halvesOf(path: string): { train: string; val: string | null } {
  const folders = foldersIn(path);
  const named = (names: readonly string[]) =>
    names.find((name) => folders.includes(name) && foldersIn(join(path, name)).length > 0);
  const train = named(TRAIN), val = named(VAL);
  if (train === undefined) return { train: path, val: null };
  return { train: join(path, train), val: val === undefined ? null : join(path, val) };
}

export const imagefolder: Format = {
  endings: [".jpg", ".jpeg", ".png", ".webp"],
  folder: { has: "a folder of images for each class", detect: looksLikeImages },
  path: "the file or folder to read",
  lacksTargets: (path) => looseImages(path) !== null,
  load: () => import("./imagefolder.ts").then(({ reader }) => reader),
};
