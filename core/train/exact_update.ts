// The update of a small model in one call, with the bits of libtorch's fused Adam, which is given a list of tensors for each of
// six arguments and divides each among threads. The loops are written as those of the libtorch that is there, whose ways are
// found by trying; where none has its bits, and for what a loop of ours does no faster, libtorch updates.
import { noGrad } from "../../ffi/autograd.ts";
import { loadCode } from "../../ffi/machine_code.ts";
import { type Isa, machineIsa } from "../../ffi/machine.ts";
import { borrowBytes, readBytes, scalar, tensor, zeros } from "../../ffi/make.ts";
import { keep, scope, type Tensor } from "../../ffi/tensor.ts";
import { uniform } from "../base/random.ts";
import {
  ADAM_NUMBERS,
  ADAM_WAYS,
  type AdamWay,
  beginAdam,
  exactAdamKernel,
  hasExactLoop,
} from "../compile/exact_update.ts";
import type { UpdateSettings } from "../compile/update.ts";
import { printCode } from "../compile/x86/print.ts";
import type { Arena } from "./arena.ts";
import { runTimed, threadsFor, withStep } from "./compiled_update.ts";
import { traitsOf } from "./optimizers.ts";
import { fusedAdamOf } from "./optimizers/adam.ts";
import type { GroupPart, Optimizer, OptimizerSettings } from "./optimizers/optimizer.ts";

/** The update of more weights takes its time in memory. */
const MOST = 2 ** 20;

/** Itself where libtorch updates. */
export function exactUpdate(optimizer: Optimizer, settings: OptimizerSettings, arena: Arena): Optimizer {
  const parts = optimizer.groups?.parts ?? [{ optimizer, settings, arena, factor: 1 }], isa = machineIsa();
  const large = arena.flat.device !== "cpu" || arena.direct || arena.flat.numel > MOST;
  if (isa === null || large || !parts.every(isPlain)) return optimizer;
  const ways = waysOfLibtorch(isa, settings.type);
  const update = ways && openLoops(parts.map(loopsOf), isa, ways);
  if (!update) return optimizer;
  const begins = parts.map((part) => {
    const begin = beginAdam(part.settings);
    return (given: Float32Array, rate: number) => begin(given, rate * part.factor, part.optimizer.advance!());
  });
  return withStep(optimizer, (rate, found = null) => {
    if (found !== null) return optimizer.step(rate, found);
    if (optimizer.groups) optimizer.advance!();
    begins.forEach((begin, group) => begin(update.numbers(group), rate));
    runTimed(settings.type, update);
  });
}

/** libtorch's loop goes the other way round where the mean moves by half of the distance, or more. */
const isPlain = ({ settings, optimizer: { state, advance } }: GroupPart): boolean =>
  hasExactLoop(traitsOf(settings).compiled) && state !== undefined && advance !== undefined &&
  Math.fround(1 - settings.beta1) < 0.5;

/** Parameters with their gradients, and where their state begins. */
interface Loops {
  readonly settings: UpdateSettings;
  readonly weights: readonly Tensor[];
  readonly gradients: readonly Tensor[];
  readonly state: readonly Tensor[];
  readonly starts: readonly number[];
}

const loopsOf = (
  { settings, optimizer: { state }, arena: { parameters, gradients, starts } }: GroupPart,
): Loops => ({
  ...{ settings, weights: parameters, gradients, state: state!, starts },
});

/** In whole vectors of so many lanes, and in what is left over of each parameter. */
export interface Ways {
  readonly lanes: 8 | 16;
  readonly vectors: AdamWay;
  readonly rest: AdamWay;
}

/** Null where the machine refuses executable memory. */
function openLoops(groups: readonly Loops[], isa: Isa, { lanes, vectors, rest }: Ways) {
  const tensors = groups.flatMap(({ weights, gradients, state }) => [...weights, ...gradients, ...state]);
  let slot = 0;
  const kernels = groups.flatMap(({ settings, weights, state, starts }, group) => {
    const first = slot, count = weights.length, own = { numbers: tensors.length, own: group * ADAM_NUMBERS };
    slot += 2 * count + state.length;
    return weights.flatMap(({ numel }, i) => {
      const whole = numel - numel % lanes, places = { weights: first + i, gradient: first + count + i };
      const piece = (from: number, elements: number, way: AdamWay) =>
        elements === 0 ? [] : [exactAdamKernel(settings, {
          ...{ ...own, ...places, elements, first: from, offset: starts[i] + from, factor: 1 },
          state: state.map((_, k) => first + 2 * count + k),
        }, way)];
      return [...piece(0, whole, vectors), ...piece(whole, numel - whole, rest)];
    });
  });
  const elements = groups.reduce(
    (sum, { weights }) => sum + weights.reduce((all, { numel }) => all + numel, 0),
    0,
  );
  const code = loadCode(printCode(kernels, isa, tensors.length + 1, threadsFor(elements)));
  if ("refused" in code) return null;
  const numbers = keep(zeros([groups.length * ADAM_NUMBERS])), { buffer, byteOffset } = borrowBytes(numbers);
  [...tensors, numbers].forEach((tensor, slot) => code.setSlot(slot, tensor));
  const own = groups.map((_, group) =>
    new Float32Array(buffer, byteOffset + group * ADAM_NUMBERS * Float32Array.BYTES_PER_ELEMENT, ADAM_NUMBERS)
  );
  const free = () => {
    code.free();
    numbers.free();
  };
  return { numbers: (group: number) => own[group], run: () => code.run(), free };
}

// With these settings each of the ways rounds some numbers otherwise.

const TRIED = { beta1: 0.6, beta2: 0.7, eps: 1e-3, weight_decay: 0.9, momentum: 0, nesterov: false };
const RATE = 0.1, STEP = 3;

/** Lengths that are whole vectors, and some that leave more over of wide vectors than of narrow ones. */
export const WHOLE: readonly number[] = [480], UNEVEN: readonly number[] = Array<number>(24).fill(15);

const known = new Map<string, Ways | null>();

function waysOfLibtorch(isa: Isa, type: OptimizerSettings["type"]): Ways | null {
  let found = known.get(type);
  if (found === undefined) {
    const whole = agreesWithLibtorch(isa, type, WHOLE);
    const vectors = ADAM_WAYS.find((way) => whole({ lanes: 8, vectors: way, rest: way }));
    found = vectors && waysWith(vectors, isa).find(agreesWithLibtorch(isa, type, UNEVEN)) || null;
    known.set(type, found);
  }
  return found;
}

/** libtorch has some loops for AVX2 alone, which a processor with AVX-512 runs, too. */
export const waysWith = (vectors: AdamWay, isa: Isa): Ways[] =>
  (isa === "avx512" ? [8, 16] as const : [8] as const).flatMap((lanes) =>
    ADAM_WAYS.map((rest) => ({ lanes, vectors, rest }))
  );

/** Tells whether ways agree in all numbers that are tried: parameters of these lengths. */
export function agreesWithLibtorch(
  isa: Isa,
  type: OptimizerSettings["type"],
  lengths: readonly number[],
): (ways: Ways) => boolean {
  const settings = { ...TRIED, type };
  const updated = (update: (numbers: Tensor[][]) => void): string =>
    scope(() => {
      const numbers = drawn(lengths), [weights, , means, squares] = numbers;
      update(numbers);
      return [weights, means, squares].flat().map((t) => readBytes(t)).join();
    });
  const right = updated(([weights, gradients, means, squares]) => {
    const { beta1, beta2, eps, weight_decay } = settings, steps = lengths.map(() => scalar(STEP));
    const [update] = fusedAdamOf(type);
    const numbers = [RATE, beta1, beta2, weight_decay, eps, false, false, null, null] as const;
    noGrad(() => update(weights, gradients, means, squares, [], steps, ...numbers));
  });
  return (ways) =>
    updated(([weights, gradients, means, squares]) => {
      const groups = lengths.map((_, i) => ({
        ...{
          settings,
          weights: [weights[i]],
          gradients: [gradients[i]],
          state: [means[i], squares[i]],
          starts: [0],
        },
      }));
      const loops = openLoops(groups, isa, ways);
      if (loops === null) return;
      groups.forEach((_, group) => beginAdam(settings)(loops.numbers(group), RATE, STEP));
      loops.run();
      loops.free();
    }) === right;
}

/** Weights, gradients, means and mean squares. */
function drawn(lengths: readonly number[]): Tensor[][] {
  const draw = uniform(1n);
  let at = 0;
  return [-0.5, -0.5, -0.5, 0].map((least) =>
    lengths.map((length) => tensor(Float32Array.from({ length }, () => draw(at++) + least)))
  );
}
