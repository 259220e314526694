// Cuts a graph into blocks between modules, where one tensor is all that passes, and into the half that runs
// without targets and the rest.
import type { GraphPlan } from "./plan.ts";
import { UserError } from "../../base/errors.ts";
import { sourceLineOf } from "./graph.ts";
import type { GraphStep } from "./steps.ts";

/** The piece has the steps from..to. The slot is the next block's only input. */
export interface GraphPiece {
  readonly from: number;
  readonly to: number;
  readonly out: number;
  readonly name: string;
}

/** A block of fewer steps costs more than it is worth. */
const LEAST_STEPS = 4;
const DEEPEST = 8;

/**
 * The depth of the module tree is tried at which most pieces come out. `most` limits the number of blocks, 0
 * does not; `wanted` are slots that are used behind the last block, too.
 */
export function cutsOf(
  plan: GraphPlan,
  output: number,
  floating: (slot: number) => boolean,
  most = 0,
  wanted: readonly number[] = [],
): GraphPiece[] {
  const passes = passing(plan, [output, ...wanted], floating);
  let best: number[] = [];
  for (let depth = 1; depth <= DEEPEST; depth++) {
    const found = spaced(boundaries(plan, depth).filter((at) => passes[at] >= 0), plan.steps.length);
    if (found.length > best.length) best = found;
  }
  if (most > 0 && best.length > most - 1) best = fewer(best, most, plan.steps.length);
  const ends = [...best.map((at) => at + 1), plan.steps.length];
  return ends.map((to, i) => {
    const from = i === 0 ? 0 : ends[i - 1];
    return {
      from,
      to,
      out: to === plan.steps.length ? output : passes[to - 1],
      name: nameOf(plan, from, to, i),
    };
  });
}

/** Gives for each step the slot of the one tensor that passes behind it, or -1 where more than one does. */
function passing(plan: GraphPlan, wanted: readonly number[], floating: (slot: number) => boolean): number[] {
  const { steps, kinds, roots } = plan;
  const last = new Map<number, number>();
  const lastWrite = new Map<number, number>();
  steps.forEach((step, i) => {
    for (const slot of step.uses) last.set(slot, Math.max(last.get(slot) ?? 0, i));
    if (step.writes >= 0) lastWrite.set(step.writes, i);
  });
  for (const slot of wanted) last.set(slot, steps.length);
  const passes: number[] = [];
  const alive = new Set<number>();
  kinds.forEach((kind, slot) => {
    if (kind === "input" && last.has(slot)) alive.add(slot);
  });
  for (let i = 0; i < steps.length; i++) {
    for (const slot of steps[i].defines) {
      if (kinds[slot] === "made" && (last.get(slot) ?? -1) > i) alive.add(slot);
    }
    for (const slot of alive) if (last.get(slot)! <= i) alive.delete(slot);
    const [only] = alive;
    // A value that is written to later must not be a leaf, and a second pass must find it unchanged.
    const unwritten = only !== undefined && !((lastWrite.get(roots[only]) ?? -1) > i);
    // A buffer's view is no tensor of its own.
    const own = only !== undefined && kinds[roots[only]] !== "buffer" && kinds[only] === "made";
    passes.push(alive.size === 1 && unwritten && own && floating(only) ? only : -1);
  }
  return passes;
}

function boundaries({ steps }: GraphPlan, depth: number): number[] {
  const key = (i: number) => steps[i].node.module.split(".").slice(0, depth).join(".");
  const found: number[] = [];
  for (let i = 0; i + 1 < steps.length; i++) if (key(i) !== key(i + 1)) found.push(i);
  return found;
}

function spaced(found: readonly number[], steps: number): number[] {
  const kept: number[] = [];
  for (const at of found) {
    const from = kept.at(-1) ?? -1;
    if (at - from >= LEAST_STEPS && steps - 1 - at >= 1) kept.push(at);
  }
  return kept;
}

function fewer(found: readonly number[], blocks: number, steps: number): number[] {
  const kept = new Set<number>();
  for (let i = 1; i < blocks; i++) {
    const target = (i * steps) / blocks;
    kept.add(found.reduce((best, at) => Math.abs(at - target) < Math.abs(best - target) ? at : best));
  }
  return [...kept].sort((a, b) => a - b);
}

function nameOf({ steps }: GraphPlan, from: number, to: number, index: number): string {
  const paths = steps.slice(from, to).map(({ node }) => node.module).filter((path) => path !== "")
    .map((path) => path.split("."));
  if (paths.length === 0) return `block ${index}`;
  const [first] = paths;
  let common = 0;
  while (common < first.length && paths.every((path) => path[common] === first[common])) common++;
  return first.slice(0, Math.max(common, 1)).join(".");
}

/** Modules of this name hold what is run when a step has updated the weights. */
const AFTER = /^after_step(\.|$)/;

/** Steps that run behind the update are kept apart from the others. */
export function withoutAfter(plan: GraphPlan): { readonly plan: GraphPlan; readonly after: GraphPlan } {
  const follows = ({ node }: GraphStep) => AFTER.test(node.module);
  return {
    plan: { ...plan, steps: plan.steps.filter((step) => !follows(step)) },
    after: { ...plan, steps: plan.steps.filter(follows) },
  };
}

/** Each turn's steps are those up to its loss, but for what turns before it have run: the same order as in Python. */
export function turnPieces({ steps }: GraphPlan, losses: readonly number[]): GraphPiece[] {
  const ends = losses.map((slot) => 1 + steps.findLastIndex(({ defines }) => defines.includes(slot)));
  return ends.map((to, i) => ({
    from: i === 0 ? 0 : ends[i - 1],
    to: i === ends.length - 1 ? steps.length : to,
    out: losses[i],
    name: `turn ${i + 1}`,
  }));
}

export interface Halves {
  readonly body: GraphPlan;
  /** The tail is empty where nothing waits for targets. */
  readonly tail: GraphPlan;
  /** The body makes or is given these slots, and the tail uses them beside the targets. */
  readonly between: readonly number[];
  /** These steps run when the weights have been updated, with these slots of the others. */
  readonly after: GraphPlan;
  readonly following: readonly number[];
}

/** Values that were made from some slots, and memory that such values were written to, are behind them. */
class Behind {
  readonly #slots: Set<number>;
  readonly #memory = new Set<number>();

  constructor(readonly roots: readonly number[], slots: readonly number[]) {
    this.#slots = new Set(slots);
  }

  has({ uses }: GraphStep): boolean {
    return uses.some((slot) => this.#slots.has(slot) || this.#memory.has(this.roots[slot]));
  }

  add({ defines, writes }: GraphStep): void {
    for (const slot of defines) this.#slots.add(slot);
    if (writes >= 0) this.#memory.add(writes);
  }
}

/**
 * The tail is what waits for the targets (their slot is `target`, -1 for none), and what writes over memory
 * that it has read, such as a bank that moves after the loss has looked at it.
 */
export function graphHalves(
  whole: GraphPlan,
  path: string,
  { target, loss, prediction, turns = [] }: {
    readonly target: number;
    readonly loss: number;
    readonly prediction: number;
    /** The losses that take turns: all steps are the body then. */
    readonly turns?: readonly number[];
  },
): Halves {
  const { plan, after } = withoutAfter(whole), { steps, roots, kinds } = plan;
  const isHeld = (slot: number) => kinds[slot] === "made" || kinds[slot] === "input";
  const following = givenTo(after.steps).filter(isHeld);
  if (turns.length > 0) {
    const given = turnPieces(plan, turns).slice(1).flatMap(({ from, to }) => givenTo(steps.slice(from, to)));
    const between = [...new Set([prediction, ...turns, ...given.filter(isHeld)])].filter((slot) => slot >= 0);
    return { body: plan, tail: { ...plan, steps: [] }, between, after, following };
  }
  const body: GraphStep[] = [], tail: GraphStep[] = [];
  const given = target < 0 ? [] : [target];
  const waiting = new Behind(roots, given), ofTargets = new Behind(roots, given), read = new Set<number>();
  let tangle: GraphStep | null = null;
  for (const step of steps) {
    const judges = ofTargets.has(step), overwrites = step.writes >= 0 && read.has(step.writes);
    if (judges) ofTargets.add(step);
    if (!waiting.has(step) && !overwrites) {
      body.push(step);
      continue;
    }
    tail.push(step);
    waiting.add(step);
    if (overwrites && !judges) tangle ??= step;
    if (tangle && !judges && step.defines.includes(prediction)) throw tangled(path, tangle);
    for (const slot of step.uses) read.add(roots[slot]);
  }
  const made = new Set(tail.flatMap(({ defines }) => defines));
  const used = new Set(tail.flatMap(({ uses }) => uses));
  if (loss >= 0 && !made.has(loss)) used.add(loss);
  const between = [...used].filter((slot) => slot !== target && !made.has(slot) && isHeld(slot));
  return { body: { ...plan, steps: body }, tail: { ...plan, steps: tail }, between, after, following };
}

/** Slots that steps use before they have made them. */
function givenTo(steps: readonly GraphStep[]): number[] {
  const made = new Set<number>(), given = new Set<number>();
  for (const { uses, defines } of steps) {
    for (const slot of uses) if (!made.has(slot)) given.add(slot);
    for (const slot of defines) made.add(slot);
  }
  return [...given];
}

/** The loss is computed last here, so it may not read what the prediction overwrites before. */
function tangled(path: string, { node }: GraphStep): UserError {
  const place = sourceLineOf(node);
  return new UserError(
    "usage",
    `${path}: forward writes over what its loss has looked at before${place === "" ? "" : ` (${place})`}: ` +
      "write that without the operation in place, and export it again.",
  );
}
