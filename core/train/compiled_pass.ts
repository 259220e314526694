// --compile on a CPU: a micro-batch's forward and backward as one plan of machine code. The first micro-batch of a shape
// runs as always while it is recorded; the plan that is made of it computes the same micro-batch once more, and is used
// from then on if the gradients agree.
import { add, borrowBytes, uninitialised, zero_, zeros } from "../../ffi/make.ts";
import { noGrad } from "../../ffi/autograd.ts";
import { bernoulli_, clone, contiguous, copy_, select } from "../../ffi/ops.ts";
import { threads } from "../../ffi/context.ts";
import { record } from "../../ffi/trace.ts";
import { keep, scope, type Tensor } from "../../ffi/tensor.ts";
import { derive } from "../compile/derive.ts";
import { lower, type Lowered, sameStep } from "../compile/lower/lower.ts";
import { makePlan, type NoPlan, type Plan } from "../compile/plan.ts";
import { orRefusal, sentenceOf } from "../compile/refused.ts";
import { machineIsa } from "../compile/x86/isa.ts";
import type { Isa } from "../compile/kernel.ts";
import { messageOf } from "../base/errors.ts";
import { formatBytes, formatPlural } from "../base/format.ts";
import type { Config } from "../settings/settings.ts";
import { type BlockDone, type Outcome, type Pass, straight, type Weight } from "./blocks.ts";
import { inParts } from "./chunked_head.ts";
import type { Arena } from "./gradients/arena.ts";

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
  /** In place of `plain`, wherever there is a plan. */
  over(plain: Run): Run;
}

/** Plans are told of here. */
export interface Reports {
  line(text: string): void;
  warn(text: string): void;
}

/** Each has memory of its own. */
const MOST_PLANS = 4;
/** Losses are read when the next step is under way; a line of memory each. */
const CELLS = 8, CELL = 16;
/** Shares of a parameter's gradient, and of the whole one, by which a gradient may differ. */
const BOUND = 1e-3, NOISE = 1e-5;

export type Mode = "exact" | "fast";

/** The way that these settings ask for on this device, or null. */
export function compiledMode({ compile, deterministic }: Config["training"], onGpu: boolean): Mode | null {
  if (onGpu || compile === "auto" || compile === "off") return null;
  return compile === "on" ? deterministic === "off" ? "fast" : "exact" : compile;
}

/** The reason why no step of this run can be compiled, or null. */
export function whyNotCompiled(
  { pass, channelsLast }: { readonly pass: Pass; readonly channelsLast: boolean },
  training: Config["training"],
  syncNorms: boolean,
): string | null {
  if (pass.cast !== null) return "--amp computes in half precision";
  if (training.gradient_checkpointing) return "--gradient-checkpointing computes each block twice";
  if (syncNorms) return "--sync-bn gathers statistics in the midst of them";
  if (channelsLast && pass.model.convolutional) return CHANNELS_LAST;
  if (machineIsa() === null) return "this processor has no AVX2";
  return null;
}

export const CHANNELS_LAST =
  "libtorch's convolutions are faster channels last, which compiled steps are not (--channels-last off compiles them)";

export const HEAD_IN_PARTS = "the head computes its logits in parts (training.logits_mib)";

/** A micro-batch's shapes, and the plans for it; none where it runs as it is. */
interface Kind {
  readonly input: Tensor;
  readonly target: Tensor;
  readonly weighted: boolean;
  readonly rollout: number;
  plans: Plans | null;
  /** Plans are used when a second recording has shown that the step stays the same. */
  sure: boolean;
}

export function openCompiledPass(arena: Arena, mode: Mode, reports: () => Reports): CompiledPass {
  const isa = machineIsa()!;
  const kinds: Kind[] = [];
  let fresh = false, told = false;

  const clear = () => {
    if (fresh) zero_(arena.gradient);
    fresh = false;
  };
  const kindOf = (p: Pass, input: Tensor, target: Tensor, weight: Weight): Kind | undefined =>
    kinds.find((kind) =>
      kind.weighted === (weight !== null) && kind.rollout === (p.rollout?.steps ?? 0) &&
      sameShape(kind.input, input) && sameShape(kind.target, target)
    );
  const first = (p: Pass, input: Tensor, target: Tensor, weight: Weight): Outcome => {
    const before = fresh ? null : keep(clone(arena.gradient));
    zero_(arena.gradient);
    fresh = false;
    const { result, recording } = record(() => straight(p, input, target, weight));
    const recorded = keep(clone(arena.gradient));
    const made = attempt(() =>
      makePlans(arena, mode, isa, recording, { p, input, target, weight, outcome: result })
    );
    let plans: Plans | null = null;
    if ("reason" in made) {
      recording.free();
      if (!told) reports().warn(`Steps are not compiled: ${made.reason}. They run op by op.`);
    } else {
      const { written } = made.lowered, statistics = noGrad(() => written.map((t) => keep(clone(t))));
      draw(p, made);
      const judged = judgeSafely(made, arena, recorded, { input, target, weight, outcome: result }, mode);
      noGrad(() => written.forEach((t, i) => copy_(t, statistics[i]))); // a micro-batch counts once
      for (const t of statistics) t.free();
      if (judged.wrong === null) {
        plans = made;
        if (!told) reports().line(lineOf(made, mode, judged.largest));
      } else {
        made.free();
        reports().warn(
          `Compiled steps give other gradients than the ordinary ones (${judged.wrong}), so steps run op by op. ` +
            "--no-compile leaves the attempt out.",
        );
      }
    }
    told = true;
    noGrad(() => {
      if (before === null) copy_(arena.gradient, recorded);
      else scope(() => copy_(arena.gradient, add(before, recorded)));
    });
    recorded.free();
    before?.free();
    const shape = (t: Tensor) => keep(uninitialised(t.shape, { dtype: t.dtype }));
    kinds.push({
      ...{ input: shape(input), target: shape(target), weighted: weight !== null },
      ...{ rollout: p.rollout?.steps ?? 0, plans, sure: false },
    });
    return result;
  };
  const second = (kind: Kind, p: Pass, input: Tensor, target: Tensor, weight: Weight): Outcome => {
    clear();
    const { result, recording } = record(() => straight(p, input, target, weight));
    const again = lower(recording, { input, target, parameters: arena.parameters, ...result }, {
      exact: mode === "exact",
    });
    kind.sure = true;
    if ("reason" in again) recording.free();
    if ("reason" in again || !sameStep(again, kind.plans!.lowered)) {
      kind.plans!.free();
      kind.plans = null;
      reports().warn(
        "Steps are not compiled: the program takes other numbers or other ops in its second step than in the first. " +
          "They run op by op.",
      );
    }
    if (!("reason" in again)) again.free();
    return result;
  };
  return {
    begin() {
      fresh = true;
    },
    settle: clear,
    over: (plain) => (p, input, target, weight, done) => {
      const known = kindOf(p, input, target, weight);
      let outcome: Outcome;
      if (known?.plans && !known.sure) outcome = second(known, p, input, target, weight);
      else if (known?.plans) {
        draw(p, known.plans);
        outcome = known.plans.run(input, target, weight, !fresh);
        fresh = false;
      } else if (known || kinds.length === MOST_PLANS || inParts(p, target)) {
        if (!told && inParts(p, target)) {
          reports().warn(`Steps are not compiled: ${HEAD_IN_PARTS}.`);
        }
        told = true;
        clear();
        return plain(p, input, target, weight, done);
      } else outcome = first(p, input, target, weight);
      if (done) { for (let block = p.model.blocks.length - 1; block >= 0; block--) done(block); }
      return outcome;
    },
  };
}

/** The same random numbers as the ordinary step's. */
function draw({ seeds }: Pass, { lowered: { draws } }: Plans): void {
  let seeded = 0;
  for (const { tensor, kept, block, seeding } of draws) {
    if (seeding !== seeded) seeds!.seed(block);
    seeded = seeding;
    noGrad(() => bernoulli_(tensor, kept));
  }
}

/** A step that can't be compiled runs as it is, whatever is wrong. */
function attempt(make: () => Plans | { readonly reason: string }): ReturnType<typeof make> {
  try {
    return make();
  } catch (error) {
    return { reason: messageOf(error) };
  }
}

function sameShape(a: Tensor, b: Tensor): boolean {
  const x = a.shape, y = b.shape;
  if (x.length !== y.length) return false;
  for (let i = 0; i < x.length; i++) if (x[i] !== y[i]) return false;
  return a.dtype === b.dtype;
}

interface Recorded {
  readonly input: Tensor;
  readonly target: Tensor;
  readonly weight: Weight;
  readonly outcome: Outcome;
}

/** The plans of one shape: one writes gradients, the other adds to them. */
interface Plans {
  readonly first: Plan;
  readonly lowered: Lowered;
  run(input: Tensor, target: Tensor, weight: Weight, adds: boolean): Outcome;
  free(): void;
}

function makePlans(
  arena: Arena,
  mode: Mode,
  isa: Isa,
  recording: Parameters<typeof lower>[0],
  { p: _, input, target, weight, outcome }: Recorded & { readonly p: Pass },
): Plans | { readonly reason: string } {
  const lowered = lower(recording, { input, target, parameters: arena.parameters, ...outcome }, {
    exact: mode === "exact",
  });
  if ("reason" in lowered) return { reason: sentenceOf(lowered) };
  const { graph: forward } = lowered, weighted = weight !== null;
  const graph = orRefusal(() => derive(forward, arena.parameters.length, { weighted }));
  if ("reason" in graph) return { reason: sentenceOf(graph) };
  const output = keep(uninitialised(outcome.output.shape));
  const losses = keep(zeros([CELLS * CELL]));
  const cells = Array.from({ length: CELLS }, (_, i) => keep(select(losses, 0, i * CELL)));
  const memory = { ...arena, held: lowered.held, output, losses };
  const make = (adds: boolean) =>
    makePlan(graph, memory, { exact: mode === "exact", adds, isa, threads: threads() });
  const first = make(false);
  if ("lacks" in first) return { reason: whyNoPlan(first) };
  let adding: Plan | null = null, cell = 0;
  return {
    first,
    lowered,
    run(input, target, weight, adds) {
      let plan = first;
      if (adds) {
        if (adding === null) {
          const made = make(true);
          if ("lacks" in made) throw new Error(`internal: no second plan: ${made.name}.`);
          adding = made;
        }
        plan = adding;
      }
      cell = (cell + 1) % CELLS;
      plan.run(dense(input), dense(target), weight, cell * CELL);
      return { output, loss: cells[cell] };
    },
    free() {
      first.free();
      adding?.free();
      for (const t of [output, losses, ...cells]) t.free();
      lowered.free();
    },
  };
}

/** The plan of one micro-batch, to look at; or why there is none. */
export function examinePlan(
  p: Pass,
  arena: Arena,
  input: Tensor,
  target: Tensor,
  mode: Mode,
): Pick<Plan, "placed" | "codeBytes" | "milliseconds"> | { readonly reason: string } {
  const isa = machineIsa();
  if (isa === null) return { reason: "this processor has no AVX2" };
  return scope(() => {
    const { result, recording } = record(() => straight(p, input, target, null));
    const made = attempt(() =>
      makePlans(arena, mode, isa, recording, { p, input, target, weight: null, outcome: result })
    );
    if ("reason" in made) return { reason: made.reason };
    const { placed, codeBytes, milliseconds } = made.first;
    made.free();
    return { placed, codeBytes, milliseconds };
  });
}

const dense = (t: Tensor): Tensor => t.contiguous ? t : contiguous(t);

const LACKS: Readonly<Record<NoPlan["lacks"], (name: string) => string>> = {
  order: (name) =>
    `libtorch computes ${name} in an order that compiled steps don't follow (--compile=fast does without)`,
  memory: (name) => `this machine gives no memory for code (${name})`,
  symbol: (name) => `this libtorch has no ${name}`,
};

const whyNoPlan = ({ lacks, name }: NoPlan): string => LACKS[lacks](name);

interface Judgement {
  /** The first gradient that differs too much: "fc1.weight: 3%". */
  readonly wrong: string | null;
  readonly largest: number;
}

/** A plan that fails gives no gradients. */
function judgeSafely(...parts: Parameters<typeof judge>): Judgement {
  try {
    return judge(...parts);
  } catch (error) {
    return { wrong: messageOf(error), largest: NaN };
  }
}

/** Computes the recorded micro-batch with the plan, and compares. */
function judge(
  plans: Plans,
  arena: Arena,
  recorded: Tensor,
  { input, target, weight, outcome }: Recorded,
  mode: Mode,
): Judgement {
  const { loss } = plans.run(input, target, weight, false);
  if (mode === "exact") {
    const [own, theirs] = [loss.item(), outcome.loss.item()];
    if (!Object.is(own, theirs)) return { wrong: `the loss is ${own} in place of ${theirs}`, largest: NaN };
  }
  const own = numbersOf(arena.gradient), theirs = numbersOf(recorded);
  const whole = normOf(theirs, 0, theirs.length);
  let largest = 0;
  for (let i = 0; i < arena.starts.length; i++) {
    const from = arena.starts[i], to = from + arena.parameters[i].numel;
    let square = 0, unlike = false;
    for (let k = from; k < to; k++) {
      const difference = own[k] - theirs[k];
      if (difference !== 0 && !(Number.isNaN(own[k]) && Number.isNaN(theirs[k]))) {
        unlike = true;
        square += difference * difference;
      }
    }
    if (!unlike) continue;
    const size = normOf(theirs, from, to), error = Math.sqrt(square);
    const part = error / (size + NOISE / BOUND * whole);
    if (mode === "exact" || !(part <= BOUND)) {
      return { wrong: `${arena.names[i]}: ${percent(error / size)}`, largest: part };
    }
    largest = Math.max(largest, part);
  }
  return { wrong: null, largest };
}

const percent = (part: number): string => `${(100 * part).toPrecision(2)}%`;

function numbersOf(t: Tensor): Float32Array {
  const bytes = borrowBytes(t);
  return new Float32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4);
}

function normOf(numbers: Float32Array, from: number, to: number): number {
  let square = 0;
  for (let k = from; k < to; k++) square += numbers[k] * numbers[k];
  return Math.sqrt(square);
}

function lineOf({ first }: Plans, mode: Mode, largest: number): string {
  const { kernels, calls, codeBytes, milliseconds } = first;
  const parts = [
    formatPlural(kernels, "kernel"),
    ...(calls > 0 ? [formatPlural(calls, "call") + " of libtorch's ops"] : []),
    `${formatBytes(codeBytes)} of code`,
    `made in ${milliseconds.toFixed(0)} ms`,
    mode,
  ];
  const equality = mode === "exact"
    ? "gradients equal the ordinary ones"
    : `gradients differ from the ordinary ones by ${largest.toExponential(0)} at most`;
  return `Steps are compiled: ${parts.join(", ")}; ${equality}.`;
}
