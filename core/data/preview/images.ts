// Preview of images in class folders. May import imagefolder, images, reading, its siblings.
import { relative } from "../../../deps/path.ts";
import { halvesOf } from "../imagefolder.ts";
import { imageCount, labelOf, type Listed, listImages, pathOf } from "../images/listing.ts";
import { sizeOf } from "../images/files.ts";
import type { ImagesSpec } from "../images/reader.ts";
import { loadKind, openReader } from "../reading/kinds.ts";
import { BadSample } from "../reading/reader.ts";
import type { Preview } from "./preview.ts";
import { imagesOf, openSamples } from "./reader_rows.ts";

/** Images whose sizes are looked at, spread over all of them. */
const LOOKED_AT = 64;
const LABEL = { shape: [], dtype: "i64" } as const;

export async function withImages<R>(path: string, use: (preview: Preview) => R): Promise<R> {
  const halves = halvesOf(path);
  const { classes, listing, others } = listImages(halves.train);
  const val = halves.val ? listImages(halves.val) : null;
  const spec: ImagesSpec = { kind: "images", listing, turbo: null };
  await loadKind(spec.kind);
  const reader = openReader(spec);
  const sampleAt = openSamples(reader, LABEL);
  const count = imageCount(listing);
  const { shape, said } = sizesOf(listing, count);
  try {
    return use({
      path,
      kind: "images in class folders",
      bytes: null,
      samples: count,
      noun: "field",
      facts: {
        "train with": `${halves.train}: ${count} images of ${said}`,
        ...(val ? { "validate with": `${halves.val}: ${imageCount(val.listing)} images` } : {}),
        ...(others.count > 0
          ? { "left out": `${others.count} files that are no images, such as ${others.example}` }
          : {}),
      },
      fields: [
        { name: "images", shape: [count, 3, ...shape], dtype: "u8", read: null },
        { name: "labels", shape: [count], dtype: "i64", read: null },
      ],
      classes: classCounts(classes, listing, count),
      pictures: {
        field: "images",
        count,
        raster: imagesOf(sampleAt),
        // The first ones are all of one class.
        some: (many) => Array.from({ length: many }, (_, i) => Math.floor(i * count / many)),
        caption: (sample) =>
          `${classes[labelOf(listing, sample)]}, ${relative(listing.root, pathOf(listing, sample))}`,
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

/** Height and width where all that were looked at have the same; nothing where they differ. */
function sizesOf(listing: Listed["listing"], count: number): { shape: readonly number[]; said: string } {
  const looked = Math.min(count, LOOKED_AT);
  const sizes = Array.from({ length: looked }, (_, i) => {
    try {
      return sizeOf(listing, Math.floor(i * count / looked));
    } catch (error) {
      if (error instanceof BadSample) return null;
      throw error;
    }
  });
  const good = sizes.filter((size) => size !== null);
  const bad = looked - good.length;
  const told = (name: "height" | "width") => good.map((size) => size[name]);
  const [least, most] = [Math.min, Math.max].map((of) => ({
    height: of(...told("height")),
    width: of(...told("width")),
  }));
  const one = good.length > 0 && least.height === most.height && least.width === most.width;
  const where = looked < count ? ` (${looked} were looked at)` : "";
  const broken = bad > 0 ? `; ${bad} can't be read` : "";
  const said = one
    ? `${most.height} x ${most.width}`
    : good.length === 0
    ? "no known size"
    : `various sizes, ${least.height} to ${most.height} high and ${least.width} to ${most.width} wide`;
  return { shape: one ? [most.height, most.width] : [], said: `${said}${where}${broken}` };
}
