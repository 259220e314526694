// Images of classes: a smooth pattern for each class under white noise. May import random, source, ffi.
import { add, scale, tensor } from "../../../ffi/make.ts";
import { indexSelect, toDtype, upsampleBilinear2d } from "../../../ffi/ops.ts";
import { keep, scope } from "../../../ffi/tensor.ts";
import { key, uniformInt } from "../../random.ts";
import { type Source, source } from "../source.ts";
import { normals, type Spec } from "./draw.ts";
import { noiseFor } from "./noise.ts";

const CLASSES = 10;
/** Pixels along the side of a pattern before it is blown up. */
const COARSE = 4;
/** Height of the patterns; the noise has a standard deviation of 1. */
const CONTRAST = 0.5;

export function images(spec: Spec): Source {
  const { model, role, samples, seed } = spec;
  const mnistLike = model.name === "simple-convnet";
  const channels = model.channels || (mnistLike ? 1 : 3);
  const size = model.image_size || (mnistLike ? 28 : 32);
  const classes = model.output_size || CLASSES;
  const noise = noiseFor(spec, [channels, size, size]);
  const patterns = keep(scope(() => {
    const coarse = normals(key(seed, "images", "patterns"), [classes, channels, COARSE, COARSE]);
    return scale(upsampleBilinear2d(coarse, [size, size], false), CONTRAST);
  }));
  const classOf = uniformInt(key(seed, "images", role, "class"), classes);
  return source({
    name: "synthetic images",
    length: samples,
    task: "classification",
    outputs: classes,
    fields: ["image", "class"],
    description: `synthetic images: ${channels} x ${size} x ${size} -> ${classes} classes`,
    raw(ids) {
      const target = tensor(Int32Array.from(ids, classOf));
      return { input: add(indexSelect(patterns, 0, target), noise(ids)), target: toDtype(target, "i64") };
    },
  });
}
