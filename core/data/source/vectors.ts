// Components of vectors, such as winds: their signs and places change where a map is mirrored or turned.
import type { SampleNumbers } from "../arrays/numbers.ts";

/** Channels of the components along a map's rows (u, from left to right) and across them (v). */
export type Pair = readonly [u: number, v: number];

export interface Components {
  readonly pairs: readonly Pair[];
  /** 1 where v points to later rows, as u points to later columns; -1 where it points to earlier ones. */
  readonly sense: 1 | -1;
}

/** @internal */
export interface Vectors {
  readonly input: readonly Pair[];
  readonly target: readonly Pair[];
  readonly sense: Components["sense"];
}

/** How a map was changed: mirrored left to right, then upside down, then turned against the clock. */
export interface Turn {
  readonly mirrored: boolean;
  readonly upsideDown: boolean;
  /** Quarters of a turn. */
  readonly quarters: number;
}

/** The maps are turned already, each channel in a plane of so many numbers; components follow. */
export function turnComponents(
  maps: SampleNumbers,
  plane: number,
  { pairs, sense }: Components,
  turn: Turn,
): void {
  let u = [turn.mirrored ? -1 : 1, 0], v = [0, turn.upsideDown ? -1 : 1];
  for (let i = 0; i < turn.quarters; i++) [u, v] = [v.map((x) => sense * x), u.map((x) => -sense * x)];
  const swapped = u[0] === 0, ofU = u[0] + u[1], ofV = v[0] + v[1];
  if (!swapped && ofU === 1 && ofV === 1) return;
  const numbers = maps as Float32Array;
  for (const [first, second] of pairs) {
    for (let a = first * plane, b = second * plane, end = a + plane; a < end; a++, b++) {
      const x = numbers[a], y = numbers[b];
      numbers[a] = ofU * (swapped ? y : x);
      numbers[b] = ofV * (swapped ? x : y);
    }
  }
}

/** Components of any turn: u' = a u + b v and v' = c u + d v, where v points down the rows. */
export function turnBy(
  maps: SampleNumbers,
  plane: number,
  { pairs, sense }: Components,
  [a, b, c, d]: readonly number[],
): void {
  if (a === 1 && b === 0 && c === 0 && d === 1) return;
  const numbers = maps as Float32Array;
  for (const [first, second] of pairs) {
    for (let u = first * plane, v = second * plane, end = u + plane; u < end; u++, v++) {
      const x = numbers[u], y = sense * numbers[v];
      numbers[u] = a * x + b * y;
      numbers[v] = sense * (c * x + d * y);
    }
  }
}
