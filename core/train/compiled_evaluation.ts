// Batches of an evaluation as code of our own. An epoch of milliseconds ends in an evaluation that takes as long to ask libtorch
// for its ops as to compute them. Only plans with the ordinary bits are taken, so a run may change to them at any batch.
//
//   op by op ── as long as a plan takes to make ──> compared ── equal bits in two evaluations, and faster ──> compiled
//                                                      └──────────── else ───────────> op by op
import { sameMemory } from "../../ffi/libc.ts";
import { memoryBlockOf } from "../../ffi/make.ts";
import { machineIsa } from "../../ffi/machine.ts";
import type { Tensor } from "../../ffi/tensor.ts";
import { record } from "../../ffi/trace.ts";
import { Workspace } from "../compile/workspace.ts";
import type { Arena } from "./arena.ts";
import { answered, type Outcome, type Pass } from "./blocks.ts";
import { attemptPlans, makePlans, type Plans } from "./compiled_plans.ts";
import type { CompiledEvaluation } from "./compiler.ts";
import { sameShape, type Shape, shapeOf } from "./micro_batch.ts";

/** A plan is made where a kind of batch has taken so many milliseconds, which is about what a plan takes. */
const MAKING_MS = 20;

/** Ops of longer batches take their time in the kernels, and values of larger ones would need memory of their own. */
const LONGEST_MS = 1, MOST_ELEMENTS = 2 ** 18;

/** All batches but the last one of a source have one shape. */
const MOST_KINDS = 2;

/** The weights move from one to the next. */
const COMPARED_IN = 2;

type State =
  | { are: "op by op" }
  | { are: "unseen"; spent: number; shortest: number }
  /** `since` counts evaluations. */
  | { are: "compared"; plans: Plans; since: number; ordinary: number; compiled: number }
  | { are: "compiled"; plans: Plans };

interface Kind {
  readonly input: Shape;
  readonly target: Shape;
  state: State;
}

export function openCompiledEvaluation(
  arena: Arena,
  clock: () => number = () => performance.now(),
): CompiledEvaluation {
  const isa = machineIsa(), kinds: Kind[] = [], workspace = new Workspace();
  let evaluations = 0;

  const kindOf = (input: Tensor, target: Tensor): Kind | null => {
    const known = kinds.find((kind) => sameShape(kind.input, input) && sameShape(kind.target, target));
    if (known !== undefined || kinds.length === MOST_KINDS) return known ?? null;
    const made: Kind = {
      input: shapeOf(input),
      target: shapeOf(target),
      state: { are: "unseen", spent: 0, shortest: Infinity },
    };
    kinds.push(made);
    return made;
  };
  const timed = <R>(work: () => R): [R, number] => {
    const began = clock(), result = work();
    return [result, clock() - began];
  };
  const made = (p: Pass, input: Tensor, target: Tensor): Plans | null => {
    const { result: outcome, recording } = record(() => answered(p, input, target));
    const plans = attemptPlans(() =>
      makePlans(
        arena,
        {
          ...{ mode: "exact", isa: isa!, cuts: [], recomputes: false, repeats: true, workspace },
          evaluates: true,
        },
        recording,
        { input, target, weight: null, outcome },
      )
    );
    if ("reason" in plans) {
      recording.free();
      return null;
    }
    const { lowered: { written, draws, seeded }, first: { placed: { elements } } } = plans;
    if (written.length === 0 && draws.length === 0 && seeded === null && elements <= MOST_ELEMENTS) {
      return plans;
    }
    plans.free();
    return null;
  };
  const compared = (
    kind: Kind,
    state: State & { are: "compared" },
    p: Pass,
    input: Tensor,
    target: Tensor,
  ) => {
    const [outcome, ordinary] = timed(() => answered(p, input, target));
    const [own, compiled] = timed(() => state.plans.run(input, target, null, false, null));
    state.ordinary = Math.min(state.ordinary, ordinary);
    state.compiled = Math.min(state.compiled, compiled);
    if (!hasBits(own.output, outcome.output) || !hasBits(own.loss, outcome.loss)) refuse(kind, state.plans);
    else if (evaluations - state.since >= COMPARED_IN) {
      if (state.compiled <= state.ordinary) kind.state = { are: "compiled", plans: state.plans };
      else refuse(kind, state.plans);
    }
    return outcome;
  };
  return {
    begin: () => void evaluations++,
    judge(p, input, target): Outcome {
      const kind = kindOf(input, target), state = kind?.state;
      if (kind === null || state === undefined || state.are === "op by op") return answered(p, input, target);
      if (state.are === "compiled") return state.plans.run(input, target, null, false, null);
      if (state.are === "compared") return compared(kind, state, p, input, target);
      if (state.spent > MAKING_MS && state.shortest < LONGEST_MS) {
        const plans = made(p, input, target);
        kind.state = plans === null
          ? { are: "op by op" }
          : { are: "compared", plans, since: evaluations, ordinary: Infinity, compiled: Infinity };
        return answered(p, input, target);
      }
      const [outcome, took] = timed(() => answered(p, input, target));
      state.spent += took;
      state.shortest = Math.min(state.shortest, took);
      return outcome;
    },
  };
}

function refuse(kind: Kind, plans: Plans): void {
  kind.state = { are: "op by op" };
  plans.free();
}

const hasBits = (a: Tensor, b: Tensor): boolean =>
  a.dtype === b.dtype && a.byteLength === b.byteLength && a.contiguous && b.contiguous &&
  sameMemory([[memoryBlockOf(a), memoryBlockOf(b)]]);
