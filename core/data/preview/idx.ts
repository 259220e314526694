// Previews of idx files and of folders with MNIST's. May import idx, mnist, its siblings.
import { basename } from "../../../deps/path.ts";
import { type Idx, readIdx } from "../idx.ts";
import { nothingFound, readHalf } from "../mnist.ts";
import type { Preview, PreviewField } from "./preview.ts";
import { picturesOf } from "./rasters.ts";

const NAME = /idx(\d)-ubyte(\.gz)?$/;

export const looksLikeIdx = (path: string): boolean => NAME.test(path);

export function idxPreview(path: string): Preview {
  const dimensions = Number(NAME.exec(path)?.[1] ?? 3);
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

/** With classes up to 255, so that no label is refused: which there are is what somebody wants to see. */
const MOST_CLASSES = 256;

export function mnistPreview(path: string): Preview {
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
