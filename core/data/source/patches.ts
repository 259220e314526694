// A patch of a map to train with: the map's window and its target's, at one place. Places without a known point
// of the target are passed over.
import type { DType } from "../../../ffi/dtype.ts";
import type { Patches } from "../../models/patches.ts";
import { type Draw, drawAgain, type Geometry, hasPoints, type Patch, PLACES } from "./geometry.ts";
import type { Numbers } from "../arrays/numbers.ts";

export const windowOf = ({ height, width, wraps }: Patches): Patch => ({ height, width, wraps, unit: 1 });

/** The window of a map that is k times finer. */
export const finer = (plan: Geometry, k: number): Geometry =>
  plan.patch && k !== 1
    ? {
      ...plan,
      patch: { ...plan.patch, height: k * plan.patch.height, width: k * plan.patch.width, unit: k },
    }
    : plan;

/** Targets' maps go with inputs' through the geometry. */
export interface Beside {
  /** As stored: [channels, height, width]. */
  readonly map: readonly number[];
  readonly plan: Geometry;
  readonly dtype: DType;
  /** Points of this class do not count. */
  readonly ignored: number;
}

/** Draws for the first place of a few with a point that counts; without any, those for the first place. */
export function openPlaces(
  { map, plan: { patch }, dtype, ignored }: Beside,
): (target: Numbers, draw: Draw | null) => Draw | null {
  if (!patch) return (_, draw) => draw;
  if (dtype === "f16" || dtype === "bf16") return (_, draw) => draw; // moved as bits
  const floating = dtype === "f32" || dtype === "f64";
  const none = dtype === "i64" ? BigInt(ignored) : ignored;
  return (target, draw) => {
    if (draw === null) return null;
    const counts = floating
      ? (at: number) => target[at] === target[at] // NaN alone differs from itself
      : (at: number) => target[at] !== none;
    for (let attempt = 0; attempt < PLACES; attempt++) {
      const again = drawAgain(draw, attempt);
      if (hasPoints(patch, map, counts, again)) return again;
    }
    return draw;
  };
}
