// A graph that takes the targets, too, in two halves: what can be run without them, and the rest. May import core/errors,
// plan (types), place.
import { UserError } from "../../errors.ts";
import { placeOf } from "./place.ts";
import type { Plan, Step } from "./plan.ts";

export interface Halves {
  /** Gives the prediction: the model. */
  readonly body: Plan;
  /** Behind it: the loss. Empty where nothing waits for targets. */
  readonly tail: Plan;
  /** Slots that the tail uses, beside the targets, that the body makes or is given. */
  readonly between: readonly number[];
}

/** `target` is the slot of the targets, -1 for none; `loss` that of the loss. */
export function halvesOf(plan: Plan, path: string, target: number, loss: number): Halves {
  const { steps, roots, kinds } = plan;
  const body: Step[] = [], tail: Step[] = [];
  const late = new Set<number>([target]), lateMemory = new Set<number>();
  const read = new Set<number>();
  for (const step of steps) {
    const waits = target >= 0 &&
      step.uses.some((slot) => late.has(slot) || lateMemory.has(roots[slot]));
    if (!waits) {
      if (step.writes >= 0 && read.has(step.writes)) throw tangled(path, step);
      body.push(step);
      continue;
    }
    tail.push(step);
    for (const slot of step.uses) read.add(roots[slot]);
    for (const slot of step.defines) late.add(slot);
    if (step.writes >= 0) lateMemory.add(step.writes);
  }
  const made = new Set(tail.flatMap(({ defines }) => defines));
  const used = new Set(tail.flatMap(({ uses }) => uses));
  if (loss >= 0 && !made.has(loss)) used.add(loss);
  const between = [...used].filter((slot) =>
    slot !== target && !made.has(slot) && (kinds[slot] === "made" || kinds[slot] === "input")
  );
  return { body: { ...plan, steps: body }, tail: { ...plan, steps: tail }, between };
}

/** The loss is computed last here, so it may not look at what the model writes over before. */
function tangled(path: string, { node }: Step): UserError {
  const place = placeOf(node);
  return new UserError(
    "usage",
    `${path}: forward writes over what its loss has looked at before${place === "" ? "" : ` (${place})`}: ` +
      "write that without the operation in place, and export it again.",
  );
}
