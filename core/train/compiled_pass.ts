// --compile on a CPU, and on a GPU by default: a micro-batch's forward and backward as one plan of code of our own.
// The first micro-batch of a shape runs as always while it is recorded; the plan that is made of it computes the same
// micro-batch once more, and both do so at other weights. The plan is used from then on if the gradients agree.
import { returnFreedMemory } from "../../ffi/libc.ts";
import { add, constant, fill_, uninitialised, zero_ } from "../../ffi/make.ts";
import { noGrad } from "../../ffi/autograd.ts";
import { computesInTf32, withoutKernelSearch } from "../../ffi/cuda.ts";
import { withoutDropping } from "../../ffi/dropping.ts";
import { bernoulli_, clone, copy_ } from "../../ffi/ops.ts";
import { record, type Recording } from "../../ffi/trace.ts";
import { keep, scope, type Tensor } from "../../ffi/tensor.ts";
import { dropGarbage, heapBytes } from "../base/memory.ts";
import type { Draw } from "../compile/lower/lowering.ts";
import type { Cut } from "../compile/cuts.ts";
import { lower, sameStep } from "../compile/lower/lower.ts";
import { Room } from "../compile/room.ts";
import { machineIsa, noIsa } from "../compile/x86/isa.ts";
import { isCode } from "../models/user/file.ts";
import type { Config } from "../settings/settings.ts";
import { type BlockDone, checkpointed, type Outcome, type Pass, type Weight } from "./blocks.ts";
import { inParts } from "./chunked_head.ts";
import { Buffers, holding } from "./compared_buffers.ts";
import {
  atOtherWeights,
  isTooFull,
  judge,
  judgeAdding,
  type Judgement,
  judgeSafely,
  lineOf,
} from "./compiled_check.ts";
import {
  type Digest,
  digestOf,
  type Gradients,
  gradientsIn,
  hasHiding,
  haveSameBits,
  shortenedGradients,
} from "./compared_gradients.ts";
import type { Choice } from "./compiled_choice.ts";
import { attempt, makePlans, type Mode, type Plans, type Recorded, type Wanted } from "./compiled_plans.ts";
import { KEPT, refusalOf } from "./compiled_refusals.ts";
import type { Arena } from "./gradients/arena.ts";
import type { TrainedParameters } from "./trained_parameters.ts";

/** The ordinary way of a micro-batch. */
export type Run = (
  pass: Pass,
  input: Tensor,
  target: Tensor,
  weight: Weight,
  done: BlockDone | null,
) => Outcome;

export interface CompiledPass {
  /** The next micro-batch's gradients are the first of a step: what is in the arena is of no use. */
  begin(): void;
  /** Where no micro-batch has come since, the arena has zeros. */
  settle(): void;
  /**
   * In place of `plain`, wherever there is a plan; `cuts` are where gradients are waited for, and `again` comes before each
   * run of a plan.
   */
  over(plain: Run, cuts?: readonly Cut[], again?: () => void): Run;
}

/** Plans are told of here. */
export interface Reports {
  line(text: string): void;
  warn(text: string): void;
}

type Given = Omit<Recorded, "outcome">;

/** Each has memory of its own. */
const MOST_PLANS = 4;

/**
 * Making a plan of fewer recorded ops takes little more than what the program's start has left as garbage, which is dropped
 * before. In exact, where products are tried, garbage of more ops would have to be dropped in any case.
 */
const FEW_OPS = { fast: 20, exact: 60 };
/**
 * More garbage than so many bytes is dropped afterwards. Where a plan has less memory of its own, the run takes most while the
 * plan is made, and it takes more garbage if some was dropped before.
 */
const MUCH = 4 << 20, MORE = 8 << 20;

/** Gradients at the run's own weights are shortened by other signs than those at other weights. */
const OWN_SIGNS = 2;

/** The way that these settings ask for on this device, or null. */
export function compiledMode({ compile, deterministic }: Config["training"], onGpu: boolean): Mode | null {
  if (compile === "off") return null;
  if (onGpu) return compile === "exact" || deterministic === "world" ? null : "fast"; // else steps are captured as they are
  if (compile === "auto") return null;
  return compile === "on" ? deterministic === "off" ? "fast" : "exact" : compile;
}

/** Models and losses of ours and exported programs are the same in each step; a user's code may count its calls. */
export const keepsNothing = ({ model, training }: Config): boolean =>
  !isCode(model.name) && !isCode(training.loss);

/** The reason why no step of this run can be compiled, or null. */
export function whyNotCompiled(
  { pass, trained }: { readonly pass: Pass; readonly trained: Pick<TrainedParameters, "waiting"> },
  mode: Mode,
  syncNorms: boolean,
): string | null {
  if (trained.waiting.size > 0) return "--freeze-until trains other parameters in later epochs";
  if (pass.cast !== null && mode === "exact") {
    return "--amp computes in half precision, whose bits are libtorch's own (--compile=fast rounds as it does)";
  }
  if (pass.onGpu && syncNorms) return "--sync-bn gathers statistics in the middle of them";
  if (pass.onGpu) return null;
  if (machineIsa() === null) return noIsa();
  return null;
}

export const HEAD_IN_PARTS =
  "the head computes its logits in parts (--set training.logits_mib=0 computes them whole)";

/** A plan's logits are whole: on a GPU in half precision and in the place of their gradient, on a CPU as f32. */
export const onHostInParts = (p: Pass, target: Tensor): boolean => !p.onGpu && inParts(p, target);

/** A micro-batch's shapes, and the plans for it; none where it runs as it is. */
interface Kind {
  readonly input: Tensor;
  readonly target: Tensor;
  readonly weighted: boolean;
  readonly rollout: number;
  plans: Plans | null;
  /** Plans are used when a second recording has shown that the step stays the same, and they were compared twice. */
  sure: boolean;
  /** Zeros among the first gradients may have hidden something: the second ones are compared, too. */
  hides: boolean;
  /** The plan that adds gradients to those of the arena was compared, too. */
  adds: boolean;
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
  const { device } = arena.flat, isa = device === "cpu" ? machineIsa()! : "cuda";
  const kinds: Kind[] = [], room = new Room(device);
  let fresh = false, told = false, timed = false, toldKept = false;

  const clear = () => {
    if (fresh) zero_(arena.gradient);
    fresh = false;
  };
  const kindOf = (p: Pass, input: Tensor, target: Tensor, weight: Weight): Kind | undefined =>
    kinds.find((kind) =>
      kind.weighted === (weight !== null) && kind.rollout === (p.rollout?.steps ?? 0) &&
      sameShape(kind.input, input) && sameShape(kind.target, target)
    );
  const addKind = (
    p: Pass,
    input: Tensor,
    target: Tensor,
    weight: Weight,
    { plans, sure, hides }: Pick<Kind, "plans" | "sure" | "hides">,
  ): Kind => {
    const shape = (t: Tensor) => keep(uninitialised(t.shape, { dtype: t.dtype, device }));
    const kind: Kind = {
      ...{ input: shape(input), target: shape(target), weighted: weight !== null },
      ...{ rollout: p.rollout?.steps ?? 0, plans, sure, hides, adds: false },
    };
    kinds.push(kind);
    return kind;
  };
  /** The kind of a micro-batch that was refused before this run went on. */
  const keptKind = (p: Pass, input: Tensor, target: Tensor, weight: Weight): Kind | undefined => {
    if (kinds.length === MOST_PLANS) return undefined;
    if (!refused.has(refusalOf(mode, p, { input, target, weight }))) return undefined;
    if (!toldKept) reports().warn(KEPT[mode]);
    toldKept = true;
    return addKind(p, input, target, weight, { plans: null, sure: false, hides: false });
  };
  const refuse = (judged: Judgement, plans: Plans, p: Pass, given: Given) => {
    plans.free();
    refused.add(refusalOf(mode, p, given));
    reports().warn(differs(judged, mode));
  };
  /** Null where a GPU is too full to try the plans beside ordinary steps: then these go on alone. */
  const unlessTooFull = <R>(plans: Plans, p: Pass, given: Given, body: () => R): R | null => {
    try {
      return scope(body); // what a step that did not fit has made is given back at once
    } catch (error) {
      if (!isTooFull(error)) throw error;
      plans.free();
      refused.add(refusalOf(mode, p, given));
      reports().warn(TOO_FULL);
      return null;
    }
  };
  /** Runs an ordinary step. The plans' memory and its own are not needed at the same time. */
  const inTurn = <R>(ordinary: () => R): R => {
    room.rest();
    const result = ordinary();
    returnFreedMemory();
    return result;
  };
  /**
   * Runs as always while it is recorded. `then` may use the arena's gradients if it asks for a copy of them, which is put
   * back; or without one, if it leaves this micro-batch's there. Buffers go with the gradients.
   */
  const recordedRun = (
    plain: Run,
    p: Pass,
    input: Tensor,
    target: Tensor,
    given: Weight,
    then: (
      recorded: Recorded,
      recording: Recording,
      copy: () => Tensor,
      buffers: Buffers,
    ) => Plans | null,
  ): Outcome => {
    const weight = calm(p, given), buffers = new Buffers(p.model.root.namedState());
    const before = fresh ? null : keep(clone(arena.gradient));
    zero_(arena.gradient);
    fresh = false;
    const ordinary = () => plain(p, input, target, weight, null);
    const { result, recording } = inTurn(() => compared(p, () => record(ordinary)));
    buffers.note();
    let recorded: Tensor | null = null, taken = result;
    const plans = then(
      { input, target, weight, outcome: result },
      recording,
      () => recorded ??= keep(clone(arena.gradient)),
      buffers,
    );
    if (device !== "cpu") {
      // Comparing has left other gradients: nothing was dropped, the scale was another, or the plan is refused. And a run that
      // goes on records its first step again: it has the plan's bits, too.
      buffers.putBack();
      zero_(arena.gradient);
      if (plans === null) taken = inTurn(() => plain(p, input, target, given, null));
      else {
        draw(p, plans);
        taken = plans.run(input, target, given, false, null);
      }
      (recorded as Tensor | null)?.free();
      recorded = null;
    } else if (plans === null || recorded !== null) buffers.putLeft();
    buffers.free();
    noGrad(() => {
      if (recorded !== null) copy_(arena.gradient, recorded);
      if (before !== null) scope(() => copy_(arena.gradient, add(before, arena.gradient)));
    });
    (recorded as Tensor | null)?.free();
    before?.free();
    return taken;
  };
  /** Arena and buffers get what this micro-batch leaves once more: the plan's, or op by op where there is none. */
  const computeAgain = (
    plain: Run,
    p: Pass,
    plans: Plans | null,
    { input, target, weight }: Given,
    buffers: Buffers,
  ) => {
    buffers.putBack();
    if (plans !== null) {
      draw(p, plans);
      return void plans.run(input, target, weight, false, null);
    }
    zero_(arena.gradient);
    scope(() => void plain(p, input, target, weight, null));
  };
  /**
   * Compares what the plan leaves, gradients and buffers, with what the ordinary step has left; null where they differ, which
   * the run says. Where a digest tells that some bit differs, `plain` gives the ordinary gradients once more, and number by
   * number it is seen which one does.
   */
  const agrees = (
    plain: Run,
    p: Pass,
    plans: Plans,
    gradient: Gradients | Digest,
    recorded: Recorded,
    buffers: Buffers,
    { tells = false, moved = false } = {},
  ): { readonly hides: boolean } | null => {
    const wide = (signs: number | null): Gradients => {
      const inF32 = { ...p, cast: null };
      withoutKernelSearch(() => compared(p, () => computeAgain(plain, inF32, null, recorded, buffers)));
      if (signs !== null) return shortenedGradients(arena, signs);
      return gradientsIn(arena, keep(noGrad(() => clone(arena.gradient))));
    };
    const judgedBy = (expected: Gradients | Digest) => {
      const how = { mode, half: inHalf(p), moved, ...(p.cast !== null && { wide }) };
      const run = () => (buffers.putBack(), draw(p, plans, false));
      return judgeSafely(() => judge(plans, arena, expected, recorded, how, buffers, run));
    };
    let judged = judgedBy(gradient);
    if (judged.wrong !== null && judged.of !== "buffers" && "digest" in gradient) {
      computeAgain(plain, p, null, recorded, buffers);
      const whole = keep(clone(arena.gradient));
      judged = judgedBy(gradientsIn(arena, whole));
      const now = judged.wrong === null && haveSameBits(gradientsIn(arena), gradientsIn(arena, whole));
      if (now) judged = { ...judged, wrong: "they differed the first time" };
      whole.free();
    }
    if (judged.wrong === null) {
      if (tells) reports().line(lineOf(plans, mode, judged));
      return judged;
    }
    refuse(judged, plans, p, recorded);
    return null;
  };
  /**
   * As `agrees`, with weights of which none hides anything; where ordinary steps can't take these, that hides something.
   * `records` the ordinary step, too, which must be the same as before.
   */
  const agreesElsewhere = (
    plain: Run,
    p: Pass,
    plans: Plans,
    given: Given,
    buffers: Buffers,
    { records = false, digests = false } = {},
  ): ReturnType<typeof agrees> =>
    buffers.elsewhere(() =>
      atOtherWeights(arena, () => {
        zero_(arena.gradient);
        const { input, target, weight } = given;
        const ordinary = () => plain(p, input, target, weight, null);
        const { result, recording } = inTurn(() =>
          compared(p, () => records ? record(ordinary) : { result: ordinary(), recording: null })
        );
        buffers.note();
        if (recording !== null && !staysTheSame(plans, recording, { ...given, outcome: result })) return null;
        if (!Number.isFinite(result.loss.item())) return { hides: true };
        const gradient = digests ? digestOf(arena) : shortenedGradients(arena);
        const same = agrees(plain, p, plans, gradient, { ...given, outcome: result }, buffers, {
          moved: true,
        });
        if ("values" in gradient) gradient.values.free();
        return same;
      })
    );
  /** False where a second recording is another step, which the run says. */
  const staysTheSame = (
    plans: Plans,
    recording: Recording,
    { input, target, outcome }: Recorded,
  ): boolean => {
    const again = lower(recording, { input, target, parameters: arena.parameters, ...outcome }, {
      exact: mode === "exact",
      device,
    });
    const same = !("reason" in again) && sameStep(again, plans.lowered);
    if ("reason" in again) recording.free();
    else again.free();
    if (same) return true;
    plans.free();
    reports().warn(CHANGES);
    return false;
  };
  /** Both ways are timed once; null where ordinary steps were chosen. */
  const chosen = (plain: Run, p: Pass, plans: Plans, given: Given, buffers: Buffers): Plans | null => {
    if (choice === null || timed) return plans;
    timed = true;
    const { input, target, weight } = given;
    const compiled = () => (draw(p, plans), void plans.run(input, target, weight, false, null));
    const ordinary = () => void plain(p, input, target, weight, null);
    buffers.uncounted(() => choice.compare(compiled, ordinary));
    if (choice.compiled) return plans;
    plans.free();
    return null;
  };
  const first = (
    plain: Run,
    p: Pass,
    input: Tensor,
    target: Tensor,
    weight: Weight,
    { cuts, again }: Pick<Wanted, "cuts" | "again">,
  ): Outcome => {
    let plans: Plans | null = null, sure = false, hides = false;
    const recomputes = plain === checkpointed;
    const outcome = recordedRun(plain, p, input, target, weight, (recorded, recording, copy, buffers) => {
      const small = recording.ops.length < FEW_OPS[mode];
      if (small) dropGarbage();
      const before = heapBytes();
      const made = attempt(() =>
        makePlans(arena, { mode, isa, cuts, recomputes, room, again }, recording, recorded)
      );
      const reason = "reason" in made
        ? made.reason
        : buffers.narrow(made.lowered.written, again === undefined)
        ? null
        : "they write to a tensor that is no buffer of the model, so they can't be tried";
      if (reason !== null || "reason" in made) {
        if ("reason" in made) recording.free();
        else made.free();
        if (!told) reports().warn(`Steps are not compiled: ${reason}. They run op by op.`);
        return null;
      }
      return plans = unlessTooFull(made, p, recorded, () => {
        if (made.drawing) p.seeds!.followers.add(made.drawing.begin);
        const light = 4 * made.first.placed.elements < MUCH;
        if (heapBytes() > before + (small && light ? MORE : MUCH)) dropGarbage();
        returnFreedMemory(); // V8 has compiled, and in exact products were tried
        // The ordinary step can go again where it has to, and the plan gives these gradients: no copy of them is needed.
        const spares = repeats && again === undefined, digests = spares && mode === "exact";
        const gradient = digests
          ? digestOf(arena)
          : spares
          ? shortenedGradients(arena, OWN_SIGNS)
          : gradientsIn(arena, copy());
        const hidden = mode === "fast" && "values" in gradient && hasHiding(gradient);
        const early = repeats && !hidden, wasTimed = timed;
        const elsewhere = early
          ? agreesElsewhere(plain, p, made, recorded, buffers, { records: true, digests })
          : { hides: hidden };
        const right = elsewhere !== null &&
          agrees(plain, p, made, gradient, recorded, buffers, { tells: !told }) !== null;
        if (right) {
          ({ hides } = elsewhere);
          sure = early && !hides;
          plans = sure ? chosen(plain, p, made, recorded, buffers) : made;
        }
        if (!spares) return plans;
        if ("values" in gradient) gradient.values.free();
        if (device === "cpu" && (plans === null || timed !== wasTimed)) {
          computeAgain(plain, p, plans, recorded, buffers);
        }
        if (made.first.calls > 0) returnFreedMemory(); // results of calls have places from the next run on
        return plans;
      });
    });
    told = true;
    addKind(p, input, target, weight, { plans, sure, hides });
    return outcome;
  };
  /**
   * The program must do the same again, and is compared at other weights. Where a model begins with a layer of zeros,
   * most of the first gradients are zero: then it is compared as it is, too.
   */
  const second = (
    kind: Kind,
    plain: Run,
    p: Pass,
    input: Tensor,
    target: Tensor,
    weight: Weight,
    { again: syncs }: Pick<Wanted, "again">,
  ): Outcome => {
    const plans = kind.plans!;
    kind.sure = true;
    return recordedRun(plain, p, input, target, weight, (recorded, recording, copy, buffers) => {
      kind.plans = null; // as long as anything can differ
      return unlessTooFull(plans, p, recorded, () => {
        if (!staysTheSame(plans, recording, recorded)) return null;
        buffers.narrow(plans.lowered.written, syncs === undefined);
        const gradient = copy();
        const elsewhere = agreesElsewhere(plain, p, plans, recorded, buffers);
        if (elsewhere === null) return null;
        const again = kind.hides || elsewhere.hides;
        const own = () => agrees(plain, p, plans, gradientsIn(arena, gradient), recorded, buffers);
        if (again && own() === null) return null;
        return kind.plans = chosen(plain, p, plans, recorded, buffers);
      });
    });
  };
  /** True where the plan that adds gives the sum of the arena's gradients and of the plan's that writes. */
  const addsUp = (kind: Kind, p: Pass, given: Given): boolean => {
    const plans = kind.plans!;
    kind.adds = true;
    const weight = calm(p, given.weight), how = { mode, half: inHalf(p) };
    const scaled = weight === given.weight ? null : keep(clone(arena.gradient));
    if (scaled !== null) fill_(arena.gradient, 1); // what is there may have overflowed
    const buffers = new Buffers(holding(p.model.root.namedState(), plans.lowered.written));
    const judged = unlessTooFull(
      plans,
      p,
      given,
      () =>
        buffers.uncounted(() =>
          judgeAdding(plans, arena, { ...given, weight }, how, buffers, () => draw(p, plans))
        ),
    );
    buffers.free();
    if (scaled !== null) noGrad(() => copy_(arena.gradient, scaled));
    scaled?.free();
    if (judged?.wrong === null) return true;
    if (judged !== null) refuse(judged, plans, p, given);
    kind.plans = null;
    return false;
  };
  return {
    begin() {
      fresh = true;
    },
    settle: clear,
    over: (plain, cuts = [], again) => (p, input, target, weight, done) => {
      if (choice?.compiled === false) {
        clear();
        return plain(p, input, target, weight, done);
      }
      const known = kindOf(p, input, target, weight) ?? keptKind(p, input, target, weight);
      let outcome: Outcome;
      if (known?.plans && !known.sure) outcome = second(known, plain, p, input, target, weight, { again });
      else if (known?.plans) {
        if (!fresh && !known.adds && !addsUp(known, p, { input, target, weight })) {
          return plain(p, input, target, weight, done);
        }
        draw(p, known.plans);
        outcome = known.plans.run(input, target, weight, !fresh, done);
        fresh = false;
      } else if (known || kinds.length === MOST_PLANS || onHostInParts(p, target)) {
        if (!told && onHostInParts(p, target)) {
          reports().warn(`Steps are not compiled: ${HEAD_IN_PARTS}.`);
          told = true;
        }
        clear();
        return plain(p, input, target, weight, done);
      } else outcome = first(plain, p, input, target, weight, { cuts, again });
      if (done) { for (let block = p.model.blocks.length - 1; block >= 0; block--) done(block); }
      return outcome;
    },
  };
}

const TOO_FULL =
  "Steps are not compiled: the GPU has no room to try a plan beside the ordinary step. They run op by op; a smaller " +
  "--batch-size leaves room.";

const CHANGES =
  "Steps are not compiled: the program takes other numbers or other ops in its second step than in the first. " +
  "They run op by op.";

/** Forward and backward are refused by their gradients; the update has none, and is compiled by itself. */
const UPDATE_COMPILED = "An update that is compiled stays so, and rounds otherwise in the last digits:";

const differs = ({ wrong, of = "gradients" }: Judgement, mode: Mode): string =>
  mode === "exact"
    ? `Compiled steps don't have the bits of ordinary ones (${wrong}), so steps run op by op. ` +
      "--compile=fast allows other rounding, and --no-compile leaves the attempt out."
    : `Compiled steps give other ${of} than the ordinary ones (${wrong}), so steps run op by op. ` +
      `${UPDATE_COMPILED} --no-compile leaves both out.`;

/** TF32 rounds a product's factors as fp16 does. */
const inHalf = ({ cast, onGpu }: Pass): boolean => cast !== null || onGpu && computesInTf32();

/** Gradients are compared at a scale at which few overflow in fp16; the scaler's is found in the first steps. */
const CALM = 1024;
const calm = ({ onGpu, cast }: Pass, weight: Weight): Weight =>
  onGpu && cast === "f16" && weight !== null ? constant(CALM, "f32", weight.device) : weight;

/** On a GPU ordinary steps draw other numbers than groups do: nothing is dropped where they are compared. */
const compared = <R>({ onGpu, seeds }: Pass, body: () => R): R =>
  onGpu && seeds !== null ? withoutDropping(body) : body();

/** The same random numbers as the ordinary step's; on a GPU numbers of their own, or none are dropped. */
function draw({ seeds }: Pass, { lowered: { draws, seeded }, drawing }: Plans, drops = true): void {
  if (drawing !== null) {
    if (seeds!.micro === 0) seeds!.seed(0);
    drawing.micro(drops ? seeds!.micro : null);
    return;
  }
  let last = 0;
  const fill = ({ tensor, kept }: Draw) => noGrad(() => bernoulli_(tensor, kept));
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

function sameShape(a: Tensor, b: Tensor): boolean {
  const x = a.shape, y = b.shape;
  if (x.length !== y.length) return false;
  for (let i = 0; i < x.length; i++) if (x[i] !== y[i]) return false;
  return a.dtype === b.dtype;
}
