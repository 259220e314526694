// Writes the class of each pixel as PNG files under the images' names: a pixel's place in the palette is its class.
import { dirname, join, relative } from "../../deps/path.ts";
import { writeAll, writeAtomically } from "../base/atomic.ts";
import { writing } from "../base/new_file.ts";
import { UserError } from "../base/errors.ts";
import { headerOf, openReusedBuffer } from "../data/images/header.ts";
import { naming, readFile } from "../data/images/listing.ts";
import { encodeClassPng } from "../data/preview/picture.ts";
import { BadSample } from "../data/arrays/rows.ts";
import type { Source } from "../data/source/source.ts";
import type { PredictionColumn } from "./columns.ts";

/** A palette has no more places. */
const MOST_CLASSES = 256;

/** Such an --out is a folder of class maps. */
export const isMapFolder = (out: string): boolean => out.endsWith("/");

export function checkClassMaps(out: string, sources: readonly Source[]): void {
  if (!isMapFolder(out)) return;
  const { facts: { task, outputs } } = sources[0];
  if (task !== "segmentation" || !sources.every(({ pathOf }) => pathOf)) {
    throw new UserError(
      "usage",
      `--out ${out} is a folder, into which the classes of images' pixels are written as images, and this data is none of ` +
        "that: name an .npz, .csv, .parquet, .nc or .zarr file.",
    );
  }
  if (outputs > MOST_CLASSES) {
    throw new UserError(
      "usage",
      `--out ${out}: a PNG has at most ${MOST_CLASSES} classes: name an .npz file.`,
    );
  }
}

export function writeClassMaps(folder: string, columns: readonly PredictionColumn[]): void {
  const column = (name: string) => columns.find((one) => one.name === name)!;
  const label = column("label"), texts = column("path").texts!;
  const [samples, height, width] = label.shape, buffer = openReusedBuffer();
  const paths = texts(0, samples), root = commonFolder(paths);
  paths.forEach((path, i) => {
    const values = Uint8Array.from(label.read(i, 1));
    const own = sizeOf(path, buffer), isWhole = own !== null && label.whole?.(own) === true;
    const map = isWhole ? resized({ values, height, width }, own) : { values, height, width };
    const to = join(folder, relative(root, path).replace(/\.\w+$/, "") + ".png");
    writing(to, () => Deno.mkdirSync(dirname(to), { recursive: true }));
    writeAtomically(to, (file) => writeAll(file, encodeClassPng(map)));
  });
}

function commonFolder(paths: readonly string[]): string {
  let root = dirname(paths[0]);
  while (!paths.every((path) => path.startsWith(root + "/")) && dirname(root) !== root) root = dirname(root);
  return root;
}

interface Size {
  readonly height: number;
  readonly width: number;
}

/** Null where the image can't be read any more. */
function sizeOf(path: string, buffer: ReturnType<typeof openReusedBuffer>): Size | null {
  try {
    return naming(path, (path) => headerOf(readFile(path, buffer)));
  } catch (error) {
    if (error instanceof BadSample) return null;
    throw error;
  }
}

type ClassMap = Size & { readonly values: Uint8Array };

/** The nearest of its classes at each of the image's pixels. */
function resized(map: ClassMap, { height, width }: Size): ClassMap {
  if (height === map.height && width === map.width) return map;
  const values = new Uint8Array(height * width);
  for (let y = 0; y < height; y++) {
    const row = Math.floor((y + 0.5) * map.height / height) * map.width;
    for (let x = 0; x < width; x++) {
      values[y * width + x] = map.values[row + Math.floor((x + 0.5) * map.width / width)];
    }
  }
  return { height, width, values };
}
