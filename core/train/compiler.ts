// The compiler of steps, which is a part of the program: loaded where a run's settings ask for compiled steps.
import type { Tensor } from "../../ffi/tensor.ts";
import { PARTS, type Parts } from "../parts.ts";
import type { Arena } from "./arena.ts";
import type { BlockDone, Outcome, Pass, Weight } from "./blocks.ts";
import type { Optimizer, OptimizerSettings } from "./optimizers/optimizer.ts";

export type Mode = "exact" | "fast";

/** The ordinary way of a micro-batch. */
export type Run = (
  pass: Pass,
  input: Tensor,
  target: Tensor,
  weight: Weight,
  done: BlockDone | null,
) => Outcome;

/** The gradients of these parameters, by their numbers in the arena, are reduced together when this block is done. */
export interface GradientCut {
  readonly block: number;
  readonly parameters: readonly number[];
}

/** Plans are told of here. */
export interface Reports {
  line(text: string): void;
  warn(text: string): void;
}

export interface TimedWay {
  run(): void;
  /** Comes before it and is not timed: where memory is large, the other way's is given back, and this one's taken. */
  prepare(): void;
}

export interface Choice {
  /** False from the moment on at which ordinary steps were found to be faster. */
  readonly compiled: boolean;
  /** Times both, tells of it, and chooses if the choice is open. */
  compare(compiled: TimedWay, ordinary: TimedWay): void;
  /** `auto`: it is chosen while the run trains, since both ways have the same bits. */
  readonly whileTraining?: ChoiceInTurn;
}

/** Both ways are taken in turn, in the first micro-batches that there is a plan for. */
export interface ChoiceInTurn {
  /** False as long as making a plan would not pay: of all `seen` micro-batches so many had this one's shapes. */
  pays(alike: number, seen: number): boolean;
  /** False when it is chosen. */
  readonly open: boolean;
  /** The next one of a step is taken so. */
  readonly next: "compiled" | "op by op";
  took(milliseconds: number): void;
}

export interface CompiledPass {
  /** The next micro-batch's gradients are the first of a step: what is in the arena is of no use. */
  begin(): void;
  /** Where no micro-batch has come since, the arena has zeros. */
  settle(): void;
  /**
   * In place of `plain`, wherever there is a plan; `cuts` are where gradients are waited for, and `again` comes before each
   * run of a plan.
   */
  over(plain: Run, cuts?: readonly GradientCut[], again?: () => void): Run;
}

/** Batches of evaluations, with the ordinary bits. The model is in evaluation, and nothing asks for gradients. */
export interface CompiledEvaluation {
  /** Another evaluation begins. */
  begin(): void;
  /** The output may be overwritten by the next batch's. */
  judge(pass: Pass, input: Tensor, target: Tensor): Outcome;
}

/** A plan to look at. */
export interface PlanFacts {
  /** Each part has a name, and one may say more of itself. */
  readonly parts: readonly (readonly string[])[];
  readonly calls: number;
  /** Numbers of f32 that lie in memory; `unshared` is how many there were if none shared a place. */
  readonly elements: number;
  readonly unshared: number;
  readonly codeBytes: number;
  readonly milliseconds: number;
}

export interface Compiler {
  openPass(
    arena: Arena,
    mode: Mode,
    reports: () => Reports,
    choice?: Choice | null,
    /** The program keeps nothing of its own from step to step that a step more would change. */
    repeats?: boolean,
    /** Micro-batches that run op by op, since compiled ones gave other gradients: before, and from now on. */
    refused?: Set<string>,
  ): CompiledPass;
  openEvaluation(arena: Arena): CompiledEvaluation;
  /** The norm of the gradient with the ordinary bits, in the caller's scope; null where it has no other way. */
  norm(arena: Arena): (() => Tensor) | null;
  /**
   * The same optimizer with another way of its step, while steps are compiled; itself where there is none. `refused` is told
   * why, where that is not known by the optimizer's name: at once, or of a later step.
   */
  update(
    optimizer: Optimizer,
    settings: OptimizerSettings,
    arena: Arena,
    choice?: Pick<Choice, "compiled">,
    refused?: (why: string) => void,
  ): Optimizer;
  /** The same optimizer with its own bits in less time; itself where there is no such way. */
  exactUpdate(optimizer: Optimizer, settings: OptimizerSettings, arena: Arena): Optimizer;
  /** The plan of one micro-batch; or why there is none. */
  examine(
    p: Pass,
    arena: Arena,
    input: Tensor,
    target: Tensor,
    how: { readonly mode: Mode; readonly recomputes?: boolean; readonly repeats?: boolean },
  ): PlanFacts | { readonly reason: string };
}

const COMPILERS: Parts<{ readonly compiler: Compiler }> = PARTS.compilers;

/** Null where the program is built without one: NO_COMPILER. */
export async function stepCompiler(): Promise<Compiler | null> {
  const [part] = Object.values(COMPILERS);
  return part ? (await part.load()).compiler : null;
}

export const NO_COMPILER = "this hpctrain is built without the compiler of steps";
