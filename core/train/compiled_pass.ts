// --compile on a CPU, and on a GPU by default: a micro-batch's forward and backward as one plan of code of our own.
// Micro-batches of the same shapes are of one kind, whose steps are
//
//   unseen ── the first is recorded; its plan is tried, here and at other weights ──┬─> op by op
//             (`auto`: the first one for which a plan pays)                         │
//                                                                                   ├─> tried
//                                                                                   └─> compiled
//   tried ── the second is recorded and tried, too: ────────────────────────────────┬─> op by op
//            a user's code may change, and zeros may hide something                 └─> compiled
//
//   compiled ── the first one that adds to gradients is tried ──────────────────────┬─> op by op
//                                                                                   └─> adding
//
// Op by op is for good: no plan could be made, its gradients differ, ordinary steps are faster or the GPU is full.
import { returnFreedMemory } from "../../ffi/libc.ts";
import { fill_, zero_ } from "../../ffi/make.ts";
import { noGrad } from "../../ffi/autograd.ts";
import { clone, copy_ } from "../../ffi/ops.ts";
import { keep } from "../../ffi/tensor.ts";
import { Workspace } from "../compile/workspace.ts";
import { machineIsa } from "../../ffi/machine.ts";
import { type BlockDone, checkpointed, type Outcome, type Pass } from "./blocks.ts";
import { Buffers, holding } from "./compared_buffers.ts";
import { compiledLine, judgeAdding, judgeAddingExactly } from "./compiled_check.ts";
import {
  digestOf,
  gradientDifferences,
  type Gradients,
  gradientsIn,
  shortenedGradients,
} from "./compared_gradients.ts";
import { type Kind, Kinds, OP_BY_OP, type Steps, UNSEEN } from "./compiled_kinds.ts";
import { attemptPlans, makePlans, type Plans, type Wanted } from "./compiled_plans.ts";
import { type Given, Refuser } from "./compiled_refusals.ts";
import {
  calm,
  type CompiledTrial,
  type Court,
  drawMasks,
  inHalf,
  recordedRun,
  unlessTooFull,
} from "./compiled_trial.ts";
import type { Arena } from "./arena.ts";
import type { Choice, ChoiceInTurn, CompiledPass, Mode, Reports, Run } from "./compiler.ts";

/** Gradients at the run's own weights are shortened by other signs than those at other weights. */
const OWN_SIGNS = 2;

/** The ordinary way of a micro-batch, and what its plan has to keep to. */
interface Way extends Pick<Wanted, "cuts" | "again"> {
  readonly plain: Run;
}

export function openCompiledPass(
  arena: Arena,
  mode: Mode,
  reports: () => Reports,
  choice: Choice | null = null,
  /** The program keeps nothing of its own from step to step that a step more would change. */
  repeats = false,
  /** Micro-batches that run op by op, since compiled ones gave other gradients: before, and from now on. */
  refused: Set<string> = new Set(),
): CompiledPass {
  const court = {
    arena,
    workspace: new Workspace(arena.flat.device),
    refuser: new Refuser(mode, reports, refused),
  };
  const compiler = new StepCompiler(court, choice, repeats);
  return {
    begin: () => compiler.begin(),
    settle: () => compiler.settle(),
    over(plain, cuts = [], again) {
      const way = { plain, cuts, again };
      return (p, input, target, weight, done) => compiler.take(way, p, { input, target, weight }, done);
    },
  };
}

class StepCompiler {
  readonly #kinds = new Kinds();
  /** Then what is in the arena is of no use. */
  #fresh = false;
  /** The run has said that steps are compiled, or why not. */
  #reported = false;
  #timed = false;
  /** Micro-batches so far. */
  #seen = 0;
  /** How this step's micro-batches are taken while both ways are timed in turn. */
  #turn: ChoiceInTurn["next"] = "compiled";

  constructor(readonly court: Court, readonly choice: Choice | null, readonly repeats: boolean) {}

  begin(): void {
    this.#fresh = true;
  }

  settle(): void {
    if (this.#fresh) zero_(this.court.arena.gradient);
    this.#fresh = false;
  }

  take(way: Way, p: Pass, given: Given, done: BlockDone | null): Outcome {
    const exact = this.court.refuser.mode === "exact";
    const kind = this.choice?.compiled === false ? null : this.#kindOf(p, given);
    const steps = kind === null || this.#waits(kind) ? OP_BY_OP : kind.steps;
    if (kind === null || steps.are === "op by op") return this.#opByOp(way, p, given, done);
    if (steps.are === "unseen") return this.#taken(p, done, this.#first(kind, way, p, given));
    if (steps.are === "tried") return this.#taken(p, done, this.#second(kind, steps, way, p, given));
    if (steps.are === "compiled" && !this.#fresh) {
      if (exact) return this.#taken(p, done, this.#firstThatAdds(kind, steps.plans, way, p, given));
      if (!this.#addsUp(steps.plans, p, given)) {
        kind.steps = OP_BY_OP;
        return this.#opByOp(way, p, given, done);
      }
      kind.steps = { ...steps, are: "adding" };
    }
    const inTurn = this.choice?.whileTraining;
    return inTurn?.open
      ? this.#timedTurn(inTurn, steps.plans, way, p, given, done)
      : this.#planned(steps.plans, p, given, done);
  }

  /**
   * True as long as no plan is made of what is unseen, since it would not pay; and in exact of a micro-batch that adds, whose bits
   * a recording by itself would not have.
   */
  #waits(kind: Kind): boolean {
    this.#seen++;
    const { are } = kind.steps, auto = this.choice?.whileTraining;
    const pays = are !== "unseen" || !auto || auto.pays(++kind.waited, this.#seen);
    const adds = !this.#fresh && this.court.refuser.mode === "exact";
    return !pays || adds && (are === "unseen" || are === "tried");
  }

  #opByOp({ plain }: Way, p: Pass, { input, target, weight }: Given, done: BlockDone | null): Outcome {
    this.settle();
    return plain(p, input, target, weight, done);
  }

  #planned(plans: Plans, p: Pass, given: Given, done: BlockDone | null): Outcome {
    drawMasks(p, plans);
    const outcome = plans.run(given.input, given.target, given.weight, !this.#fresh, done);
    this.#fresh = false;
    return this.#taken(p, done, outcome);
  }

  /**
   * All micro-batches of a step go the way of its first one, whose time counts. Where the workspace is large, a step that follows
   * one of the other way gets the other's pages, and only warms up.
   */
  #timedTurn(
    inTurn: ChoiceInTurn,
    plans: Plans,
    way: Way,
    p: Pass,
    given: Given,
    done: BlockDone | null,
  ): Outcome {
    const { workspace } = this.court, begins = this.#fresh;
    const changes = begins && inTurn.next !== this.#turn && workspace.isLarge;
    if (begins) this.#turn = inTurn.next;
    const isCompiled = this.#turn === "compiled";
    if (changes) isCompiled ? returnFreedMemory() : workspace.rest();
    const began = performance.now();
    const outcome = isCompiled ? this.#planned(plans, p, given, done) : this.#opByOp(way, p, given, done);
    if (begins && !changes) inTurn.took(performance.now() - began);
    if (this.choice?.compiled === false) this.#kinds.free(); // this one ran op by op
    return outcome;
  }

  #taken(p: Pass, done: BlockDone | null, outcome: Outcome): Outcome {
    if (done) { for (let block = p.model.blocks.length - 1; block >= 0; block--) done(block); }
    return outcome;
  }

  /** Null where no kind is to be added. */
  #kindOf(p: Pass, given: Given): Kind | null {
    const known = this.#kinds.of(p, given), { refuser } = this.court;
    if (known || this.#kinds.areMany) return known;
    if (refuser.hasRefused(p, given)) return this.#kinds.add(p, given, OP_BY_OP);
    return this.#kinds.add(p, given, UNSEEN);
  }

  #recorded(way: Way, p: Pass, given: Given, judge: Parameters<typeof recordedRun>[5]): Outcome {
    const fresh = this.#fresh;
    this.#fresh = false;
    return recordedRun(this.court, way.plain, p, given, fresh, judge);
  }

  #first(kind: Kind, way: Way, p: Pass, given: Given): Outcome {
    let steps: Steps = OP_BY_OP;
    const outcome = this.#recorded(way, p, given, (trial, { recorded, recording }) => {
      const plans = this.#plansOf(way, trial, { recorded, recording });
      if (plans === null) return null;
      const used = unlessTooFull(this.court, plans, p, recorded, () => {
        if (plans.drawing) p.seeds!.followers.add(plans.drawing.begin);
        returnFreedMemory(); // V8 has compiled, and in exact products were tried
        steps = this.#tried(way, trial, plans, recorded.outcome);
        return steps.are === "op by op" ? null : plans;
      });
      if (used === null) steps = OP_BY_OP;
      return used;
    });
    this.#reported = true;
    kind.steps = steps;
    return outcome;
  }

  /** Null where none can be made, which the run says once. */
  #plansOf(
    { plain, cuts, again }: Way,
    { buffers }: CompiledTrial,
    { recorded, recording }: Parameters<Parameters<typeof recordedRun>[5]>[1],
  ): Plans | null {
    const { arena, workspace, refuser: { mode, reports } } = this.court, { device } = arena.flat;
    const wanted = {
      ...{ mode, isa: device === "cpu" ? machineIsa()! : "cuda", cuts, again, workspace } as const,
      recomputes: plain === checkpointed,
      repeats: this.repeats,
    };
    const made = attemptPlans(() => makePlans(arena, wanted, recording, recorded));
    const reason = "reason" in made
      ? made.reason
      : buffers.narrow(made.lowered.written, again === undefined)
      ? null
      : "they write to a tensor that is no buffer of the model, so they can't be tried";
    if (!("reason" in made) && reason === null) return made;
    if ("reason" in made) recording.free();
    else made.free();
    if (!this.#reported) reports().warn(`Steps are not compiled: ${reason}. They run op by op.`);
    return null;
  }

  /** A kind's first plans, compared at the run's own weights and, where the program keeps nothing, at others. */
  #tried({ again }: Way, trial: CompiledTrial, plans: Plans, outcome: Outcome): Steps {
    const { arena, refuser: { mode, reports } } = this.court, onCpu = arena.flat.device === "cpu";
    // The ordinary step can go again where it has to, and the plan gives these gradients: no copy of them is needed.
    const spares = this.repeats && again === undefined, digests = spares && mode === "exact";
    const gradient = digests
      ? digestOf(arena)
      : spares
      ? shortenedGradients(arena, OWN_SIGNS)
      : gradientsIn(arena, trial.copy);
    const hidden = mode === "fast" && "values" in gradient && hasHiding(gradient);
    // In exact the results of libtorch's ops have places of their own from the second micro-batch on: that is tried, too.
    const placed = mode === "exact" && plans.first.calls > 0;
    const early = this.repeats && !hidden && !placed, wasTimed = this.#timed;
    const elsewhere = early ? trial.agreesElsewhere(plans, { records: true, digests }) : { hides: hidden };
    const judged = elsewhere && trial.agrees(plans, gradient, outcome);
    if (judged && !this.#reported) reports().line(compiledLine(plans, mode, judged));
    let steps: Steps = OP_BY_OP;
    if (elsewhere && judged) {
      steps = early && !elsewhere.hides
        ? this.#chosen(trial, plans)
        : { are: "tried", plans, hides: elsewhere.hides };
    }
    if (!spares) return steps;
    if ("values" in gradient) gradient.values.free();
    if (onCpu && (steps.are === "op by op" || this.#timed !== wasTimed)) {
      trial.computeAgain(steps.are === "op by op" ? null : plans);
    }
    if (plans.first.calls > 0) returnFreedMemory(); // results of calls have places from the next run on
    return steps;
  }

  /** Both ways are timed once in a run; plans that are not chosen are freed. */
  #chosen(trial: CompiledTrial, plans: Plans): Steps {
    const { choice } = this;
    if (choice !== null && !choice.whileTraining && !this.#timed) {
      this.#timed = true;
      trial.timed(plans, (compiled, ordinary) => choice.compare(compiled, ordinary));
      if (!choice.compiled) {
        plans.free();
        return OP_BY_OP;
      }
    }
    return { are: "compiled", plans };
  }

  /**
   * The program must do the same again, and is compared at other weights. Where a model begins with a layer of zeros,
   * most of the first gradients are zero: then it is compared as it is, too.
   */
  #second(kind: Kind, { plans, hides }: Steps & { are: "tried" }, way: Way, p: Pass, given: Given): Outcome {
    const { arena } = this.court;
    kind.steps = OP_BY_OP; // as long as anything can differ
    return this.#recorded(
      way,
      p,
      given,
      (trial, { recorded, recording }) =>
        unlessTooFull(this.court, plans, p, recorded, () => {
          if (!trial.staysTheSame(plans, recording, recorded.outcome)) return null;
          trial.buffers.narrow(plans.lowered.written, way.again === undefined);
          const gradient = gradientsIn(arena, trial.copy), elsewhere = trial.agreesElsewhere(plans);
          if (elsewhere === null) return null;
          const agrees = () => trial.agrees(plans, gradient, recorded.outcome);
          if ((hides || elsewhere.hides) && agrees() === null) return null;
          kind.steps = this.#chosen(trial, plans);
          return kind.steps.are === "op by op" ? null : plans;
        }),
    );
  }

  /** It is an ordinary one, and the plan that adds is compared with it. */
  #firstThatAdds(kind: Kind, plans: Plans, { plain }: Way, p: Pass, given: Given): Outcome {
    const { arena, refuser } = this.court, before = keep(clone(arena.gradient));
    const buffers = new Buffers(holding(p.model.root.namedState(), plans.lowered.written));
    const outcome = plain(p, given.input, given.target, given.weight, null);
    buffers.note();
    const sum = keep(noGrad(() => clone(arena.gradient)));
    const added = { before, sum, outcome };
    const judged = judgeAddingExactly(plans, arena, given, added, buffers, () => drawMasks(p, plans));
    buffers.putLeft();
    noGrad(() => copy_(arena.gradient, sum));
    for (const one of [buffers, before, sum]) one.free();
    kind.steps = judged.wrong === null ? { are: "adding", plans } : OP_BY_OP;
    if (judged.wrong !== null) refuser.differs(judged, plans, p, given);
    return outcome;
  }

  /** True where the plan that adds gives the sum of the arena's gradients and of the plan's that writes. */
  #addsUp(plans: Plans, p: Pass, given: Given): boolean {
    const { arena, refuser } = this.court;
    const weight = calm(p, given.weight), how = { mode: refuser.mode, half: inHalf(p) };
    const scaled = weight === given.weight ? null : keep(clone(arena.gradient));
    if (scaled !== null) fill_(arena.gradient, 1); // what is there may have overflowed
    const buffers = new Buffers(holding(p.model.root.namedState(), plans.lowered.written));
    const judged = unlessTooFull(
      this.court,
      plans,
      p,
      given,
      () =>
        buffers.uncounted(() =>
          judgeAdding(plans, arena, { ...given, weight }, how, buffers, () => drawMasks(p, plans))
        ),
    );
    buffers.free();
    if (scaled !== null) noGrad(() => copy_(arena.gradient, scaled));
    scaled?.free();
    if (judged !== null && judged.wrong !== null) refuser.differs(judged, plans, p, given);
    return judged?.wrong === null;
  }
}

/** Some parameter's gradient is zero wholly, or has a number that is none. */
const hasHiding = (gradients: Gradients): boolean =>
  gradientDifferences(gradients, gradients).some(({ size }) => size === 0 || !Number.isFinite(size));
