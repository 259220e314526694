// A micro-batch on trial: it runs as always while it is recorded, and what is computed beside it to judge a plan leaves no
// trace. Gradients, buffers and random numbers are those of the ordinary step, or of the plan that takes its place.
import { returnFreedMemory } from "../../ffi/libc.ts";
import { add, constant, zero_ } from "../../ffi/make.ts";
import { noGrad } from "../../ffi/autograd.ts";
import { computesInTf32, withoutKernelSearch, withoutTf32 } from "../../ffi/cuda.ts";
import { withoutDropping } from "../../ffi/dropping.ts";
import { clone, copy_ } from "../../ffi/ops.ts";
import { record, type Recording } from "../../ffi/trace.ts";
import { keep, scope, type Tensor } from "../../ffi/tensor.ts";
import type { MaskDraw } from "../compile/lower/lowering.ts";
import { lower, sameStep } from "../compile/lower/lower.ts";
import type { Workspace } from "../compile/workspace.ts";
import type { Outcome, Pass, Weight } from "./blocks.ts";
import { Buffers } from "./compared_buffers.ts";
import { atOtherWeights, isTooFull, judge, type Judgement, judgeSafely } from "./compiled_check.ts";
import {
  type Digest,
  digestOf,
  type Gradients,
  gradientsIn,
  haveSameBits,
  shortenedGradients,
} from "./compared_gradients.ts";
import { attemptPlans, makePlans, type Plans, type Recorded } from "./compiled_plans.ts";
import type { Given, Refuser } from "./compiled_refusals.ts";
import type { Arena } from "./arena.ts";
import type { Run, TimedWay } from "./compiler.ts";

/** All trials of a run share these. */
export interface Court {
  readonly arena: Arena;
  readonly workspace: Workspace;
  readonly refuser: Refuser;
}

/** A recorded run has left these. */
interface Seen {
  readonly recorded: Recorded;
  readonly recording: Recording;
}

/**
 * Runs a micro-batch as always while it is recorded; its gradients are added to the arena's unless these are `fresh`. `judge`
 * may use the arena's gradients if it asks for the trial's copy of them, which is put back; or without one, if it leaves this
 * micro-batch's there. It gives the plans that are used from now on.
 */
export function recordedRun(
  court: Court,
  plain: Run,
  p: Pass,
  given: Given,
  fresh: boolean,
  judge: (trial: CompiledTrial, seen: Seen) => Plans | null,
): Outcome {
  const { arena } = court, { gradient } = arena;
  const trial = new CompiledTrial(court, plain, p, { ...given, weight: calm(p, given.weight) });
  const before = fresh ? null : keep(clone(gradient));
  zero_(gradient);
  const { result, recording } = trial.record();
  const plans = judge(trial, { recorded: { ...trial.given, outcome: result }, recording });
  const taken = trial.end(plans, given) ?? result;
  if (before !== null) noGrad(() => scope(() => copy_(gradient, add(before, gradient))));
  before?.free();
  return taken;
}

export class CompiledTrial {
  /** They go with the gradients. */
  readonly buffers: Buffers;
  #copy: Tensor | null = null;
  /** A plan of the same step in f32 was right. */
  #rightInF32: boolean | null = null;

  constructor(
    readonly court: Court,
    readonly plain: Run,
    readonly pass: Pass,
    /** At a scale at which gradients can be compared. */
    readonly given: Given,
  ) {
    this.buffers = new Buffers(pass.model.root.namedState());
  }

  get #gradient(): Tensor {
    return this.court.arena.gradient;
  }

  /** The ordinary gradients, which the arena gets back in the end. */
  get copy(): Tensor {
    return this.#copy ??= keep(clone(this.#gradient));
  }

  #ordinary(pass = this.pass): Outcome {
    const { input, target, weight } = this.given;
    return this.plain(pass, input, target, weight, null);
  }

  record(): { readonly result: Outcome; readonly recording: Recording } {
    const seen = inTurn(this.court, () => compared(this.pass, () => record(() => this.#ordinary())));
    this.buffers.note();
    return seen;
  }

  /** Leaves what this micro-batch leaves. Its outcome, where it had to be computed once more: on a GPU. */
  end(plans: Plans | null, { input, target, weight }: Given): Outcome | null {
    const { buffers, pass } = this, copy = this.#copy;
    let taken: Outcome | null = null;
    if (pass.onGpu) {
      // Comparing has left other gradients: nothing was dropped, the scale was another, or the plan is refused. And a run that
      // goes on records its first step again: it has the plan's bits, too.
      buffers.putBack();
      zero_(this.#gradient);
      taken = plans === null
        ? inTurn(this.court, () => this.plain(pass, input, target, weight, null))
        : (drawMasks(pass, plans), plans.run(input, target, weight, false, null));
    } else {
      if (plans === null || copy !== null) buffers.putLeft();
      if (copy !== null) noGrad(() => copy_(this.#gradient, copy));
    }
    copy?.free();
    buffers.free();
    return taken;
  }

  /** Arena and buffers get what this micro-batch leaves once more: the plan's, or op by op where there is none. */
  computeAgain(plans: Plans | null, pass = this.pass): void {
    this.buffers.putBack();
    if (plans !== null) {
      drawMasks(pass, plans);
      return void plans.run(this.given.input, this.given.target, this.given.weight, false, null);
    }
    zero_(this.#gradient);
    scope(() => void this.#ordinary(pass));
  }

  /**
   * Compares what the plan leaves, gradients and buffers, with what the ordinary step has left; null where they differ, and
   * the plan is refused. Where a digest tells that some bit differs, the ordinary gradients are computed once more, and number
   * by number it is seen which one does.
   */
  agrees(
    plans: Plans,
    gradient: Gradients | Digest,
    outcome: Outcome,
    { moved = false } = {},
  ): Judgement | null {
    const { court: { arena, refuser }, pass } = this, recorded = { ...this.given, outcome };
    const judgedBy = (expected: Gradients | Digest) => {
      const wide = (signs: number | null) => this.#inF32(signs);
      const how = { mode: refuser.mode, half: inHalf(pass), moved, ...(pass.cast !== null && { wide }) };
      const begin = () => (this.buffers.putBack(), drawMasks(pass, plans, false));
      return judgeSafely(() => judge(plans, arena, expected, recorded, how, this.buffers, begin));
    };
    let judged = judgedBy(gradient);
    if (judged.wrong !== null && judged.of !== "buffers" && "digest" in gradient) {
      this.computeAgain(null);
      const whole = keep(clone(this.#gradient));
      judged = judgedBy(gradientsIn(arena, whole));
      const now = judged.wrong === null && haveSameBits(gradientsIn(arena), gradientsIn(arena, whole));
      if (now) judged = { ...judged, wrong: "they differed the first time" };
      whole.free();
    }
    if (judged.drowned && (this.#rightInF32 ??= this.#agreesInF32(plans))) {
      this.buffers.putBack();
      drawMasks(pass, plans, false);
      plans.run(recorded.input, recorded.target, recorded.weight, false, null);
      judged = { ...judged, wrong: null };
    }
    if (judged.wrong === null) return judged;
    refuser.differs(judged, plans, pass, this.given);
    return null;
  }

  /** The ordinary gradients without autocast: all numbers, or sums of them. */
  #inF32(signs: number | null): Gradients {
    const { arena } = this.court, pass = { ...this.pass, cast: null };
    withoutKernelSearch(() => compared(pass, () => this.computeAgain(null, pass)));
    if (signs !== null) return shortenedGradients(arena, signs);
    return gradientsIn(arena, keep(noGrad(() => clone(this.#gradient))));
  }

  /** True where a plan of this step without autocast leaves what ordinary steps leave: it has the same ops, hardly rounded. */
  #agreesInF32({ wanted }: Plans): boolean {
    const { court, buffers } = this, { arena } = court, pass = { ...this.pass, cast: null };
    return inPlainF32(() =>
      buffers.elsewhere(() => {
        zero_(this.#gradient);
        const ordinary = () => compared(pass, () => record(() => this.#ordinary(pass)));
        const { result, recording } = inTurn(court, ordinary);
        buffers.note();
        const recorded = { ...this.given, outcome: result };
        const plans = attemptPlans(() => makePlans(arena, wanted, recording, recorded));
        if ("reason" in plans) {
          recording.free();
          return false;
        }
        const gradients = gradientsIn(arena, keep(noGrad(() => clone(this.#gradient))));
        const begin = () => (buffers.putBack(), drawMasks(pass, plans, false));
        const how = { mode: wanted.mode, half: inHalf(pass) };
        const { wrong } = judgeSafely(() => judge(plans, arena, gradients, recorded, how, buffers, begin));
        gradients.values.free();
        plans.free();
        return wrong === null;
      })
    );
  }

  /**
   * As `agrees`, with weights of which none hides anything; where ordinary steps can't take these, that hides something.
   * `records` the ordinary step, too, which must be the same as before.
   */
  agreesElsewhere(
    plans: Plans,
    { records = false, digests = false } = {},
  ): Pick<Judgement, "hides"> | null {
    const { arena } = this.court;
    return this.buffers.elsewhere(() =>
      atOtherWeights(arena, () => {
        zero_(this.#gradient);
        const { result, recording } = inTurn(
          this.court,
          () =>
            compared(this.pass, () =>
              records ? record(() => this.#ordinary()) : { result: this.#ordinary(), recording: null }),
        );
        this.buffers.note();
        if (recording !== null && !this.staysTheSame(plans, recording, result)) {
          return null;
        }
        if (!Number.isFinite(result.loss.item())) {
          return { hides: true };
        }
        const gradient = digests ? digestOf(arena) : shortenedGradients(arena);
        const same = this.agrees(plans, gradient, result, { moved: true });
        if ("values" in gradient) {
          gradient.values.free();
        }
        return same;
      })
    );
  }

  /** False where a second recording is another step, and the plan is refused. */
  staysTheSame(plans: Plans, recording: Recording, outcome: Outcome): boolean {
    const { arena, refuser } = this.court, { input, target } = this.given;
    const again = lower(recording, { input, target, parameters: arena.parameters, ...outcome }, {
      exact: refuser.mode === "exact",
      device: arena.flat.device,
      repeats: plans.wanted.repeats,
    });
    const same = !("reason" in again) && sameStep(again, plans.lowered);
    if ("reason" in again) recording.free();
    else again.free();
    if (!same) refuser.changes(plans);
    return same;
  }

  /** Both ways, as often as they are to be timed: none of it counts. */
  timed(plans: Plans, compare: (compiled: TimedWay, ordinary: TimedWay) => void): void {
    const { input, target, weight } = this.given, { workspace } = this.court;
    const compiled = () => (drawMasks(this.pass, plans), void plans.run(input, target, weight, false, null));
    const ordinary = () => void this.#ordinary();
    this.buffers.uncounted(() => {
      if (!workspace.isLarge) {
        return compare({ run: compiled, prepare() {} }, { run: ordinary, prepare() {} });
      }
      compare(
        { run: compiled, prepare: () => (returnFreedMemory(), compiled()) },
        { run: ordinary, prepare: () => (workspace.rest(), ordinary()) },
      );
      returnFreedMemory();
    });
  }
}

/** Null where a GPU is too full to try the plans beside ordinary steps: then these go on alone. */
export function unlessTooFull<R>(
  { refuser }: Court,
  plans: Plans,
  p: Pass,
  given: Given,
  body: () => R,
): R | null {
  try {
    return scope(body); // what a step that did not fit has made is given back at once
  } catch (error) {
    if (!isTooFull(error)) throw error;
    refuser.tooFull(plans, p, given);
    return null;
  }
}

/** Runs an ordinary step. The plans' memory and its own are not needed at the same time. */
function inTurn<R>({ workspace }: Court, ordinary: () => R): R {
  workspace.rest();
  const result = ordinary();
  returnFreedMemory();
  return result;
}

/** Numbers as f32 has them, by kernels that nobody searches for. */
const inPlainF32 = <R>(body: () => R): R => withoutTf32(() => withoutKernelSearch(() => scope(body)));

/** TF32 rounds a product's factors as fp16 does. */
export const inHalf = ({ cast, onGpu }: Pass): boolean => cast !== null || onGpu && computesInTf32();

/** Gradients are compared at a scale at which few overflow in fp16; the scaler's is found in the first steps. */
const CALM = 1024;
export const calm = ({ onGpu, cast }: Pass, weight: Weight): Weight =>
  onGpu && cast === "f16" && weight !== null ? constant(CALM, "f32", weight.device) : weight;

/** On a GPU ordinary steps draw other numbers than groups do: nothing is dropped where they are compared. */
const compared = <R>({ onGpu, seeds }: Pass, body: () => R): R =>
  onGpu && seeds !== null ? withoutDropping(body) : body();

/** The same random numbers as the ordinary step's; on a GPU numbers of their own, or none are dropped. */
export function drawMasks(
  { seeds }: Pass,
  { lowered: { draws, seeded }, drawing }: Plans,
  drops = true,
): void {
  if (drawing !== null) {
    if (seeds!.micro === 0) seeds!.seed(0);
    drawing.micro(drops ? seeds!.micro : null);
    return;
  }
  let last = 0;
  const fill = ({ fill }: MaskDraw) => noGrad(fill);
  for (const one of draws) {
    if (one.seeding !== last) seeds!.seed(one.block);
    last = one.seeding;
    fill(one);
  }
  if (seeded === null || seeded.seeding === last) return;
  // The generator is left as ordinary steps leave it, which checkpointed ones do in the middle of going back.
  seeds!.seed(seeded.block);
  for (const one of draws) if (one.block === seeded.block) fill(one);
}
