// Images of discs and the class of each pixel (unet). May import random, source, ffi.
import { add, scale, sub, tensor } from "../../../ffi/make.ts";
import { amax, lt, mul, reshape, square, toDtype } from "../../../ffi/ops.ts";
import { keep, type Tensor } from "../../../ffi/tensor.ts";
import { key, uniform } from "../../random.ts";
import { type Ids, type Source, source } from "../source.ts";
import type { Spec } from "./draw.ts";
import { noiseFor } from "./noise.ts";

const SIZE = 32;
const DISCS = 3;
const NOISE = 0.3;

/**
 * Three discs a sample, their radii 1/16 to 1/4 of the side; each has a class from 1 to classes - 1, the background is 0.
 * A pixel's brightness is its class / (classes - 1) plus noise; where discs overlap the higher class is in front.
 */
export function masks(spec: Spec): Source {
  const { model, role, samples, seed } = spec;
  const channels = model.channels || 1;
  const size = model.image_size || SIZE;
  const classes = Math.max(2, model.output_size);
  const noise = noiseFor(spec, [channels, size, size]);
  const grid = (shape: number[]) =>
    keep(tensor(Float32Array.from({ length: size }, (_, i) => (i + 0.5) / size), shape));
  const x = grid([1, 1, 1, size]), y = grid([1, 1, size, 1]);
  /** One random number for each disc of each id, as [ids, discs, 1, 1]. */
  const perDisc = (part: string, from: (u: number) => number) => {
    const at = uniform(key(seed, "masks", role, part));
    return (ids: Ids): Tensor => {
      const values = Float32Array.from(
        { length: ids.length * DISCS },
        (_, i) => from(at(ids[Math.floor(i / DISCS)] * DISCS + i % DISCS)),
      );
      return tensor(values, [ids.length, DISCS, 1, 1]);
    };
  };
  const centreX = perDisc("x", (u) => u), centreY = perDisc("y", (u) => u);
  const radius = perDisc("radius", (u) => 1 / 16 + u * 3 / 16);
  const classOf = perDisc("class", (u) => 1 + Math.floor(u * (classes - 1)));
  return source({
    name: "synthetic masks",
    length: samples,
    task: "segmentation",
    outputs: classes,
    fields: ["image", "mask"],
    description: `synthetic masks: ${channels} x ${size} x ${size} -> ${classes} classes a pixel`,
    raw(ids) {
      const distance = add(square(sub(x, centreX(ids))), square(sub(y, centreY(ids))));
      const inside = toDtype(lt(distance, square(radius(ids))), "f32");
      const mask = amax(mul(inside, classOf(ids)), [1]);
      const brightness = reshape(scale(mask, 1 / (classes - 1)), [ids.length, 1, size, size]);
      return { input: add(brightness, scale(noise(ids), NOISE)), target: toDtype(mask, "i64") };
    },
  });
}
