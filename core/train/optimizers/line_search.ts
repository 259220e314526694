// The line search of torch.optim.LBFGS: a step along a direction that fulfils the strong Wolfe conditions, found by cubic
// interpolation (minFunc's). torch's own is in Python, whose numbers are f64 until they meet a tensor of f32, and so are these.
import { scalar } from "../../../ffi/make.ts";
import type { DType } from "../../../ffi/dtype.ts";
import { sqrt } from "../../../ffi/ops.ts";
import { scope, type Tensor } from "../../../ffi/tensor.ts";

/** A number of Python's, or one of a 0-dim tensor, to whose type all that it meets is rounded. */
export interface Num {
  readonly value: number;
  /** Null for one of Python's. */
  readonly round: Rounding | null;
}

export type Rounding = (value: number) => number;

export const roundingTo = (dtype: DType): Rounding => dtype === "f64" ? (value) => value : Math.fround;

export const double = (value: number): Num => ({ value, round: null });

/** A number that a tensor has. */
export const ofTensor = (value: number, round: Rounding): Num => ({ value: round(value), round });

/** Both as they meet. */
function meet(a: Num, b: Num): [number, number, Rounding | null] {
  const round = a.round ?? b.round;
  return round ? [round(a.value), round(b.value), round] : [a.value, b.value, null];
}

const made = (value: number, round: Rounding | null): Num => round ? ofTensor(value, round) : double(value);

function plus(a: Num, b: Num): Num {
  const [x, y, round] = meet(a, b);
  return made(x + y, round);
}

function minus(a: Num, b: Num): Num {
  const [x, y, round] = meet(a, b);
  return made(x - y, round);
}

export function times(a: Num, b: Num): Num {
  const [x, y, round] = meet(a, b);
  return made(x * y, round);
}

/** A number of Python's over a tensor is that times the tensor's reciprocal. */
export function over(a: Num, b: Num): Num {
  const [x, y, round] = meet(a, b);
  return b.round && !a.round ? ofTensor(b.round(1 / y) * x, b.round) : made(x / y, round);
}

function isLess(a: Num, b: Num): boolean {
  const [x, y] = meet(a, b);
  return x < y;
}

const isAtMost = (a: Num, b: Num): boolean => {
  const [x, y] = meet(a, b);
  return x <= y;
};

const absolute = ({ value, round }: Num): Num => ({ value: Math.abs(value), round });

/** libtorch's roots of f32 are not always the nearest number. */
const root = ({ value, round }: Num): Num =>
  made(round === Math.fround ? scope(() => sqrt(scalar(value)).item()) : Math.sqrt(value), round);

/** As Python's, which keeps the first of two that are equal, or of which one is no number. */
export const least = (a: Num, b: Num): Num => isLess(b, a) ? b : a;
const most = (a: Num, b: Num): Num => isLess(a, b) ? b : a;

const ZERO = double(0), TWO = double(2), TENTH = double(0.1);

/** A place that was evaluated. */
export interface Point {
  /** So many times the direction away from the start. */
  readonly at: Num;
  readonly loss: Num;
  readonly gradient: Tensor;
  /** The loss grows so steeply along the direction. */
  readonly slope: Num;
}

/** Where the cubic through two points with their slopes is lowest, within the bounds. */
function interpolated(a: Point, b: Point, bounds?: readonly [Num, Num]): Num {
  const [low, high] = bounds ?? (isAtMost(a.at, b.at) ? [a.at, b.at] : [b.at, a.at]);
  const between = over(times(double(3), minus(a.loss, b.loss)), minus(a.at, b.at));
  const d1 = minus(plus(a.slope, b.slope), between);
  const square = minus(times(d1, d1), times(a.slope, b.slope));
  if (!isAtMost(ZERO, square)) return over(plus(low, high), TWO);
  const d2 = root(square), [near, far] = isAtMost(a.at, b.at) ? [a, b] : [b, a];
  const up = minus(plus(far.slope, d2), d1), down = plus(minus(far.slope, near.slope), times(TWO, d2));
  const lowest = minus(far.at, times(minus(far.at, near.at), over(up, down)));
  return least(most(lowest, low), high);
}

const C1 = double(1e-4), C2 = double(-0.9);

interface Search {
  /** The direction's largest number. */
  readonly size: Num;
  readonly tolerance: number;
  readonly mostEvaluations: number;
}

/** Returns the place, and how many were evaluated. `at` is the first one that is tried. */
export function strongWolfe(
  evaluate: (at: Num) => Point,
  start: Point,
  at: Num,
  { size, tolerance, mostEvaluations }: Search,
): { readonly found: Point; readonly evaluations: number } {
  const rises = ({ at, loss }: Point) => isLess(plus(start.loss, times(times(C1, at), start.slope)), loss);
  const isFlat = ({ slope }: Point) => isAtMost(absolute(slope), times(C2, start.slope));

  // Two places that have such a step between them, or the step itself.
  let before = start, now = evaluate(at), tried = 0, done = false;
  let bracket: Point[] = [];
  for (; tried < mostEvaluations; tried++) {
    if (rises(now) || tried > 1 && isAtMost(before.loss, now.loss)) bracket = [before, now];
    else if (isFlat(now)) {
      bracket = [now];
      done = true;
    } else if (isAtMost(ZERO, now.slope)) bracket = [before, now];
    if (bracket.length > 0) break;
    const nearest = plus(now.at, times(double(0.01), minus(now.at, before.at)));
    const next = interpolated(before, now, [nearest, times(now.at, double(10))]);
    [before, now] = [now, evaluate(next)];
  }
  if (bracket.length === 0) bracket = [start, now];

  // They come closer.
  let low = bracket.length === 1 || isAtMost(bracket[0].loss, bracket[1].loss) ? 0 : 1, stalls = false;
  while (!done && tried < mostEvaluations) {
    const [a, b] = bracket;
    if (isLess(times(absolute(minus(b.at, a.at)), size), double(tolerance))) break;
    const inner = within(interpolated(a, b), a.at, b.at, stalls);
    stalls = inner.stalls;
    now = evaluate(inner.at);
    tried++;
    if (rises(now) || isAtMost(bracket[low].loss, now.loss)) {
      bracket[1 - low] = now;
      low = isAtMost(bracket[0].loss, bracket[1].loss) ? 0 : 1;
      continue;
    }
    done = isFlat(now);
    const away = times(now.slope, minus(bracket[1 - low].at, bracket[low].at));
    if (!done && isAtMost(ZERO, away)) bracket[1 - low] = bracket[low];
    bracket[low] = now;
  }
  return { found: bracket[low], evaluations: tried + 1 };
}

/** A place that is close to a border for the second time, or beyond it, is moved away from it. */
function within(at: Num, a: Num, b: Num, stalled: boolean): { readonly at: Num; readonly stalls: boolean } {
  const low = least(a, b), high = most(a, b), room = times(TENTH, minus(high, low));
  const left = minus(high, at), right = minus(at, low);
  if (!isLess(least(left, right), room)) return { at, stalls: false };
  if (!stalled && isLess(at, high) && isLess(low, at)) return { at, stalls: true };
  const nearHigh = isLess(absolute(minus(at, high)), absolute(minus(at, low)));
  return { at: nearHigh ? minus(high, room) : plus(low, room), stalls: false };
}
