// The same numbers for the same seed. Test helper.
import { key, uniform } from "../../../../../core/base/random.ts";

/** Whole numbers below `limit`. */
export function keyed(seed: number): (limit: number) => number {
  const next = uniform(key(seed));
  let at = 0;
  return (limit) => Math.floor(next(at++) * limit);
}
