// The learning rate as a pure function of the optimizer step. Imports nothing of ours but types.

/** How the learning rate goes over a run. */
export interface Schedule {
  /** Its course after the warm-up. */
  readonly type: "cosine" | "linear" | "step" | "constant" | "onecycle";
  /** The highest rate, after scaling. */
  readonly peak: number;
  /** The rate at the end of a fall. */
  readonly min: number;
  /** Optimizer steps of linear warm-up, and of the whole run. */
  readonly warmup: number;
  /** Optimizer steps of the whole run. */
  readonly total: number;
  /** "step": optimizer steps from one fall to the next, and the factor of each. */
  readonly every: number;
  /** The factor of each fall of "step". */
  readonly gamma: number;
}

/** The rate for the step with this number, counted from 0. */
export function learningRate(s: Schedule, step: number): number {
  if (s.type === "onecycle") return oneCycle(s, step);
  if (step < s.warmup) return s.peak * (step + 1) / s.warmup;
  const span = Math.max(1, s.total - s.warmup);
  const done = Math.min(1, (step - s.warmup) / span);
  switch (s.type) {
    case "constant":
      return s.peak;
    case "linear":
      return s.min + (s.peak - s.min) * (1 - done);
    case "cosine":
      return s.min + (s.peak - s.min) * (1 + Math.cos(Math.PI * done)) / 2;
    case "step":
      return s.peak * s.gamma ** Math.floor(step / s.every);
  }
}

/** Up from peak/25 by a cosine over the warm-up (30% of the run when none is set), down to `min` by another. */
function oneCycle(s: Schedule, step: number): number {
  const start = s.peak / 25;
  const up = s.warmup > 0 ? s.warmup : Math.max(1, Math.round(0.3 * s.total));
  const between = (from: number, to: number, part: number) =>
    to + (from - to) * (1 + Math.cos(Math.PI * Math.min(1, part))) / 2;
  return step < up
    ? between(start, s.peak, step / up)
    : between(s.peak, s.min, (step - up) / Math.max(1, s.total - up));
}
