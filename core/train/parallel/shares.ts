// How many items a step's loss is a mean over, on all ranks together. May import ffi, dist, its siblings.
import { fill_, scalar, toNumbers, zeros } from "../../../ffi/make.ts";
import { div, reshape, toDtype } from "../../../ffi/ops.ts";
import { type Device, keep, scope } from "../../../ffi/tensor.ts";
import type { Team } from "../../dist/team.ts";
import type { Loss } from "../../models/losses.ts";
import { itemsOf, type MicroBatch, type Share } from "../step.ts";

/** Each micro-batch's share of the items of all ranks; in the caller's scope. */
export type Shares = (batches: readonly MicroBatch[], loss: Loss) => readonly Share[];

export function openShares({ collectives }: Team, device: Device): Shares {
  const total = keep(zeros([1], { dtype: "f64", device }));
  return (batches, loss) => {
    const items = batches.map((batch) => itemsOf(batch, loss));
    fill_(total, items.reduce((sum, count) => sum + count, 0));
    collectives.wait(collectives.allReduce(total, "sum", "items of the step"));
    if (device === "cpu") {
      const [all] = toNumbers(total);
      return items.map((count) => count / all);
    }
    // Read to the host, it would make the step wait for the device.
    const all = reshape(total, []);
    return items.map((count) =>
      count === 0 ? 0 : scope(() => toDtype(div(scalar(count, "f64", device), all), "f32"))
    );
  };
}
