// --compile=fast: an update of the user's own as machine code. In each step the user's function goes through a few numbers that
// stand for all weights, with this step's rate and count. What ops it asks for chooses the loop, and what numbers it gives them
// is what the loop reads.
import { noGrad } from "../../ffi/autograd.ts";
import { ones } from "../../ffi/make.ts";
import { clone } from "../../ffi/ops.ts";
import { keep, scope } from "../../ffi/tensor.ts";
import { record } from "../../ffi/trace.ts";
import { type RecordedUpdate, recordedUpdate } from "../compile/own_update.ts";
import { orRefusal, sentenceOf } from "../compile/refused.ts";
import type { Choice } from "./compiler.ts";
import type { Optimizer, StepNumbers } from "./optimizers/optimizer.ts";

/** The loop over all weights, and the numbers that it reads. */
export interface OwnLoop {
  readonly numbers: Float32Array;
  run(): void;
}

/** So many numbers stand for all weights. */
const STAND_INS = 7;
/** A step with yet another list of ops runs op by op, since making a loop takes milliseconds. */
const LOOPS = 8;
const NO_MEMORY = "this machine refuses executable memory";
/** It is tried with them before the first step. */
const TRIED = [{ step: 1, lr: 0.01 }, { step: 2, lr: 0.007 }];

/** From now on its steps are loops that `make` makes; or why they are not. `refused` is told of later ones that run op by op. */
export function compileOwn(
  { own, slots, options }: Optimizer,
  make: (loop: ReturnType<RecordedUpdate["loop"]>, numbers: number) => OwnLoop | null,
  choice: Pick<Choice, "compiled">,
  refused: (why: string) => void,
): string | null {
  const standIns = Array.from({ length: 2 + slots.size }, () => keep(ones([STAND_INS])));
  const loops = new Map<string, OwnLoop | string>();
  const made = (update: RecordedUpdate): OwnLoop | string => {
    if (loops.size >= LOOPS) {
      return `its ops are none of its first ${LOOPS} lists of them`;
    }
    const loop = orRefusal(() => make(update.loop(), update.numbers.length)) ?? NO_MEMORY;
    const known = typeof loop === "object" && "reason" in loop ? sentenceOf(loop) : loop;
    loops.set(update.ops, known);
    return known;
  };
  const recorded = (numbers: StepNumbers) =>
    noGrad(() =>
      scope(() => {
        const { result, recording } = record(() => {
          const [weights, gradient, ...state] = standIns.map((t) => clone(t));
          own!.run({ weights, gradient: () => gradient, state }, numbers);
          return [weights, ...state];
        });
        const update = recordedUpdate(recording, standIns, result);
        recording.free();
        return update;
      })
    );
  const prepared = (numbers: StepNumbers): OwnLoop | string => {
    const update = recorded(numbers);
    if ("reason" in update) return sentenceOf(update);
    const loop = loops.get(update.ops) ?? made(update);
    if (typeof loop !== "string") loop.numbers.set(update.numbers);
    return loop;
  };
  const weightDecay = Number(options.weight_decay);
  const [one, other] = TRIED.map((numbers) => recorded({ ...numbers, weightDecay }));
  // The first lists of ops would be compiled, and those of a run that goes on are others.
  if (!("reason" in one || "reason" in other) && one.list === other.list && one.ops !== other.ops) {
    return "an exponent of its powers changes from step to step";
  }
  const first = prepared({ ...TRIED[0], weightDecay });
  if (typeof first === "string") return first;
  own!.instead = (numbers) => {
    if (!choice.compiled) return false;
    const loop = prepared(numbers);
    if (typeof loop === "string") refused(`in step ${numbers.step} ${loop}`);
    else loop.run();
    return typeof loop !== "string";
  };
  return null;
}
