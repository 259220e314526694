// A plan is judged before it is used: the gradients and buffers that it leaves are compared with those of ordinary steps.
import { noGrad } from "../../ffi/autograd.ts";
import { NativeError } from "../../ffi/errors.ts";
import { add, borrowBytes, fill_, readBytes, tensor, zero_ } from "../../ffi/make.ts";
import { asStrided, cat, clone, copy_, narrow } from "../../ffi/ops.ts";
import { keep, scope, type Tensor } from "../../ffi/tensor.ts";
import { messageOf } from "../base/errors.ts";
import { formatBytes, formatPlural } from "../base/format.ts";
import { nameOfCall, type Node } from "../compile/graph.ts";
import {
  type Digest,
  digestOf,
  gradientDifferences,
  type Gradients,
  gradientsIn,
  haveSameBits,
  shortenedGradients,
} from "./compared_gradients.ts";
import type { Buffers } from "./compared_buffers.ts";
import type { Arena } from "./arena.ts";
import type { Plans, Recorded } from "./compiled_plans.ts";
import type { Outcome } from "./blocks.ts";
import type { Mode } from "./compiler.ts";

/** These hold where a plan of the same step was right in f32. */
const DROWNED = { change: 0.5, size: 5e-3 };

/** Shares of a parameter's gradient, and of the whole one, by which a gradient may differ. */
const BOUND = 1e-3, NOISE = 1e-5;

/** In bf16, whose numbers are good to 4e-3, and in which libtorch rounds sums on the way; TF32 and fp16 are good to 5e-4. */
const HALF = { bound: 5e-2, noise: 5e-3 };

/**
 * Among a convolution's many values one may be so close to ReLU's corner, or to another one of a pool's window, that
 * rounding decides where its gradient goes: one of 160,000 is a part of 1 / 400 of the gradient.
 */
const CORNERS = { bound: 2e-2, noise: 1e-4 };

/** At weights that nobody chose more values stand at such corners. What zeros have hidden is wrong by more than this. */
const MOVED_CORNERS = { bound: 0.2, noise: 5e-3 };

interface How {
  readonly mode: Mode;
  /** Weights were moved: `atOtherWeights`. */
  readonly moved?: boolean;
  /** Some of it is computed in bf16, fp16 or TF32. */
  readonly half: boolean;
  /** Under autocast: computes the ordinary step's gradients without it, as all numbers or as sums. */
  readonly wide?: (signs: number | null) => Gradients;
}

export interface Judgement {
  /** The first gradient or buffer that differs too much: "fc1.weight: 3%". */
  readonly wrong: string | null;
  /** Gradients, where nothing else is told. */
  readonly of?: "buffers" | "gradients";
  readonly largest: number;
  /** In half precision: they are about as near to those of f32. */
  readonly nearF32?: boolean;
  /** They would be, but rounding is all that is left of ordinary ones: what differs says nothing about the plan. */
  readonly drowned?: boolean;
  /** Some parameter's gradient is zero wholly, so it could hide what is wrong. */
  readonly hides: boolean;
}

/** A GPU's memory is at its end, which says nothing about a plan. */
export const isTooFull = (error: unknown): boolean => error instanceof NativeError && error.outOfMemory;

/** A plan that fails gives no gradients. */
export function judgeSafely(judge: () => Judgement): Judgement {
  try {
    return judge();
  } catch (error) {
    if (isTooFull(error)) throw error;
    return { wrong: messageOf(error), largest: NaN, hides: false };
  }
}

/** Computes the recorded micro-batch with the plan, and compares. `begin` comes before each run. */
export function judge(
  plans: Plans,
  arena: Arena,
  recorded: Gradients | Digest,
  { input, target, weight, outcome }: Recorded,
  how: How,
  buffers: Pick<Buffers, "wrong">,
  begin: () => void,
): Judgement {
  leaveUnwritten(arena);
  const run = () => (begin(), plans.run(input, target, weight, false, null));
  const { loss } = run(), wrong = buffers.wrong(how.mode, how.half);
  const drowned = wrong !== null && how.wide !== undefined &&
    buffers.wrong(how.mode, how.half, DROWNED) === null;
  const judged = judgeGradients(plans, arena, recorded, { own: loss, theirs: outcome.loss }, how, run);
  const decided = judged.wrong !== null && !judged.drowned;
  return decided || wrong === null ? judged : { ...judged, wrong, of: "buffers", drowned };
}

function judgeGradients(
  plans: Plans,
  arena: Arena,
  recorded: Gradients | Digest,
  losses: { readonly own: Tensor; readonly theirs: Tensor },
  how: How,
  run: () => void,
): Judgement {
  if (how.mode === "exact") {
    const [own, theirs] = [losses.own.item(), losses.theirs.item()];
    if (!Object.is(own, theirs)) {
      return { wrong: `the loss is ${own} in place of ${theirs}`, largest: NaN, hides: false };
    }
  }
  if ("digest" in recorded) {
    const wrong = digestOf(arena).digest === recorded.digest ? null : "the gradients";
    return { wrong, largest: 0, hides: false };
  }
  const { signs } = recorded;
  const own = signs === null ? gradientsIn(arena) : shortenedGradients(arena, signs);
  const corners = plans.lowered.graph.nodes.some(isConvolution);
  const judged = compare(arena.names, own, recorded, how, corners);
  if (judged.wrong !== null && how.wide !== undefined) {
    const kept = signs === null ? gradientsIn(arena, keep(noGrad(() => clone(arena.gradient)))) : own;
    const wide = how.wide(signs), again = nearer(arena.names, kept, recorded, wide, corners);
    for (const { values } of [kept, wide]) values.free();
    if (again.wrong === null) run(); // its gradients are in the arena again
    return again;
  }
  if (signs !== null) own.values.free();
  return judged;
}

/** Numbers that a plan does not write are not taken for its own. Between parameters there are zeros: a norm is of all. */
function leaveUnwritten({ gradient, starts, parameters }: Arena): void {
  noGrad(() => fill_(gradient, NaN));
  const ends = starts.map((start, i) => start + parameters[i].numel);
  scope(() =>
    ends.forEach((end, i) => {
      const next = starts[i + 1] ?? gradient.numel;
      if (next > end) zero_(narrow(gradient, 0, end, next - end));
    })
  );
}

/** In half precision deep models round so much that two right steps are far apart: how far from a step in f32 is each? */
const FARTHER = 2;

/** A wrong gradient is its own size away, or more. */
const MOST_ROUNDING = 0.5;

/**
 * Right are gradients that are about as near to those of f32 as the ordinary ones are. Where these are half their size away
 * or more, as a deep network's are before it has learned anything, wrong ones could be as near.
 */
function nearer(
  names: readonly string[],
  own: Gradients,
  recorded: Gradients,
  wide: Gradients,
  corners: boolean,
): Judgement {
  const ours = gradientDifferences(own, wide),
    theirs = gradientDifferences(recorded, wide),
    { bound, noise } = HALF;
  const whole = Math.hypot(...ours.map(({ size }) => size));
  let largest = 0, drowned: string | null = null;
  for (const [i, { error, size }] of ours.entries()) {
    const scale = size + noise / bound * whole, part = error / scale;
    const rounding = bound + FARTHER * theirs[i].error / scale;
    const figure = () =>
      `${names[i]}: ${percent(error / size)} from f32, and ordinary steps ${percent(theirs[i].error / size)}`;
    if (!(part <= (corners ? Math.max(rounding, MOVED_CORNERS.bound) : rounding))) {
      return { wrong: figure(), largest: part, hides: false };
    }
    if (part > MOST_ROUNDING) drowned ??= figure();
    largest = Math.max(largest, part);
  }
  const hides = ours.some(({ size }) => size === 0);
  return { wrong: drowned, drowned: drowned !== null, largest, nearF32: true, hides };
}

/**
 * The plan that adds is compared when it is first needed: with the sum of the arena's gradients and those of the plan that
 * writes, which is known to be right. The arena is as it was before then.
 */
export function judgeAdding(
  plans: Plans,
  arena: Arena,
  { input, target, weight }: Omit<Recorded, "outcome">,
  how: How,
  buffers: Buffers,
  draw: () => void,
): Judgement {
  const before = keep(clone(arena.gradient));
  const run = (adds: boolean) => {
    buffers.putBack();
    draw();
    plans.run(input, target, weight, adds, null);
  };
  try {
    return judgeSafely(() => {
      run(false);
      buffers.note();
      const sum = keep(noGrad(() => add(before, arena.gradient)));
      noGrad(() => copy_(arena.gradient, before));
      run(true);
      const judged = judgeSum(arena, sum, how, buffers);
      sum.free();
      return judged;
    });
  } finally {
    noGrad(() => copy_(arena.gradient, before));
    before.free();
  }
}

function judgeSum(arena: Arena, sum: Tensor, how: How, buffers: Pick<Buffers, "wrong">): Judgement {
  const wrong = buffers.wrong(how.mode, how.half);
  const judged = compare(arena.names, gradientsIn(arena), gradientsIn(arena, sum), how);
  return judged.wrong !== null || wrong === null ? judged : { ...judged, wrong, of: "buffers" };
}

/** The arena and the outcome that an ordinary micro-batch has left, which added to what was there before. */
export interface Added {
  readonly before: Tensor;
  readonly sum: Tensor;
  readonly outcome: Outcome;
}

/**
 * In exact the plan that adds is compared with the ordinary step that adds: where blocks go back one by one, each adds to a weight
 * that they share, and the order of additions is another than that of one sum.
 */
export function judgeAddingExactly(
  plans: Plans,
  arena: Arena,
  { input, target, weight }: Omit<Recorded, "outcome">,
  { before, sum, outcome }: Added,
  buffers: Pick<Buffers, "putBack" | "wrong">,
  draw: () => void,
): Judgement {
  return judgeSafely(() => {
    noGrad(() => copy_(arena.gradient, before));
    buffers.putBack();
    draw();
    const { loss } = plans.run(input, target, weight, true, null);
    const [own, theirs] = [loss.item(), outcome.loss.item()];
    if (!Object.is(own, theirs)) {
      return { wrong: `the loss is ${own} in place of ${theirs}`, largest: NaN, hides: false };
    }
    return judgeSum(arena, sum, { mode: "exact", half: false }, buffers);
  });
}

/** A weight of zero becomes so much at most; of another one these bits of its fraction change, a sixteenth of its size. */
const MOVED = 0.01, FRACTION = 0x7ffff;

const SIGN = 0x80000000, SIZE = 0x7fffffff;

/**
 * Weights are moved a little while `body` runs: biases, heads and scales that begin with zeros or ones hide what is wrong
 * behind them. No random number is drawn for it. A copy is kept of what is moved: a loop that moves it back would be long
 * enough for V8 to bring in its slower compiler.
 */
export function atOtherWeights<R>(arena: Arena, body: () => R): R {
  const { flat } = arena, places = hidingPlaces(arena);
  const moveBack = flat.device === "cpu" ? moveOnHost(flat, places) : moveOnDevice(flat, places);
  try {
    return body();
  } finally {
    moveBack();
  }
}

interface Place {
  readonly from: number;
  readonly to: number;
}

function moveOnHost(flat: Tensor, places: readonly Place[]): () => void {
  const words = wordsIn(borrowBytes(flat)), kept = places.map(({ from, to }) => words.slice(from, to));
  for (const { from, to } of places) move(words.subarray(from, to), from);
  return () => places.forEach(({ from }, i) => words.set(kept[i], from));
}

/** Only what is moved goes to the host and back. */
function moveOnDevice(flat: Tensor, places: readonly Place[]): () => void {
  if (places.length === 0) return () => {};
  const pieces = places.map(({ from, to }) => ({ from, size: to - from }));
  const write = (all: Tensor) => {
    let at = 0;
    for (const { from, size } of pieces) {
      copy_(narrow(flat, 0, from, size), narrow(all, 0, at, size));
      at += size;
    }
  };
  const inScope = <R>(body: () => R): R => noGrad(() => scope(body));
  const kept = inScope(() => keep(cat(pieces.map(({ from, size }) => narrow(flat, 0, from, size)))));
  const words = wordsIn(readBytes(kept));
  let at = 0;
  for (const { from, size } of pieces) move(words.subarray(at, at += size), from);
  inScope(() =>
    write(
      tensor(new Float32Array(words.buffer, words.byteOffset, words.length), null, { device: flat.device }),
    )
  );
  return () => {
    inScope(() => write(kept));
    kept.free();
  };
}

const wordsIn = (bytes: Uint8Array<ArrayBuffer>): Uint32Array<ArrayBuffer> =>
  new Uint32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4);

/** The weights from number `first` on. */
function move(words: Uint32Array<ArrayBuffer>, first: number): void {
  const values = new Float32Array(words.buffer, words.byteOffset, words.length);
  for (let i = 0; i < words.length; i++) {
    const bits = pattern(first + i);
    if (values[i] === 0) values[i] = (words[i] & SIGN ? -1 : 1) * MOVED * (bits / FRACTION);
    else words[i] ^= bits;
  }
}

/** So many weights of a large parameter are looked at. */
const SAMPLES = 61, LARGE = 1 << 9;

/** A large parameter of which all samples differ was drawn, or trained: it hides nothing, and moving it takes time. */
function hidingPlaces({ flat, starts, parameters }: Arena): Place[] {
  const large = starts.flatMap((from, i) => parameters[i].numel < LARGE ? [] : [{ from, i }]);
  const words = large.length === 0
    ? null
    : wordsIn(noGrad(() =>
      scope(() =>
        readBytes(cat(large.map(({ from, i }) => {
          const step = Math.floor(parameters[i].numel / SAMPLES);
          return asStrided(flat, [SAMPLES], [step], flat.offset + from);
        })))
      )
    ));
  const drawn = new Set(large.flatMap(({ i }, at) => {
    const samples = new Set(words!.subarray(at * SAMPLES, (at + 1) * SAMPLES).map((word) => word & SIZE));
    return samples.size === SAMPLES && !samples.has(0) ? [i] : [];
  }));
  return starts.flatMap((from, i) => drawn.has(i) ? [] : [{ from, to: from + parameters[i].numel }]);
}

/** Bits that look as if they were drawn, never none. */
const pattern = (i: number): number => (Math.imul(i + 1, 0x9e3779b1) >>> 13) | 1;

/** The plan's gradients beside those that they ought to be. */
function compare(
  names: readonly string[],
  own: Gradients,
  recorded: Gradients,
  { mode, half, moved = false }: How,
  corners = false,
): Judgement {
  if (mode === "exact" && haveSameBits(own, recorded)) return { wrong: null, largest: 0, hides: false };
  const cornered = moved ? MOVED_CORNERS : CORNERS;
  const { bound, noise } = half ? HALF : corners ? cornered : { bound: BOUND, noise: NOISE };
  const errors = gradientDifferences(own, recorded);
  const whole = Math.hypot(...errors.map(({ size }) => size));
  let largest = 0;
  for (const [i, { error, size }] of errors.entries()) {
    if (error === 0) continue;
    const part = error / (size + noise / bound * whole);
    if (mode === "exact" || !(part <= bound)) {
      return { wrong: `${names[i]}: ${percent(error / size)}`, largest: part, hides: false };
    }
    largest = Math.max(largest, part);
  }
  return { wrong: null, largest, hides: errors.some(({ size }) => size === 0) };
}

const isConvolution = (node: Node): boolean =>
  node.op === "call" && nameOfCall(node.schema) === "convolution";

const percent = (part: number): string => `${Number((100 * part).toPrecision(2))}%`;

export function compiledLine({ first }: Plans, mode: Mode, { largest, nearF32 }: Judgement): string {
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
    : nearF32
    ? `gradients differ from those of f32 by ${percent(largest)} at most, as ordinary ones do`
    : `gradients differ from the ordinary ones by ${largest.toExponential(0)} at most`;
  return `Steps are compiled: ${parts.join(", ")}; ${equality}.`;
}
