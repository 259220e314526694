// How large the images of a set are, as far as their headers are looked at. May import errors, config, reading,
// transforms.
import type { Config } from "../../config/settings.ts";
import { UserError } from "../../errors.ts";
import { BadSample } from "../reading/reader.ts";
import { resizedSize } from "../transforms/resize.ts";

/** Images whose sizes are compared before anything is read. */
const LOOKED_AT = 16;

export interface Sized {
  readonly path: string;
  readonly width: number;
  readonly height: number;
}

/**
 * The size of the first image; and, from the headers of a few, whether all come out in one size, which a batch needs.
 * What the others are shows when they are read.
 */
export function sizes(sizeAt: (index: number) => Sized, indices: Int32Array, data: Config["data"]) {
  const count = Math.min(indices.length, LOOKED_AT);
  const looked: Sized[] = [];
  for (let i = 0; i < count; i++) {
    try {
      looked.push(sizeAt(indices[Math.floor(i * indices.length / count)]));
    } catch (error) {
      if (!(error instanceof BadSample)) throw error;
      if (data.bad_samples === "fail" || (i === count - 1 && looked.length === 0)) throw unreadable(error);
    }
  }
  const [first] = looked;
  const cropped = data.centre_crop > 0 || data.random_crop > 0;
  const comesOut = ({ width, height }: Sized) =>
    data.resize > 0 ? resizedSize([height, width], data.resize).join() : `${height},${width}`;
  const other = looked.find((one) => comesOut(one) !== comesOut(first));
  if (other && !cropped) throw mixed(first, other, data.resize);
  const one = looked.every(({ width, height }) => width === first.width && height === first.height);
  return { ...first, said: one ? `${first.height} x ${first.width}` : "various sizes" };
}

function mixed(a: Sized, b: Sized, resize: number): UserError {
  const said = ({ path, width, height }: Sized) => `${path} is ${width} wide and ${height} high`;
  return new UserError(
    "data",
    `The images have several sizes: ${said(a)}, ${said(b)}; a batch needs them in one. ` +
      (resize > 0
        ? `--resize ${resize} makes the shorter sides equal, not the longer: add --centre-crop ${resize}, or ` +
          `--random-crop ${resize}.`
        : "Add --resize 256 --centre-crop 224, or other lengths that suit the model."),
  );
}

const unreadable = ({ path, reason }: BadSample) =>
  new UserError(
    "data",
    `${path} ${reason}. Repair it, or have such images left out with --bad-samples skip.`,
  );
