// Kinds of micro-batches: those of the same shapes have the same plans.
import { returnFreedMemory } from "../../ffi/libc.ts";
import type { Pass } from "./blocks.ts";
import type { Plans } from "./compiled_plans.ts";
import type { Given } from "./compiled_refusals.ts";
import { sameShape, type Shape, shapeOf } from "./micro_batch.ts";

/** Each has memory of its own. */
const MOST_PLANS = 4;

/** How steps of one kind are taken. */
export type Steps =
  | { readonly are: "op by op" }
  | { readonly are: "unseen" }
  | {
    readonly are: "tried";
    readonly plans: Plans;
    /** Zeros among the first gradients may have hidden something: the second ones are compared, too. */
    readonly hides: boolean;
  }
  | { readonly are: "compiled" | "adding"; readonly plans: Plans };

export const OP_BY_OP: Steps = { are: "op by op" };
export const UNSEEN: Steps = { are: "unseen" };

/** A micro-batch's shapes. */
export interface Kind {
  readonly input: Shape;
  readonly target: Shape;
  readonly weighted: boolean;
  readonly rollout: number;
  steps: Steps;
  /** Those that came before their plan paid (`auto`). */
  waited: number;
}

export class Kinds {
  readonly #all: Kind[] = [];

  of(p: Pass, { input, target, weight }: Given): Kind | null {
    const rollout = p.rollout?.steps ?? 0, weighted = weight !== null;
    for (const kind of this.#all) {
      if (
        kind.weighted === weighted && kind.rollout === rollout && sameShape(kind.input, input) &&
        sameShape(kind.target, target)
      ) return kind;
    }
    return null;
  }

  /** No more are added. */
  get areMany(): boolean {
    return this.#all.length === MOST_PLANS;
  }

  add(p: Pass, { input, target, weight }: Given, steps: Steps): Kind {
    const kind: Kind = {
      ...{ input: shapeOf(input), target: shapeOf(target), weighted: weight !== null },
      ...{ rollout: p.rollout?.steps ?? 0, steps, waited: 0 },
    };
    this.#all.push(kind);
    return kind;
  }

  free(): void {
    for (const { steps } of this.#all.splice(0)) if ("plans" in steps) steps.plans.free();
    returnFreedMemory();
  }
}
