// Compiled steps that gave other gradients than ordinary ones are refused, and the run keeps to that: its checkpoints name the
// shapes of their micro-batches, and a run that goes on runs these op by op. Compared again, at other weights, they might be
// found right, and the run would have other bits than one that was never stopped.
import type { Cursor } from "../checkpoint/training_state.ts";
import type { Team } from "../ranks/team.ts";
import type { Pass } from "./blocks.ts";
import type { Mode, Recorded } from "./compiled_plans.ts";
import type { Tensor } from "../../ffi/tensor.ts";

export interface Refusals {
  /** Those of this rank, which judges its own micro-batches. */
  readonly own: Set<string>;
  /** Puts those of all ranks into the cursor. Every rank calls it before a save. */
  keep(): void;
}

export function openRefusals(cursor: Cursor, team: Team | null): Refusals {
  const own = new Set(cursor.refused?.[team?.rank ?? 0] ?? []);
  return {
    own,
    keep() {
      const all = team ? team.gather([...own], "refused steps") : [[...own]];
      if (all.some((one) => one.length > 0)) cursor.refused = all;
    },
  };
}

/** A micro-batch's shapes and the way that was refused: steps that are compiled another way are compared. */
export function refusalOf(
  mode: Mode,
  { rollout }: Pick<Pass, "rollout">,
  { input, target, weight }: Pick<Recorded, "input" | "target" | "weight">,
): string {
  const shape = ({ dtype, shape }: Tensor) => `${dtype} ${shape.join("x")}`;
  return [
    `${mode}: ${shape(input)}`,
    shape(target),
    ...(weight !== null ? ["weighted"] : []),
    ...(rollout ? [`rollout ${rollout.steps}`] : []),
  ].join(", ");
}

export const KEPT: Readonly<Record<Mode, string>> = {
  fast:
    "With these batches steps run op by op, as they did in this run before, where compiled ones gave other gradients: " +
    "a new run compares them again, also one that begins with this one's weights (--init-from). An update that is " +
    "compiled stays so.",
  exact:
    "With these batches steps run op by op, as they did in this run before, where compiled ones didn't have their " +
    "bits: --compile=fast allows other rounding, and a new run compares them again.",
};
