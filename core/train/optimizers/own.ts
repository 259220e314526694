// An optimizer of the user's own: a TypeScript file whose update gives a parameter's next values, and those of what is kept of it.
import { noGrad } from "../../../ffi/autograd.ts";
import { tensor, toNumbers } from "../../../ffi/make.ts";
import { allTrue, clone, copy_, isfinite, narrow } from "../../../ffi/ops.ts";
import { scope, Tensor } from "../../../ffi/tensor.ts";
import { UserError } from "../../base/errors.ts";
import { asMistake, describeValue, type UserFile, userFile } from "../../models/user/file.ts";
import type { MadeOptimizer, OptimizerStep } from "../../models/user/library.ts";
import { OPTIMIZER_EXAMPLE } from "../../models/user/made.ts";
import type { Arena } from "../arena.ts";
import { inParts, piecesOf } from "./elementwise.ts";
import {
  type Optimizer,
  type OptimizerKind,
  type OptimizerSettings,
  type OwnUpdate,
  zerosAs,
} from "./optimizer.ts";

const kinds = new WeakMap<OptimizerSettings, OptimizerKind>();

/**
 * `settings.type` is the file's path. Its function runs when somebody asks for what it says, with libtorch there: commands that
 * don't train have not opened it.
 */
export function ownOptimizer(settings: OptimizerSettings): OptimizerKind {
  let kind = kinds.get(settings);
  if (!kind) kinds.set(settings, kind = ownKind(settings));
  return kind;
}

function ownKind(settings: OptimizerSettings): OptimizerKind {
  const path: string = settings.type;
  let known: Made | null = null;
  const made = () => known ??= readMade(userFile(path), settings);
  return {
    traits: {
      get slots() {
        return made().slots;
      },
      get shardable() {
        return made().perElement ||
          "whose update takes whole parameters, since it is without perElement: true";
      },
      get compiled() {
        return made().perElement ? "own" : null;
      },
      bytesPerWeight: () => 4 * made().slots.length,
      ...{ wholeGradient: false, perElement: true },
    },
    open: ({ weight_decay }, arena) => openOwn(path, made(), weight_decay, arena),
  };
}

// It is looked at before the first step.

type Made = Required<MadeOptimizer>;

/** These stand beside the slots: in what an update gives, and in torch's state. */
const TAKEN = ["parameter", "step"];

function readMade(file: UserFile, settings: OptimizerSettings): Made {
  const made = file.make({ settings: { ...settings } }) as Partial<MadeOptimizer> | null | undefined;
  const { update, slots = [], perElement = false } = made ?? {};
  const refuse = (what: string): never => {
    throw new UserError("usage", `${file.path}: ${what} ${OPTIMIZER_EXAMPLE}`);
  };
  if (typeof update !== "function") {
    refuse(`the function returned ${describeValue(made)}, and not an optimizer with update(...).`);
  }
  if (!Array.isArray(slots) || !slots.every((name) => typeof name === "string" && /^[a-z]\w*$/i.test(name))) {
    refuse(`slots is ${describeValue(slots)}, and should be a list of names of letters, digits and _.`);
  }
  const twice = slots.find((name, i) => slots.indexOf(name) < i);
  const taken = slots.find((name) => TAKEN.includes(name)) ?? twice;
  if (taken !== undefined) {
    refuse(
      `a slot is called ${taken}, ${
        twice === taken
          ? "and so is another: give each a name of its own."
          : `which names ${
            taken === "step" ? "the count of steps in PyTorch's state" : "the new parameter"
          }: ` +
            "give it another name."
      }`,
    );
  }
  if (typeof perElement !== "boolean") {
    refuse(`perElement is ${describeValue(perElement)}, and not true or false.`);
  }
  return { update: update!, slots, perElement };
}

// Its steps.

/** The weights are looked at after so many steps; later ones are the guards'. */
const LOOKS = 3;

function openOwn(path: string, made: Made, weightDecay: number, arena: Arena): Optimizer {
  const vectors = made.slots.map(() => zerosAs(arena)), views = vectors.map((slot) => arena.viewsOf(slot));
  const pieces = made.perElement ? piecesOf(arena, vectors, views) : inParts(arena, views);
  const update = checkedUpdate(path, made), own: OwnUpdate = { run: update, instead: null };
  if (made.perElement) refuseWhole(path, made, update, weightDecay);
  let looks = 0;
  return {
    type: path,
    steps: 0,
    slots: new Map(made.slots.map((name, i) => [name, views[i]])),
    options: { weight_decay: weightDecay },
    ...(made.perElement && { own, state: vectors }),
    step(lr) {
      const numbers = { step: ++this.steps, lr, weightDecay };
      noGrad(() => {
        if (!own.instead?.(numbers)) { for (const piece of pieces) scope(() => update(piece, numbers)); }
        if (looks++ < LOOKS) refuseNonFinite(path, arena, numbers.step);
      });
    },
  };
}

/** Puts the new values where they belong. */
function checkedUpdate(path: string, { slots, update }: Made): OwnUpdate["run"] {
  return (piece, numbers) => {
    const { name, weights, state } = piece;
    const given: OptimizerStep = {
      ...{ parameter: weights, gradient: piece.gradient(), ...numbers },
      state: Object.fromEntries(slots.map((slot, i) => [slot, state[i]])),
    };
    let next: unknown;
    try {
      next = update(given);
    } catch (error) {
      throw error instanceof Error ? error : asMistake(error, path);
    }
    const at = `${path}: update(...)${name === undefined ? "" : ` of ${name}`}`;
    const values = valuesIn(next, slots, at);
    const places = [["parameter", weights] as const, ...slots.map((slot, i) => [slot, state[i]] as const)];
    const kept = places.map(([what, to]) => {
      const value = values[what];
      if (value === undefined || value === to) return null;
      if (!(value instanceof Tensor) || value.shape.join() !== to.shape.join()) {
        throw new UserError(
          "usage",
          `${at} returned ${
            value instanceof Tensor ? `a tensor of [${value.shape.join(", ")}]` : describeValue(value)
          } as ${what}, which is a tensor of [${to.shape.join(", ")}]: return one of that shape.`,
        );
      }
      return places.some(([, own]) => own === value) ? clone(value) : value; // it may be written over first
    });
    kept.forEach((value, i) => value && copy_(places[i][1], value));
  };
}

function valuesIn(next: unknown, slots: readonly string[], at: string): Readonly<Record<string, unknown>> {
  const names = ["parameter", ...slots];
  const values = (next ?? {}) as Record<string, unknown>;
  const odd = typeof next === "object" && !(next instanceof Tensor)
    ? Object.keys(values).find((name) => !names.includes(name))
    : undefined;
  if (values.parameter !== undefined && odd === undefined) return values;
  const what = next instanceof Promise
    ? "a Promise, and it must not be async"
    : next instanceof Tensor
    ? "a tensor"
    : odd !== undefined
    ? `${odd}, which is neither parameter nor one of its slots`
    : describeValue(next);
  throw new UserError("usage", `${at} returned ${what}: it should return { ${names.join(", ")} }.`);
}

function refuseNonFinite(path: string, { parameters, gradients, names }: Arena, step: number): void {
  const finite = (t: Tensor) => scope(() => allTrue(isfinite(t)).item() === 1);
  const spoilt = parameters.findIndex((p) => !finite(p));
  if (spoilt < 0 || !finite(gradients[spoilt])) return; // the loss tells of a gradient that is not finite
  throw new UserError(
    "usage",
    `${path}: after step ${step} the parameter ${
      names[spoilt]
    } is not finite any more, and its gradient is: look for a ` +
      "division by 0 or a root of a negative number in update(...).",
  );
}

/** Some numbers, whose update is taken as one vector and as two. */
const SAMPLE = [0.5, -0.25, 1, 0.125, -2, 0.75, -0.0625, 0.3125, 1.5, -0.5, 0.0625, -1];

function refuseWhole(path: string, { slots }: Made, update: OwnUpdate["run"], weightDecay: number): void {
  const after = (parts: readonly (readonly [number, number])[]) =>
    noGrad(() =>
      scope(() => {
        const [weights, gradient, ...state] = [
          SAMPLE,
          SAMPLE.toReversed(),
          ...slots.map(() => SAMPLE.map(() => 0)),
        ]
          .map((numbers) => tensor(numbers));
        for (const [from, count] of parts) {
          const cut = (t: Tensor) => narrow(t, 0, from, count), own = cut(gradient);
          const piece = { weights: cut(weights), state: state.map(cut), gradient: () => own };
          update(piece, { step: 1, lr: 0.01, weightDecay });
        }
        return [weights, ...state].flatMap((t) => [...toNumbers(t)]);
      })
    );
  const { length } = SAMPLE, half = length / 2;
  const whole = after([[0, length]]), halves = after([[0, half], [half, half]]);
  if (whole.every((value, i) => Object.is(value, halves[i]))) return;
  throw new UserError(
    "usage",
    `${path}: perElement is true, and yet two halves of a vector have other updates than the whole: leave perElement out, ` +
      "and update(...) is given one parameter at a time.",
  );
}
