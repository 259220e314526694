// Finds an optimizer's state in a checkpoint, parameter by parameter.
import type { Tensor } from "../../ffi/tensor.ts";
import { UserError } from "../base/errors.ts";
import type { StateParts } from "./training_state.ts";
import { field, type Key, tensorBytes, TensorData, type Value } from "./value.ts";

type Copy = (into: Tensor, data: TensorData) => void;

type Kept = Pick<StateParts["optimizer"], "slots" | "numbers">;

/**
 * How torch writes a state that is of all parameters together: as the first one's.
 * @internal
 */
export interface JointState {
  entry(of: Kept, data: (t: Tensor) => TensorData): Map<Key, Value>;
  /** Nothing is changed before what it returns is called. A text names what is missing, or is of another model. */
  read(entry: Value | undefined, into: Kept): ((copy: Copy) => void) | string;
}

/** Nothing is changed before `put`. */
export function matchOptimizer(
  parts: StateParts,
  root: Value,
  own: Value,
  path: string,
): { put(copy: Copy): void; readonly notice?: string } {
  const type = field(own, "optimizer");
  if (type !== parts.optimizer.type) {
    throw new UserError(
      "checkpoint",
      `${path} was made with the optimizer ${type}, this run has ${parts.optimizer.type}: ` +
        `use --optimizer ${type}, or start a new run from its weights with --init-from ${path}.`,
    );
  }
  const steps = optimizerSteps(root, own);
  const state = field(field(root, "optimizer_state_dict"), "state");
  const groups = field(field(root, "optimizer_state_dict"), "param_groups");
  if (!(state instanceof Map) || !Array.isArray(groups) || !(steps >= 0)) {
    throw new UserError(
      "checkpoint",
      `${path} has no optimizer state: start a new run with --init-from ${path}.`,
    );
  }
  const numbers = numbersOf(groups, parts.names), { joint } = parts.optimizer;
  if (joint) return matchJoint(parts, joint, { state, numbers, steps }, path);
  const found: [Tensor, TensorData][] = [];
  const put = (copy: Copy) => {
    parts.optimizer.steps = steps;
    const own = parts.optimizer.groups;
    if (own) {
      own.steps = own.factors.map((_, g) => numberIn(state.get(numbers[own.of.indexOf(g)]), "step") ?? steps);
    }
    numbersBeside(parts.optimizer).forEach((values, g) => {
      const entry = state.get(numbers[own ? own.of.indexOf(g) : 0]);
      for (const name of Object.keys(values)) {
        const ofGroup = field(groups[g], name);
        values[name] = typeof ofGroup === "number" ? ofGroup : numberIn(entry, name) ?? values[name];
      }
    });
    for (const [t, data] of found) copy(t, data);
  };
  if (state.size === 0) return { put };
  parts.names.forEach((name, i) => {
    for (const [slot, tensors] of parts.optimizer.slots) {
      if (tensors[i].numel === 0) continue; // this parameter does without
      const data = field(state.get(numbers[i]), slot);
      const shape = tensors[i].shape.join(", ");
      if (!(data instanceof TensorData) || data.shape.join(", ") !== shape) {
        throw new UserError(
          "checkpoint",
          `${path}: the optimizer's ${slot} of ${name} should have shape [${shape}]` +
            `${data instanceof TensorData ? ` and has [${data.shape.join(", ")}]` : " and is missing"}. ` +
            `Is it a checkpoint of another model? Weights alone: --init-from ${path}.`,
        );
      }
      found.push([tensors[i], data]);
    }
  });
  return { put, notice: leftOut([...state.values()], parts.optimizer, path) };
}

function matchJoint(
  { names, optimizer }: StateParts,
  joint: JointState,
  { state, numbers, steps }: {
    readonly state: Map<Key, Value>;
    readonly numbers: readonly number[];
    readonly steps: number;
  },
  path: string,
): { put(copy: Copy): void } {
  const inOrder = numbers.every((number, i) => number === i);
  const put = state.size === 0
    ? () => {}
    : inOrder
    ? joint.read(state.get(0), optimizer)
    : "the same order of parameters";
  if (typeof put !== "string") {
    return {
      put(copy) {
        optimizer.steps = steps;
        put(copy);
      },
    };
  }
  throw new UserError(
    "checkpoint",
    `${path}: ${optimizer.type} has one state for all ${names.length} parameters, and this one lacks ${put}, or has it for ` +
      `another model. Weights alone: --init-from ${path}.`,
  );
}

/** The numbers beside the slots: each group's, or of all parameters; none where the optimizer has no such. */
export const numbersBeside = (
  { numbers, groups }: StateParts["optimizer"],
): readonly Record<string, number>[] => groups ? groups.numbers ?? [] : numbers ? [numbers] : [];

/** Python's optimizers keep more where they were told to: what is lost changes the steps. */
function leftOut(
  entries: readonly Value[],
  optimizer: StateParts["optimizer"],
  path: string,
): string | undefined {
  const names = new Set(
    entries.flatMap((entry) => entry instanceof Map ? [...entry.keys()].map(String) : []),
  );
  const kept = new Set(["step", ...optimizer.slots.keys(), ...numbersBeside(optimizer).flatMap(Object.keys)]);
  const lost = [...names].filter((name) =>
    !kept.has(name) && entries.some((entry) => field(entry, name) instanceof TensorData)
  );
  if (lost.length === 0) return undefined;
  const meaning = lost.includes(LARGEST)
    ? " It is amsgrad's, which --set training.optimizer.amsgrad=true goes on with: without it steps are divided by the mean of " +
      "the squared gradients and not by the largest that it was, so they may be longer."
    : " From here on the steps are those of this command's optimizer without it.";
  return `Warning: ${optimizer.type} here keeps no ${
    lost.join(", ")
  }, which ${path} has: it is left out.${meaning}`;
}

const LARGEST = "max_exp_avg_sq";

/** Each parameter's number in the file, by its name: another run may train others. */
function numbersOf(groups: readonly Value[], names: readonly string[]): number[] {
  const listed = new Map<string, number>();
  for (const group of groups) {
    const numbers = field(group, "params"), own = field(group, "param_names");
    if (!Array.isArray(numbers) || !Array.isArray(own)) return names.map((_, i) => i);
    own.forEach((name, i) => listed.set(String(name), Number(numbers[i])));
  }
  return names.map((name, i) => listed.size === 0 ? i : listed.get(name) ?? NaN);
}

/** A number, alone or in a tensor; else null. */
export function numberOf(value: Value | undefined): number | null {
  if (typeof value === "number") return value;
  if (!(value instanceof TensorData) || value.numel !== 1) return null;
  const { buffer } = tensorBytes(value).slice();
  return value.dtype === "f32"
    ? new Float32Array(buffer)[0]
    : value.dtype === "f64"
    ? new Float64Array(buffer)[0]
    : null;
}

/** Null where the entry has no tensor of one number under this name. */
function numberIn(entry: Value | undefined, name: string): number | null {
  const value = field(entry, name);
  if (!(value instanceof TensorData) || value.dtype !== "f32" || value.numel !== 1) return null;
  return new Float32Array(tensorBytes(value).slice().buffer)[0];
}

/** Older versions wrote it as the scheduler's. */
function optimizerSteps(root: Value, own: Value): number {
  const steps = field(own, "optimizer_steps") ?? field(field(root, "scheduler_state_dict"), "last_epoch");
  return Number(steps ?? 0);
}
