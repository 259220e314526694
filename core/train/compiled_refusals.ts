// Plans that are not used. What gave other gradients than ordinary steps stays refused, and the run keeps to that: its
// checkpoints name the shapes of these micro-batches, and a run that goes on runs them op by op. Compared again, at other
// weights, they might be found right, and the run would have other bits than one that was never stopped.
import type { Pass } from "./blocks.ts";
import type { Judgement } from "./compiled_check.ts";
import type { Plans, Recorded } from "./compiled_plans.ts";
import type { Mode, Reports } from "./compiler.ts";
import type { Tensor } from "../../ffi/tensor.ts";

/** A micro-batch as it comes. */
export type Given = Omit<Recorded, "outcome">;

/** A micro-batch's shapes and the way that was refused: steps that are compiled another way are compared. */
function refusedWay(
  mode: Mode,
  { rollout }: Pick<Pass, "rollout">,
  { input, target, weight }: Given,
): string {
  const shape = ({ dtype, shape }: Tensor) => `${dtype} ${shape.join("x")}`;
  return [
    `${mode}: ${shape(input)}`,
    shape(target),
    ...(weight !== null ? ["weighted"] : []),
    ...(rollout ? [`rollout ${rollout.steps}`] : []),
  ].join(", ");
}

/** Frees plans that are not to be used, and says why. */
export class Refuser {
  #reportedBefore = false;

  constructor(
    readonly mode: Mode,
    readonly reports: () => Reports,
    /** Micro-batches that run op by op from now on, and in the run that goes on. */
    readonly refused: Set<string>,
  ) {}

  /** True where it was refused before this run went on. */
  hasRefused(p: Pass, given: Given): boolean {
    if (!this.refused.has(refusedWay(this.mode, p, given))) return false;
    if (!this.#reportedBefore) this.reports().warn(KEPT[this.mode]);
    this.#reportedBefore = true;
    return true;
  }

  differs(judged: Judgement, plans: Plans, p: Pass, given: Given): void {
    this.#refuse(plans, p, given, differs(judged, this.mode));
  }

  tooFull(plans: Plans, p: Pass, given: Given): void {
    this.#refuse(plans, p, given, TOO_FULL);
  }

  /** The run that goes on would record two steps again. */
  changes(plans: Plans): void {
    plans.free();
    this.reports().warn(CHANGES);
  }

  #refuse(plans: Plans, p: Pass, given: Given, why: string): void {
    plans.free();
    this.refused.add(refusedWay(this.mode, p, given));
    this.reports().warn(why);
  }
}

const KEPT: Readonly<Record<Mode, string>> = {
  fast:
    "With these batches steps run op by op, as they did in this run before, where compiled ones gave other gradients: " +
    "a new run compares them again, also one that begins with this one's weights (--init-from). An update that is " +
    "compiled stays so.",
  exact:
    "With these batches steps run op by op, as they did in this run before, where compiled ones didn't have their " +
    "bits: --compile=fast allows other rounding, and a new run compares them again.",
};

const TOO_FULL =
  "Steps are not compiled: the GPU has no room to try a plan beside the ordinary step. They run op by op; a smaller " +
  "--batch-size leaves room.";

const CHANGES =
  "Steps are not compiled: the program takes other numbers or other ops in its second step than in the first. " +
  "They run op by op.";

/** Forward and backward are refused by their gradients; the update has none, and is compiled by itself. */
const UPDATE_COMPILED = "An update that is compiled stays so, and rounds otherwise in the last digits:";

const differs = ({ wrong, of = "gradients" }: Judgement, mode: Mode): string =>
  mode === "exact"
    ? `Compiled steps don't have the bits of ordinary ones (${wrong}), so steps run op by op. ` +
      "--compile=fast allows other rounding, and --no-compile leaves the attempt out."
    : `Compiled steps give other ${of} than the ordinary ones (${wrong}), so steps run op by op. ` +
      `${UPDATE_COMPILED} --no-compile leaves both out.`;
