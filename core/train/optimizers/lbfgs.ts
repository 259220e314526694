// L-BFGS (Liu and Nocedal 1989) with the bits of torch.optim.LBFGS: a step is several iterations, each with a direction from the
// last gradients' changes, and evaluates the batch again in each.
import { borrowBytes, longLivedZeros, scalar, sub, zeros } from "../../../ffi/make.ts";
import { abs, amax, clone, copy_, dot, mul, narrow, neg, sum, view } from "../../../ffi/ops.ts";
import { freeing, keep, scope, type Tensor } from "../../../ffi/tensor.ts";
import type { Arena } from "../arena.ts";
import { joint } from "./lbfgs_state.ts";
import {
  double,
  least,
  type Num,
  ofTensor,
  over,
  type Point,
  type Rounding,
  roundingTo,
  strongWolfe,
  times,
} from "./line_search.ts";
import { type Closure, type OptimizerKind, type SettingsRead, slotsOf } from "./optimizer.ts";

/** A change of gradients that hardly goes along with the weights' change says nothing of the curvature. */
const LEAST_CURVATURE = 1e-10;

export const lbfgs: OptimizerKind<"lbfgs"> = {
  traits: {
    slots: ["d", "prev_flat_grad", "old_dirs", "old_stps", "ro"],
    wholeGradient: false,
    perElement: false,
    shardable: "whose directions come of all weights",
    bytesPerWeight: ({ history_size }) => 4 * (2 + 2 * history_size),
    compiled: null,
    refuses: ({ amp, clip_norm, clip_value, clip_adaptive, gradient_noise }) =>
      amp === "fp16"
        ? "--amp fp16: a step that overflows can't be left out in its middle, so take bf16 or off"
        : clip_norm > 0 || clip_value > 0 || clip_adaptive > 0 || gradient_noise > 0
        ? "clipped or noisy gradients: its directions come of their differences, so leave --clip-norm, --clip-value, " +
          "--clip-adaptive and --gradient-noise out (line_search_fn=strong_wolfe keeps steps short)"
        : null,
  },
  open(s, arena) {
    const solver = new Solver(s, arena), { direction, before, history, numbers, mostEvaluations } = solver;
    const { max_iter, tolerance_grad, tolerance_change, history_size, line_search_fn, maximize } = s;
    return {
      type: "lbfgs",
      steps: 0,
      evaluates: true,
      slots: slotsOf(this.traits, [direction], [before], history.changes, history.moves, [solver.ro]),
      ...{ numbers, joint },
      options: {
        ...{ max_iter, max_eval: mostEvaluations, tolerance_grad, tolerance_change, history_size },
        ...{ line_search_fn: line_search_fn === "none" ? null : line_search_fn, maximize },
      },
      step(rate, _found, _clip, closure) {
        if (!closure) throw new Error("internal: lbfgs has no closure.");
        this.steps++;
        solver.step(rate, closure);
      },
    };
  },
};

type Settings = SettingsRead<"lbfgs">;

class Solver {
  readonly numbers = { func_evals: 0, n_iter: 0, t: 0, H_diag: 1, prev_loss: 0, kept: 0, oldest: 0 };
  readonly direction: Tensor;
  /** The gradient of the iteration before, and of now. */
  readonly before: Tensor;
  readonly gradient: Tensor;
  readonly history: History;
  readonly ro: Tensor;
  /** To the weights' type. */
  readonly round: Rounding;
  readonly mostEvaluations: number;
  readonly #weights: ReturnType<typeof openWeights>;

  constructor(readonly settings: Settings, arena: Arena) {
    const { max_iter, max_eval, history_size } = settings, weights = this.#weights = openWeights(arena);
    const vectors = (count: number) => Array.from({ length: count }, weights.vector);
    [this.direction, this.before, this.gradient] = vectors(3);
    const { dtype } = arena.flat;
    this.round = roundingTo(dtype);
    this.ro = keep(zeros([history_size], { dtype }));
    this.history = {
      ...{ changes: vectors(history_size), moves: vectors(history_size) },
      curvatures: numbersOf(this.ro),
      round: this.round,
    };
    this.mostEvaluations = max_eval || Math.floor(max_iter * 5 / 4);
  }

  step(rate: number, closure: Closure): void {
    const { numbers, settings: { max_iter } } = this;
    const now = { loss: this.#signed(closure.loss), evaluations: 1, flat: false };
    numbers.func_evals++;
    freeing(() => {
      this.#gather(this.gradient);
      now.flat = this.#isFlat(closure);
    });
    for (let taken = 1; !now.flat && taken <= max_iter; taken++) {
      if (freeing(() => this.#iterate(now, rate, closure, taken === max_iter))) break;
    }
  }

  /** Returns true where the step ends with it. */
  #iterate(now: Progress, rate: number, closure: Closure, last: boolean): boolean {
    const { numbers, gradient, direction, settings: { tolerance_change }, mostEvaluations } = this;
    const { read } = closure, smallest = this.round(tolerance_change), { loss } = now;
    const at = this.#turn(loss, rate, closure), slope = read(dot(gradient, direction));
    numbers.t = at.value;
    if (slope > -smallest) return true;
    const evaluated = this.settings.line_search_fn === "none"
      ? this.#go(now, at, closure, last)
      : this.#search(now, at, slope, closure);
    if (evaluated > 0) now.flat = this.#isFlat(closure);
    numbers.func_evals += evaluated;
    now.evaluations += evaluated;
    return last || now.evaluations >= mostEvaluations ||
      read(largest(mul(direction, scalar(numbers.t, direction.dtype, direction.device)))) <= smallest ||
      Math.abs(now.loss - loss) < tolerance_change;
  }

  /** A new direction; returns how far it is gone at first. */
  #turn(loss: number, rate: number, { read }: Closure): Num {
    const { numbers, gradient, before, direction, history } = this, first = numbers.n_iter++ === 0;
    if (first) {
      copy_(direction, neg(gradient));
      Object.assign(numbers, { kept: 0, oldest: 0, H_diag: 1 });
    } else {
      const move = mul(direction, scalar(numbers.t, direction.dtype, direction.device));
      remember(history, numbers, { change: sub(gradient, before), move, read });
      copy_(direction, turned(neg(gradient), history, numbers));
    }
    copy_(before, gradient);
    numbers.prev_loss = loss;
    if (!first) return double(rate);
    return times(
      least(double(1), over(double(1), ofTensor(read(sum(abs(gradient))), this.round))),
      double(rate),
    );
  }

  /** The next step evaluates the weights that the last iteration leaves. */
  #go(now: Progress, at: Num, { again }: Closure, last: boolean): number {
    this.#weights.go(at.value, this.direction);
    if (last) return 0;
    now.loss = this.#signed(again());
    this.#gather(this.gradient);
    return 1;
  }

  #search(now: Progress, at: Num, slope: number, { again, read }: Closure): number {
    const { direction, gradient, numbers } = this, weights = this.#weights;
    const start = clone(weights.all), made: Tensor[] = [];
    const evaluate = (at: Num): Point => {
      weights.go(at.value, direction);
      const own = keep(clone(gradient));
      made.push(own);
      const loss = freeing(() => {
        const loss = again();
        this.#gather(own);
        return loss;
      });
      copy_(weights.all, start);
      const slope = ofTensor(read(dot(own, direction)), this.round);
      return { at, gradient: own, loss: double(this.#signed(loss)), slope };
    };
    const here = {
      at: double(0),
      loss: double(now.loss),
      gradient: clone(gradient),
      slope: ofTensor(slope, this.round),
    };
    const { found, evaluations } = strongWolfe(evaluate, here, at, {
      size: ofTensor(read(largest(direction)), this.round),
      tolerance: this.settings.tolerance_change,
      mostEvaluations: this.mostEvaluations - now.evaluations,
    });
    copy_(gradient, found.gradient);
    weights.go(found.at.value, direction);
    for (const t of made) t.free();
    numbers.t = found.at.value;
    now.loss = found.loss.value;
    return evaluations;
  }

  #isFlat({ read }: Closure): boolean {
    return read(largest(this.gradient)) <= this.round(this.settings.tolerance_grad);
  }

  #gather(into: Tensor): void {
    this.#weights.gather(into, this.settings.maximize);
  }

  #signed(loss: number): number {
    return this.settings.maximize ? -loss : loss;
  }
}

/** Within a step. */
interface Progress {
  loss: number;
  evaluations: number;
  flat: boolean;
}

const largest = (t: Tensor): Tensor => amax(abs(t));

/** The memory of a tensor on the host. */
function numbersOf(t: Tensor): Float32Array | Float64Array {
  const { buffer, byteOffset } = borrowBytes(t);
  return new (t.dtype === "f64" ? Float64Array : Float32Array)(buffer, byteOffset, t.numel);
}

/** The parameters and vectors of as many numbers, in torch's order and without the arena's gaps. */
function openWeights(arena: Arena) {
  const { flat, parameters } = arena, views = arena.viewsOf(flat);
  const counts = parameters.map(({ numel }) => numel), starts: number[] = [];
  const total = counts.reduce((at, count) => (starts.push(at), at + count), 0);
  const part = (vector: Tensor, i: number) =>
    view(narrow(vector, 0, starts[i], counts[i]), parameters[i].shape);
  return {
    /** Without a graph. */
    all: flat,
    vector: () => keep(longLivedZeros([total], flat)),
    gather(into: Tensor, turns: boolean): void {
      scope(() => {
        arena.gradients.forEach((g, i) => copy_(part(into, i), g));
        if (turns) copy_(into, neg(into));
      });
    },
    go(so: number, direction: Tensor): void {
      views.forEach((w, i) => scope(() => copy_(w, sub(w, part(direction, i), -so))));
    },
  };
}

// The history is a ring: its oldest pair gives way to a new one.

interface History {
  /** Gradients and weights changed by these, a pair in each iteration. */
  readonly changes: readonly Tensor[];
  readonly moves: readonly Tensor[];
  readonly curvatures: Float32Array | Float64Array;
  readonly round: Rounding;
}

interface Ring {
  kept: number;
  oldest: number;
  H_diag: number;
}

function remember(
  { changes, moves, curvatures, round }: History,
  ring: Ring,
  { change, move, read }: { readonly change: Tensor; readonly move: Tensor } & Pick<Closure, "read">,
): void {
  const along = read(dot(change, move)), size = changes.length;
  if (!(along > round(LEAST_CURVATURE))) return;
  const at = (ring.oldest + ring.kept) % size;
  if (ring.kept < size) ring.kept++;
  else ring.oldest = (ring.oldest + 1) % size;
  copy_(changes[at], change);
  copy_(moves[at], move);
  curvatures[at] = 1 / along;
  ring.H_diag = round(along / dot(change, change).item());
}

/** Nearly the inverse Hessian times this, which is the two loops' buffer. */
function turned(
  q: Tensor,
  { changes, moves, curvatures, round }: History,
  { kept, oldest, H_diag }: Ring,
): Tensor {
  const pairs = Array.from({ length: kept }, (_, i) => (oldest + i) % changes.length);
  const shares = pairs.map(() => 0);
  const share = (vector: Tensor, r: Tensor, at: number) =>
    scope(() => round(dot(vector, r).item() * curvatures[at]));
  const less = (r: Tensor, vector: Tensor, by: number) => {
    const next = sub(r, vector, by);
    r.free();
    return next;
  };
  for (let i = kept - 1; i >= 0; i--) {
    const at = pairs[i];
    shares[i] = share(moves[at], q, at);
    q = less(q, changes[at], shares[i]);
  }
  q = mul(q, scalar(H_diag, q.dtype, q.device));
  pairs.forEach((at, i) => q = less(q, moves[at], round(share(changes[at], q, at) - shares[i])));
  return q;
}
