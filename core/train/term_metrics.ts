// The values of a sum's terms beside it: each term's mean over the items that it counts.
import { constant, upcast } from "../../ffi/make.ts";
import { isFloating } from "../../ffi/dtype.ts";
import { cat, mul, reshape, stack, toDtype } from "../../ffi/ops.ts";
import type { Tensor } from "../../ffi/tensor.ts";
import type { WeighedLoss } from "../models/summed_loss.ts";
import type { Measure } from "./measure.ts";

export const termKey = (name: string): string => `loss/${name}`;

/** A term's sum over its items, and their number. */
const SUMS = 2;

/** The terms' sums follow the measure's own. */
export function withTerms(of: Measure, terms: readonly WeighedLoss[]): Measure {
  const sumsOf = (output: Tensor, target: Tensor): Tensor => {
    const exact = isFloating(output.dtype) ? upcast(output) : output;
    const rows = terms.map(({ loss }) => {
      const items = loss.validCount(target), count = constant(items, "f64", output.device);
      const mean = items === 0
        ? constant(0, "f64", output.device)
        : toDtype(loss.apply(exact, target), "f64");
      return stack([mul(reshape(mean, []), count), count], 0);
    });
    return reshape(stack(rows, 0), [1, SUMS * terms.length]);
  };
  return {
    size: of.size + SUMS * terms.length,
    seesOutputs: true,
    many: false,
    rows(output, target, _, mask) {
      const first = of.seesOutputs ? [of.rows(output, target, 1, mask)] : [];
      return cat([...first, sumsOf(output, target)], 1);
    },
    finish(sums, loss) {
      const values = terms.map(({ name }, i) => {
        const at = of.size + SUMS * i;
        return [termKey(name), sums[at] / sums[at + 1]];
      });
      const { metrics, worst } = of.finish(sums.subarray(0, of.size), loss);
      return { metrics: { ...metrics, ...Object.fromEntries(values) }, worst };
    },
  };
}
