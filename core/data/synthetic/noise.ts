// White noise for any number of images, out of a small bank: nothing grows with the data set, and a sample's noise
// is a function of its id. May import random, memory, ffi.
import { add, scale } from "../../../ffi/make.ts";
import { indexSelect } from "../../../ffi/ops.ts";
import { keep, scope, type Tensor } from "../../../ffi/tensor.ts";
import { key, uniformInt } from "../../random.ts";
import { indexTensor } from "../memory.ts";
import type { Ids } from "../source.ts";
import { checkMemory, normals, type Spec } from "./draw.ts";

const MOST_BANK_BYTES = 32 * 2 ** 20;

/**
 * Standard normal noise of this shape for each id: the sum of two different images of the bank, over the square root of 2.
 * Training and validation have banks of their own. At 32 x 32 x 3 there are a million pairs.
 */
export function noiseFor({ seed, role }: Spec, shape: readonly number[]): (ids: Ids) => Tensor {
  const bytes = 4 * shape.reduce((a, b) => a * b, 1);
  const count = Math.min(1024, Math.max(16, Math.floor(MOST_BANK_BYTES / bytes)));
  checkMemory(`Noise for images of ${shape.join(" x ")}`, count * bytes, "set a smaller model.image_size");
  const domain = (part: string) => key(seed, "noise", role, part);
  const bank = keep(scope(() => scale(normals(domain("bank"), [count, ...shape]), Math.SQRT1_2)));
  const first = uniformInt(domain("first"), count);
  const further = uniformInt(domain("further"), count - 1);
  return (ids) => {
    const a = Int32Array.from(ids, first);
    const b = Int32Array.from(ids, (id, i) => (a[i] + 1 + further(id)) % count);
    return add(indexSelect(bank, 0, indexTensor(a)), indexSelect(bank, 0, indexTensor(b)));
  };
}
