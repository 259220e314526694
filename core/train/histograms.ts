// Histograms of weights and gradients for W&B, every so many steps. May import ffi, track (types), its siblings.
import { toNumbers } from "../../ffi/make.ts";
import { scope, type Tensor } from "../../ffi/tensor.ts";
import type { HistogramsNote } from "../track/wandb/types.ts";
import type { Arena } from "./arena.ts";

const BINS = 64;
/** Of one note: what threads hand on is no larger than a mebibyte. */
const MOST = 200;

export interface Histogram {
  readonly values: readonly number[];
  readonly bins: readonly number[];
}

/**
 * To be called with each step's gradients, whole and before they are clipped: on the steps that are due, tells how they
 * and the weights are spread.
 */
export function openHistograms(
  every: number,
  note: (note: HistogramsNote) => void,
): (step: number, arena: Pick<Arena, "names" | "parameters">, gradients: readonly Tensor[]) => void {
  return (step, { names, parameters }, gradients) => {
    if (step % every !== 0) return;
    let of: Record<string, Histogram> = {};
    const tell = () => {
      note({ kind: "histograms", t: Date.now() / 1000, step, of });
      of = {};
    };
    const add = (kind: string, tensors: readonly Tensor[]) =>
      tensors.forEach((t, i) => {
        of[`${kind}/${names[i]}`] = histogramOf(scope(() => toNumbers(t)));
        if (Object.keys(of).length >= MOST) tell();
      });
    add("weights", parameters);
    add("gradients", gradients);
    if (Object.keys(of).length > 0) tell();
  };
}

/** From the least to the largest value; what is no finite number is left out. */
export function histogramOf(numbers: Float64Array): Histogram {
  let least = Infinity, most = -Infinity;
  for (let i = 0; i < numbers.length; i++) {
    const x = numbers[i];
    if (x - x !== 0) continue; // NaN or infinite
    if (x < least) least = x;
    if (x > most) most = x;
  }
  if (least > most) [least, most] = [0, 0]; // there is none
  if (least === most) [least, most] = [least - 0.5, most + 0.5];
  const values: number[] = new Array(BINS).fill(0);
  const scale = BINS / (most - least);
  for (let i = 0; i < numbers.length; i++) {
    const x = numbers[i];
    if (x - x === 0) values[Math.min(BINS - 1, Math.floor((x - least) * scale))]++;
  }
  const bins = Array.from({ length: BINS + 1 }, (_, i) => short(least + (most - least) * i / BINS));
  return { values, bins };
}

const short = (x: number) => Number(x.toPrecision(6));
