// The reader of images and the label images beside them, which have a class for each pixel.
import { BadSample } from "../../core/data/arrays/rows.ts";
import type { Reader, ReaderModule, ReaderSpec } from "../../core/data/source/reader.ts";
import { type Header, headerOf, openReusedBuffer } from "../../core/data/images/header.ts";
import { imagePath, type Listing, naming, readFile } from "../../core/data/images/listing.ts";
import { openPngNumbers } from "../../core/data/images/png.ts";
import { type Gif, gifHeader, gifNumbers } from "./gif.ts";
import { openImageDecoder } from "../../core/data/images/reader.ts";

export interface PairsSpec extends ReaderSpec {
  readonly images: Listing;
  readonly labels: Listing;
  readonly turbo: string | null;
  readonly deep?: boolean;
  /** Images that nothing brings to one size have these sides. */
  readonly sides: readonly [height: number, width: number];
  readonly classes: number;
  /** Pixels of this class count nowhere. */
  readonly ignored: number;
  /** The number that is stored for each class, where it is not the class itself. */
  readonly values?: readonly number[] | null;
}

export default { open: openPairs } satisfies ReaderModule<PairsSpec>;

function openPairs(
  { images, labels, turbo, deep, sides, classes, ignored, values = null }: PairsSpec,
): Reader {
  const decode = openImageDecoder(turbo, deep), read = openLabels(), buffer = openReusedBuffer();
  const classed = values && classesOfValues(values, ignored);
  const labelBuffer = openReusedBuffer(); // the image may still lie in the other
  let room = new Int32Array(0);
  return {
    read(index, target) {
      const numbers = new Int32Array(target.buffer, target.byteOffset, target.byteLength / 4);
      naming(imagePath(labels, index), (path) => {
        read(readFile(path, buffer), sides, numbers);
        classed?.(numbers);
        checkClasses(numbers, { classes, ignored, width: sides[1] });
      });
      return naming(imagePath(images, index), (path) => {
        const file = readFile(path, buffer);
        checkSides(headerOf(file), sides);
        return decode(file);
      });
    },
    readPair(index) {
      const input = naming(imagePath(images, index), (path) => decode(readFile(path, buffer)));
      const [, height, width] = input.shape;
      naming(imagePath(labels, index), (path) => {
        read(readFile(path, labelBuffer), [height, width], (pixels) => {
          if (room.length < pixels) room = new Int32Array(pixels);
          return room.subarray(0, pixels);
        }, "its image");
        const numbers = room.subarray(0, height * width);
        classed?.(numbers);
        checkClasses(numbers, { classes, ignored, width });
      });
      return { input, target: { data: room.subarray(0, height * width), shape: [1, height, width] } };
    },
    close: () => {},
  };
}

/** It gives the class of each pixel. */
export function openLabels(): (
  file: Uint8Array<ArrayBuffer>,
  sides: readonly [number, number] | null,
  into: Int32Array | ((pixels: number) => Int32Array),
  /** It has those sides. */
  of?: string,
) => Int32Array {
  const png = openPngNumbers();
  return (file, sides, into, of) => {
    const gif = gifHeader(file), header = gif ?? headerOf(file);
    if ("format" in header && header.format !== "png") {
      throw new BadSample(
        "",
        `is a ${header.format}, which changes numbers: a label image has to be a PNG or a GIF`,
      );
    }
    if (sides) checkSides(header, sides, of);
    const numbers = typeof into === "function" ? into(header.width * header.height) : into;
    if (gif) gifNumbers(file, gif, numbers);
    else png(file, header as Header, numbers);
    return numbers;
  };
}

/** Numbers become classes in place. */
function classesOfValues(values: readonly number[], ignored: number): (numbers: Int32Array) => void {
  const classes = new Map(values.map((value, of) => [value, of]));
  return (numbers) => {
    for (let i = 0; i < numbers.length; i++) {
      const of = classes.get(numbers[i]);
      if (of !== undefined) numbers[i] = of;
      else if (numbers[i] !== ignored) {
        throw new BadSample(
          "",
          `has the value ${numbers[i]}, and the label images that were looked at have ${
            values.join(", ")
          } alone: bring it to one ` +
            "of them, or write classes as 0, 1, 2 and so on",
        );
      }
    }
  };
}

function checkSides(
  { height, width }: Gif,
  [rows, columns]: readonly [number, number],
  of?: string,
): void {
  if (height === rows && width === columns) return;
  throw new BadSample(
    "",
    of
      ? `is ${height} x ${width}, and ${of} is ${rows} x ${columns}: a label image has a pixel for each of its image`
      : `is ${height} x ${width}, and a batch needs images in one size, here ${rows} x ${columns}: bring all to it, as by ` +
        "--augment 'resize((256, 256), interpolation=bicubic)'",
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
