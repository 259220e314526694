// What a check is, and what it is given. May import ffi types.
import type { Libtorch } from "../../ffi/libraries/types.ts";
import type { Device } from "../../ffi/tensor.ts";

export interface Context {
  readonly device: Device;
  readonly libtorch: Libtorch;
  /** Few steps and small shapes: the script's own test. */
  readonly quick: boolean;
  /** A folder of this run's own. */
  readonly folder: string;
  /** A Python with torch, to compare with; null where there is none. */
  readonly python: string | null;
  /** Seconds since the start: what may be left out is left out when it gets late. */
  elapsed(): number;
}

export interface Outcome {
  readonly ok: boolean;
  readonly figure: string;
  /** For the results file. */
  readonly detail?: unknown;
}

export interface Check {
  readonly name: string;
  /** Says nothing on a CPU. */
  readonly gpuOnly?: boolean;
  run(c: Context): Outcome | Promise<Outcome>;
}

/** Largest |a - b| over the largest |b|. */
export function relative(a: ArrayLike<number>, b: ArrayLike<number>): number {
  if (a.length !== b.length) return Infinity;
  let difference = 0, scale = 0;
  for (let i = 0; i < a.length; i++) {
    const apart = Math.abs(a[i] - b[i]);
    if (!(apart <= difference)) difference = apart; // NaN too
    scale = Math.max(scale, Math.abs(b[i]));
  }
  return difference === 0 ? 0 : difference / scale;
}

export const within = (error: number, limit: number): Outcome => ({
  ok: error <= limit,
  figure: `${error.toExponential(1)} relative (at most ${limit.toExponential(0)})`,
  detail: error,
});
