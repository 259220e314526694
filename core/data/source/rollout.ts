// --rollout: how many steps a model of the next step goes by its own predictions, and which rows of the data a
// sample needs for it.
import { narrow } from "../../../ffi/ops.ts";
import type { Tensor } from "../../../ffi/tensor.ts";
import { UserError } from "../../base/errors.ts";
import type { Config } from "../../settings/settings.ts";
import type { Source } from "./source.ts";

interface RolloutSteps {
  /** Training begins with so many. */
  readonly first: number;
  readonly most: number;
}

export function rolloutOf({ rollout }: Pick<Config["data"], "rollout">): RolloutSteps | null {
  if (rollout === "") return null;
  const [first, most = first] = rollout.split("..").map(Number);
  return { first: Math.min(first, most), most };
}

/** Each number of steps has as many epochs. */
export function stepsAt({ first, most }: RolloutSteps, epoch: number, epochs: number): number {
  return Math.min(most, first + Math.floor(epoch * (most - first + 1) / Math.max(1, epochs)));
}

/** A row of the data, as a model is fed with it. */
export interface RolloutRows {
  readonly steps: RolloutSteps;
  readonly ahead: number;
  readonly channels: number;
  readonly fed: readonly number[];
}

interface Channels {
  readonly name: string;
  readonly channels: number;
}

/** `isStatic`: a feature is the same for all samples. */
export function rolloutRows(
  path: string,
  data: Config["data"],
  features: readonly (Channels & { readonly isStatic?: boolean })[],
  targets: readonly Channels[],
): RolloutRows | null {
  const steps = rolloutOf(data);
  if (steps === null) return null;
  const refuse = (why: string) => new UserError("usage", `--rollout ${data.rollout} ${why}.`);
  if (data.lead !== "1") throw refuse("goes on from a model's prediction of the next step: give --lead 1");
  const strange = targets.find(({ name }) => features.every((column) => column.name !== name));
  if (strange) {
    throw refuse(
      `feeds predictions to the model, and "${strange.name}" of ${path} is no feature: name it in --features`,
    );
  }
  const conflicts = Object.entries({
    "--patch": data.patch !== "",
    "--augment": data.augment !== "",
    "--mixup": data.mixup > 0,
    "--cutmix": data.cutmix > 0,
    "--fill climatology or nearest": ["climatology", "nearest"].includes(data.fill.join()),
  });
  const conflict = conflicts.find(([, has]) => has);
  if (conflict) throw refuse(`can't go with ${conflict[0]}: leave one of them out`);
  const begins = new Map<string, number>();
  let count = 0;
  for (const { name, channels } of targets) {
    begins.set(name, count);
    count += channels;
  }
  const fed = features.flatMap(({ name, channels }) => {
    const from = begins.get(name);
    return Array.from({ length: channels }, (_, i) => from === undefined ? -1 : from + i);
  });
  const forced = features.some(({ name, isStatic }) => !begins.has(name) && !isStatic);
  return { steps, ahead: forced ? steps.most - 1 : 0, channels: fed.length, fed };
}

/** Training with fewer steps than there are leads compares the first ones. */
export function shortened(source: Source, steps: (epoch: number) => number, most: number): Source {
  const shorten = (target: Tensor, epoch: number) => {
    const k = steps(epoch);
    return k === most ? target : narrow(target, 1, 0, target.shape[1] / most * k);
  };
  return {
    ...source,
    shorten,
    finish(raw, part) {
      const { input, target } = source.finish(raw, part);
      return { input, target: shorten(target, part.epoch) };
    },
    host: source.host && shortened(source.host, steps, most),
  };
}

const views = new WeakMap<Source, Map<number, Source>>();

/** Metrics see a target of so many steps. */
export function ofSteps(source: Source, steps: number, most: number): Source {
  if (steps === most) return source;
  const known = views.get(source) ?? new Map<number, Source>();
  views.set(source, known);
  const count = source.target.shape[0] / most * steps;
  const made = known.get(steps) ?? {
    ...source,
    target: { ...source.target, shape: source.target.shape.with(0, count) },
    names: source.names?.slice(0, count),
    leads: steps,
    reference: source.reference?.slice(0, count),
    baselines: undefined,
  };
  known.set(steps, made);
  return made;
}
