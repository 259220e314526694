import { rand, randn } from "../../../ffi/ops.ts";
import { manualSeed } from "../../../ffi/context.ts";
import type { Tensor } from "../../../ffi/tensor.ts";
import type { Config } from "../../settings/settings.ts";
import { UserError } from "../../base/errors.ts";
import { formatBytes, formatPlural } from "../../base/format.ts";
import { MOST_POSITIONS } from "../../base/random.ts";

/** The task depends on the seed alone, its samples also on the role. */
export interface Spec {
  readonly role: "train" | "val";
  readonly samples: number;
  readonly seed: number;
  readonly loss: Config["training"]["loss"];
  readonly model: Config["model"];
}

const MOST_BYTES = 512 * 2 ** 20;

export function checkCount({ role, samples }: Pick<Spec, "role" | "samples">): void {
  if (samples <= MOST_POSITIONS) return;
  throw new UserError(
    "usage",
    `--${role}-samples ${samples} is more than the ${MOST_POSITIONS} samples that can be put in order.`,
  );
}

export function checkSamples({ role, samples }: Spec, what: string, bytesEach: number): void {
  const most = Math.floor(MOST_BYTES / bytesEach);
  const fewer = most > 0 ? `set --${role}-samples ${most} or less, or ` : "";
  checkMemory(
    `${formatPlural(samples, "sample")} of ${what}`,
    samples * bytesEach,
    `${fewer}make the samples smaller`,
  );
}

export function checkMemory(what: string, bytes: number, advice: string): void {
  if (bytes <= MOST_BYTES) return;
  const most = formatBytes(MOST_BYTES);
  throw new UserError(
    "usage",
    `${what} would take ${formatBytes(bytes)} of memory, and made-up data may take ${most}: ${advice}.`,
  );
}

// libtorch's CPU generator is sequential: a key gives the same numbers for any number of threads. It is the
// default generator, so whoever draws next (a model's initialisation) seeds it first.
export function normals(key: bigint, shape: readonly number[]): Tensor {
  manualSeed(key);
  return randn(shape);
}

export function uniforms(key: bigint, shape: readonly number[]): Tensor {
  manualSeed(key);
  return rand(shape);
}
