// Images as a batch stores them: in one size, with the decoder that there is, and how they become numbers from 0 to 1.
import { join } from "../../../deps/path.ts";
import { findTurboJpeg } from "../../../ffi/codecs.ts";
import { openedLibtorch } from "../../../ffi/library.ts";
import { constant } from "../../../ffi/make.ts";
import { div, toDtype } from "../../../ffi/ops.ts";
import { UserError } from "../../base/errors.ts";
import type { Config } from "../../settings/settings.ts";
import { listOf, setsSize, shapeAfter } from "../augment/list.ts";
import { BadSample } from "../arrays/rows.ts";
import { resizedSize } from "../augment/resize.ts";
import type { Batch, ThreadedParts } from "../source/source.ts";
import { USUAL } from "../transforms/values.ts";
import type { Sized } from "./listing.ts";

const LOOKED_AT = 16;

/** A batch needs one size. A few headers are compared here; other images are checked when they are read. */
export function sizes(
  sizeAt: (index: number) => Sized,
  indices: Int32Array,
  data: Config["data"],
  labelled = false,
) {
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
  const list = listOf(data.augment), listed = setsSize(list) ? list!.steps : null;
  const cropped = data.centre_crop > 0 || data.random_crop > 0;
  const comesOut = ({ width, height }: Sized) =>
    listed
      ? String(shapeAfter(listed, [3, height, width]))
      : data.resize > 0
      ? resizedSize([height, width], data.resize).join()
      : `${height},${width}`;
  const other = looked.find((one) => comesOut(one) !== comesOut(first));
  if (other && !cropped) throw mixed(first, other, data.resize, labelled);
  const one = looked.every(({ width, height }) => width === first.width && height === first.height);
  const deep = looked.some(({ deep }) => deep);
  const text = one ? `${first.height} x ${first.width}` : "various sizes";
  return { ...first, deep, text: deep ? `${text}, 16 bits a value` : text };
}

/**
 * Images as they are stored, and how they become numbers from 0 to 1. Readers scale those with 16 bits, each by its
 * own type.
 */
export function imageParts(
  { width, height, deep = false }: Omit<Sized, "path">,
): Pick<ThreadedParts, "stored" | "usual" | "bytewise" | "finish"> {
  const stored = { name: "images", shape: [3, height, width], dtype: deep ? "f32" : "u8" } as const;
  const finish = ({ input, target }: Batch): Batch => ({
    input: div(toDtype(input, "f32"), constant(255, "f32", input.device)),
    target,
  });
  return { stored, usual: USUAL.imagefolder, bytewise: !deep, ...(!deep && { finish }) };
}

function mixed(a: Sized, b: Sized, resize: number, labelled: boolean): UserError {
  const text = ({ path, width, height }: Sized) => `${path} is ${width} wide and ${height} high`;
  return new UserError(
    "data",
    `The images have several sizes: ${text(a)}, ${text(b)}; a batch needs them in one. ` +
      (labelled
        ? "Add --augment 'resize((256, 256), interpolation=bicubic)', or other sides that suit the model: labels of pixels " +
          "take the nearest."
        : resize > 0
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

/** HPCTRAIN_TURBOJPEG ("none" for none) comes before the machine's and libtorch's environment. */
export function turboJpeg(): string | null {
  const named = Deno.env.get("HPCTRAIN_TURBOJPEG");
  if (named === "none") return null;
  if (named) {
    const found = findTurboJpeg([named]);
    if (found) return found;
    throw new UserError(
      "environment",
      `HPCTRAIN_TURBOJPEG is ${named}, which can't be loaded as libturbojpeg. Give the path of libturbojpeg.so.0, ` +
        'or "none".',
    );
  }
  const conda = Deno.env.get("CONDA_PREFIX");
  const name = "libturbojpeg.so.0";
  return findTurboJpeg([
    name,
    ...(conda ? [join(conda, "lib", name)] : []),
    join(openedLibtorch().dir, "../../../..", name), // from lib/python3.*/site-packages/torch/lib
  ]);
}
