// Converts checkpoints of PyTorch programs, and our own of another optimizer, for loadTraining.
import { UserError } from "../base/errors.ts";
import { formatPlural } from "../base/format.ts";
import { findStateDict } from "./state_dict.ts";
import { dict, field, type Key, OrderedDict, tensorBytes, TensorData, type Value } from "./value.ts";
import { type Cursor, plain, type StateParts } from "./training_state.ts";

interface Adopter {
  readonly parts: Pick<StateParts, "names" | "stateDict" | "optimizer">;
  readonly stepsPerEpoch: number;
  readonly samples: number;
  readonly force: boolean;
}

interface Adopted {
  readonly root: Value;
  readonly notices: readonly string[];
}

export function adopt(root: Value, path: string, run: Adopter): Adopted {
  const own = field(root, "hpctrain");
  if (!(root instanceof Map) || !(own instanceof Map)) return foreign(root, path, run);
  const type = field(own, "optimizer"), wanted = run.parts.optimizer.type;
  if (!run.force || type === wanted) return { root, notices: [] };
  const changed = new Map(root)
    .set("hpctrain", new Map(own).set("optimizer", wanted).set("optimizer_steps", 0))
    .set("optimizer_state_dict", NO_STATE);
  return {
    root: changed,
    notices: [`The state of ${type} is left out, and ${wanted} begins from nothing (--force)`],
  };
}

const NO_STATE: Value = dict({ state: new Map(), param_groups: [] });

/** Training scripts call an optimizer's state dict by these names; Lightning keeps a list. */
const OPTIMIZERS = ["optimizer_state_dict", "optimizer", "optim", "optimizer_states"];
const STEPS = ["global_step", "step", "iter_num", "iteration"];

function foreign(root: Value, path: string, run: Adopter): Adopted {
  const { key, tensors } = findStateDict(root, path);
  const weights = new OrderedDict(tensors);
  const given = wholeNumber(field(root, "epoch"));
  const optimizer = optimizerOf(root, path, run);
  const steps = optimizer?.steps ??
    STEPS.map((name) => wholeNumber(field(root, name))).find((n) => n !== null);
  const epoch = given ?? Math.floor((steps ?? 0) / run.stepsPerEpoch);
  const loss = finite(field(root, "val_loss"));
  const best = finite(field(root, "best_val_loss")) ?? loss;
  const cursor: Cursor = {
    epoch,
    step: epoch * run.stepsPerEpoch, // This run's own batches count, so that its schedule fits its epochs.
    stepInEpoch: 0,
    samples: epoch * run.samples,
    sums: [],
    best: best === null ? null : { epoch, valLoss: best },
    valLoss: loss,
  };
  const scaler = field(root, "scaler_state_dict") ?? field(root, "scaler");
  return {
    root: dict({
      model_state_dict: weights,
      optimizer_state_dict: optimizer
        ? dict({ state: optimizer.state, param_groups: optimizer.numbers })
        : NO_STATE,
      scaler_state_dict: scaler instanceof Map ? scaler : dict({}),
      hpctrain: dict({
        optimizer: run.parts.optimizer.type,
        optimizer_steps: optimizer?.steps ?? 0,
        cursor: plain(cursor),
      }),
    }),
    notices: [
      `${path} was not written by hpctrain: settings are this command's, not the file's`,
      key === ""
        ? `${path} holds weights and nothing else: the run starts at epoch 0 with them`
        : `Taken from it: weights, ${
          optimizer
            ? `${run.parts.optimizer.type}'s state after ${formatPlural(optimizer.steps, "step")}`
            : "no optimizer state, so the optimizer begins from nothing"
        }, and ${formatPlural(epoch, "epoch")} done${given === null ? "" : ` (its epoch is ${given})`}`,
    ],
  };
}

function optimizerOf(
  root: Value,
  path: string,
  { parts, force }: Adopter,
): { state: Map<Key, Value>; steps: number; numbers: Value[] } | null {
  const found = OPTIMIZERS.map((name) => field(root, name)).map((one) => Array.isArray(one) ? one[0] : one)
    .find((one) => field(one, "state") instanceof Map && Array.isArray(field(one, "param_groups")));
  const state = field(found, "state"), groups = field(found, "param_groups");
  if (!(state instanceof Map) || !Array.isArray(groups) || state.size === 0) return null;
  const places = modelOrder(parts), { type } = parts.optimizer, names = places.map((i) => parts.names[i]);
  const slots = [...parts.optimizer.slots].map(([slot, all]) => [slot, places.map((i) => all[i])] as const);
  const optimizer = { slots: new Map(slots) };
  const order = orderOf(groups, state, names, optimizer);
  const why = typeof order === "string"
    ? order
    : parts.optimizer.joint
    ? lackingJoint(parts.optimizer, state, order, groups)
    : [...optimizer.slots].map((slot) => lacking(state, order, names, slot)).find((one) => one !== null);
  if (typeof order !== "string" && why === undefined) {
    const entries = names.map((_, i) => state.get(order[i]) ?? null);
    const steps = wholeNumber(number(field(entries[0], "step"))) ?? 1; // SGD counts no steps: it has begun.
    return {
      state: new Map(entries.map((entry, i) => [places[i], entry])),
      steps,
      numbers: groups.map(numbersIn),
    };
  }
  if (force) return null;
  throw new UserError(
    "checkpoint",
    `${path}: its optimizer state is not one of ${type} for this model: ${why}. ` +
      "Set --optimizer as in the program that wrote it, or go on with its weights and a new optimizer state: --force.",
  );
}

/** A group may have numbers of the state, such as Prodigy's distance; its parameters have other places now. */
const numbersIn = (group: Value): Value =>
  new Map(group instanceof Map ? [...group].filter(([, value]) => typeof value === "number") : []);

type Optimizer = Pick<Adopter["parts"]["optimizer"], "slots">;

/** The numbers of the parameters as the model has them, which lie group by group in the arena. */
function modelOrder({ names, stateDict }: Adopter["parts"]): number[] {
  const places = new Map(stateDict.map(([name], place) => [name, place]));
  const placeOf = (i: number) => places.get(names[i]) ?? names.length;
  return [...names.keys()].sort((a, b) => placeOf(a) - placeOf(b) || a - b);
}

/** PyTorch numbers the parameters through all groups. A text is the reason why there is no order. */
function orderOf(
  groups: readonly Value[],
  state: Map<Key, Value>,
  names: readonly string[],
  optimizer: Optimizer,
): Key[] | string {
  const list = (name: string) =>
    groups.map((group) => {
      const items = field(group, name);
      return Array.isArray(items) ? items as Key[] : [];
    });
  const members = list("params"), ids = members.flat(), listed = list("param_names").flat();
  if (ids.length !== names.length) {
    return `it is of ${formatPlural(ids.length, "parameter")}, and the model has ${names.length}`;
  }
  if (listed.length === ids.length) {
    const byName = new Map(listed.map((name, i) => [name, ids[i]]));
    const unknown = names.find((name) => !byName.has(name));
    return unknown === undefined ? names.map((name) => byName.get(name)!) : `it does not name ${unknown}`;
  }
  return groups.length === 1 || optimizer.slots.size === 0
    ? ids
    : orderByShapes(members, state, names.length, optimizer);
}

/** Many groups of layers that are alike have more ways than can be looked at. */
const MOST_PLACES = 100_000;

/**
 * Scripts without names make their groups in the model's order, the matrices in one and the rest in another, say: the only way of
 * putting the groups together that has the shapes of this model's parameters.
 */
function orderByShapes(
  members: readonly (readonly Key[])[],
  state: Map<Key, Value>,
  count: number,
  { slots }: Optimizer,
): Key[] | string {
  const fits = (id: Key, i: number) =>
    [...slots].every(([slot, { [i]: { shape, numel } }]) => {
      const data = field(state.get(id), slot);
      return numel === 0 || data instanceof TensorData && data.shape.join() === shape.join();
    });
  const taken = members.map(() => 0), order: Key[] = [], found: Key[][] = [], vain = new Set<string>();
  let looked = 0;
  const go = (): void => {
    if (order.length === count) return void found.push([...order]);
    const place = taken.join();
    if (vain.has(place) || looked++ > MOST_PLACES) return;
    const before = found.length;
    for (const [g, own] of members.entries()) {
      const id = own[taken[g]];
      if (id === undefined || !fits(id, order.length) || found.length > 1) continue;
      taken[g]++;
      order.push(id);
      go();
      order.pop();
      taken[g]--;
    }
    if (found.length === before) vain.add(place);
  };
  go();
  const groups = `it has ${members.length} groups of parameters without names`;
  if (found.length === 1 && looked <= MOST_PLACES) return found[0];
  return found.length === 0
    ? `${groups}, which don't fit this model's`
    : `${groups}, and shapes leave open which are which`;
}

function lacking(
  state: Map<Key, Value>,
  order: readonly Key[],
  names: readonly string[],
  [slot, tensors]: readonly [string, readonly { readonly numel: number }[]],
): string | null {
  const at = names.findIndex((_, i) =>
    tensors[i].numel > 0 && !(field(state.get(order[i]), slot) instanceof TensorData)
  );
  if (at < 0) return null;
  const entry = state.get(order[at]);
  const has = entry instanceof Map ? [...entry.keys()].map(String).join(", ") : "nothing";
  return `${names[at]} has ${has}, and no ${slot}`;
}

/** The vectors of all parameters have those in the order of the program that wrote them. */
function lackingJoint(
  { joint, slots, numbers }: Adopter["parts"]["optimizer"],
  state: Map<Key, Value>,
  order: readonly Key[],
  groups: readonly Value[],
): string | undefined {
  const ids = field(groups[0], "params");
  const moved = !Array.isArray(ids) || order.some((id, i) => id !== ids[i]);
  const found = moved ? "" : joint!.read(state.get(order[0]), { slots, numbers });
  return moved
    ? "its parameters come in another order"
    : typeof found === "string"
    ? `it lacks ${found}, or has it for another model`
    : undefined;
}

function number(value: Value | undefined): Value | undefined {
  if (!(value instanceof TensorData) || value.numel !== 1) return value;
  const bytes = tensorBytes(value).slice();
  const view = new DataView(bytes.buffer);
  switch (value.dtype) {
    case "f32":
      return view.getFloat32(0, true);
    case "f64":
      return view.getFloat64(0, true);
    case "i64":
      return Number(view.getBigInt64(0, true));
    default:
      return undefined;
  }
}

const wholeNumber = (value: Value | undefined): number | null => {
  const found = number(value);
  return typeof found === "number" && Number.isSafeInteger(found) && found >= 0 ? found : null;
};

const finite = (value: Value | undefined): number | null => {
  const found = number(value);
  return typeof found === "number" && Number.isFinite(found) ? found : null;
};
