// What the made-up data sets share: their specification, and keyed draws. May import errors, random, ffi.
import { rand, randn } from "../../../ffi/ops.ts";
import { manualSeed } from "../../../ffi/random.ts";
import type { Tensor } from "../../../ffi/tensor.ts";
import type { Config } from "../../config/settings.ts";
import { MOST_POSITIONS } from "../../random.ts";
import { UserError } from "../../errors.ts";

/** One made-up set of samples. All that its task consists of depends on the seed, only its samples on the role. */
export interface Spec {
  readonly role: "train" | "val";
  readonly samples: number;
  readonly seed: number;
  readonly loss: Config["training"]["loss"];
  readonly model: Config["model"];
}

/** The flag that sets how many samples there are. */
export const samplesFlag = ({ role }: Spec): string => `--${role}-samples`;

export function checkCount(spec: Spec): void {
  if (spec.samples <= MOST_POSITIONS) return;
  throw new UserError(
    "usage",
    `${
      samplesFlag(spec)
    } ${spec.samples} is more than the ${MOST_POSITIONS} samples that can be put in order.`,
  );
}

// libtorch's CPU generator is sequential: the same key gives the same numbers for any number of threads. The draws
// go through the default generator, so whoever draws after them (a model's initialisation) seeds it first.
export function normals(key: bigint, shape: readonly number[]): Tensor {
  manualSeed(key);
  return randn(shape);
}

export function uniforms(key: bigint, shape: readonly number[]): Tensor {
  manualSeed(key);
  return rand(shape);
}
