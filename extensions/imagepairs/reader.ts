// The reader of images and the label images beside them, which have a class for each pixel.
import { BadSample } from "../../core/data/arrays/rows.ts";
import type { Reader, ReaderModule, ReaderSpec } from "../../core/data/source/reader.ts";
import { type Header, headerOf, openReusedBuffer } from "../../core/data/images/header.ts";
import { imagePath, type Listing, naming, readFile } from "../../core/data/images/listing.ts";
import { openPngNumbers } from "../../core/data/images/png.ts";
import { openImageDecoder } from "../../core/data/images/reader.ts";

export interface PairsSpec extends ReaderSpec {
  readonly images: Listing;
  readonly labels: Listing;
  readonly turbo: string | null;
  readonly deep?: boolean;
  /** All images have these sides. */
  readonly sides: readonly [height: number, width: number];
  readonly classes: number;
  /** Pixels of this class count nowhere. */
  readonly ignored: number;
}

export default { open: openPairs } satisfies ReaderModule<PairsSpec>;

function openPairs({ images, labels, turbo, deep, sides, classes, ignored }: PairsSpec): Reader {
  const decode = openImageDecoder(turbo, deep), read = openLabels(), buffer = openReusedBuffer();
  return {
    read(index, target) {
      const numbers = new Int32Array(target.buffer, target.byteOffset, target.byteLength / 4);
      naming(imagePath(labels, index), (path) => {
        read(readFile(path, buffer), sides, numbers);
        checkClasses(numbers, { classes, ignored, width: sides[1] });
      });
      return naming(imagePath(images, index), (path) => {
        const file = readFile(path, buffer);
        checkSides(headerOf(file), sides);
        return decode(file);
      });
    },
    close: () => {},
  };
}

/** It gives the class of each pixel. */
export function openLabels(): (
  file: Uint8Array<ArrayBuffer>,
  sides: readonly [number, number] | null,
  into: Int32Array | ((pixels: number) => Int32Array),
) => Int32Array {
  const png = openPngNumbers();
  return (file, sides, into) => {
    const header = headerOf(file);
    if (header.format !== "png") {
      throw new BadSample("", `is a ${header.format}, which changes numbers: a label image has to be a PNG`);
    }
    if (sides) checkSides(header, sides);
    const numbers = typeof into === "function" ? into(header.width * header.height) : into;
    png(file, header, numbers);
    return numbers;
  };
}

function checkSides({ height, width }: Header, [rows, columns]: readonly [number, number]): void {
  if (height === rows && width === columns) return;
  throw new BadSample(
    "",
    `is ${height} x ${width}, and images with labels have one size, here ${rows} x ${columns}: bring all to it before`,
  );
}

function checkClasses(
  numbers: Int32Array,
  { classes, ignored, width }: { classes: number; ignored: number; width: number },
): void {
  for (let i = 0; i < numbers.length; i++) {
    const number = numbers[i];
    if (number < classes || number === ignored) continue;
    throw new BadSample(
      "",
      `has the class ${number} in row ${Math.floor(i / width)}, column ${
        i % width
      }, and there are ${classes} (0 to ` +
        `${
          classes - 1
        }): if it stands for "unknown", say --set training.ignore_index=${number}; more classes are for ` +
        "--output-size or classes.txt",
    );
  }
}
