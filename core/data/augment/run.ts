// The steps of a list are done to one sample after another, in the thread that has read it.
import { BadSample } from "../arrays/rows.ts";
import type { Stored } from "./planes.ts";
import { kindOf, shapeAfter, type Step } from "./list.ts";
import { type Draw, DRAWS_OF_A_STEP, orderOf, type Role, Room, Sample } from "./sample.ts";

/** A list as threads get it. */
export interface Steps {
  readonly steps: readonly Step[];
  readonly role: Role;
  /** This stands where nothing was; null where a step says it. */
  readonly outside: number | null;
  /** Targets are moved with their inputs, and change in nothing else. */
  readonly target: boolean;
}

/** A step's last draw decides whether it is done, where it has a chance `p`. */
const LAST = DRAWS_OF_A_STEP - 1;

/** Evaluation's steps draw nothing, and get no draws. */
const NO_DRAW: Draw = () => 0;

/** The sample has to come to this shape. */
export function openSteps({ steps, role, outside, target }: Steps, shape: readonly number[]) {
  const room = new Room();
  return (stored: Stored, draw: Draw | null): Sample => {
    const sample = new Sample(room, stored, role, outside);
    run(steps, sample, target, draw ?? NO_DRAW);
    const found = ofDimensions(shape.length, sample);
    if (found.join() !== shape.join()) throw otherShape(steps, stored.shape, found, shape);
    return sample;
  };
}

/** A series of [channels, time] is one plane. */
const ofDimensions = (count: number, { channels, height, width }: Sample) =>
  count === 2 && channels === 1 ? [height, width] : [channels, height, width];

function run(steps: readonly Step[], sample: Sample, target: boolean, draw: Draw): void {
  for (const step of steps) runOne(step, sample, target, draw);
}

function runOne(step: Step, sample: Sample, target: boolean, all: Draw): void {
  const draw: Draw = (k) => all(step.first + k), { inner, options } = step;
  if (!inner) {
    const { acts, run } = kindOf(step)!;
    if (target && acts !== "places" && acts !== "both") return;
    if (options.p !== undefined && step.kind !== "photometric_distort" && draw(LAST) >= options.p) return;
    return run(sample, options, draw);
  }
  switch (step.kind) {
    case "random_apply":
      return draw(LAST) < options.p ? run(inner, sample, target, all) : undefined;
    case "random_choice":
      return runOne(inner[chosen(options.p, draw(LAST))], sample, target, all);
    default:
      return run(orderOf(inner.length, draw, 0).map((i) => inner[i]), sample, target, all);
  }
}

function chosen(shares: readonly number[], at: number): number {
  let sum = 0;
  const found = shares.findIndex((share) => at < (sum += share));
  return found < 0 ? shares.length - 1 : found;
}

function otherShape(
  steps: readonly Step[],
  stored: readonly number[],
  found: readonly number[],
  wanted: readonly number[],
): BadSample {
  const text = (shape: readonly number[]) => `[${shape.join(", ")}]`;
  const [channels, height, width] = stored.length === 2 ? [1, ...stored] : stored;
  const problem = shapeAfter(steps, [channels, height, width]);
  return new BadSample(
    "",
    typeof problem === "string"
      ? problem
      : `is ${text(stored)}, which becomes ${text(found)}, but samples of ${text(wanted)} were expected: ` +
        "bring all to one size with random_resized_crop(224), or resize(256), centre_crop(224)",
  );
}
