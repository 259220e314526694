// Axes -> the runs of a sweep: all combinations, or so many drawn at random. Pure. May import errors, random, axes.
import { UserError } from "../../errors.ts";
import { key, uniform } from "../../random.ts";
import type { Axis } from "./axes.ts";

/** One value for each axis, in their order. */
export type Point = readonly string[];

const MOST = 10_000;
/** From this factor between its ends on, a range is drawn from by its logarithm. */
const WIDE = 10;

export function grid(axes: readonly Axis[]): Point[] {
  const range = axes.find((axis) => axis.range);
  if (range) {
    throw new UserError(
      "usage",
      `${
        range.before.replace(/=$/, "")
      } is a range, from which runs are drawn at random: say how many with --random N.`,
    );
  }
  const size = axes.reduce((product, { choices }) => product * choices.length, 1);
  if (size > MOST) {
    throw new UserError(
      "usage",
      `That would be ${size} runs, and a sweep may have ${MOST}: draw some with --random N.`,
    );
  }
  return axes.reduce<Point[]>(
    (points, { choices }) => points.flatMap((point) => choices.map((value) => [...point, value])),
    [[]],
  );
}

/** The same seed draws the same runs, and more runs begin with those of fewer. No run is drawn twice. */
export function drawn(axes: readonly Axis[], count: number, seed: number): Point[] {
  const points = new Map<string, Point>();
  for (let i = 0; points.size < count && i < 100 * count; i++) {
    const point = axes.map((axis) => draw(axis, uniform(key(seed, "sweep", axis.name))(i)));
    points.set(point.join("\0"), point);
  }
  return [...points.values()];
}

function draw({ choices, range, setting }: Axis, u: number): string {
  if (!range) return choices[Math.floor(u * choices.length)];
  const { low, high } = range;
  const whole = setting.kind === "int";
  const value = low > 0 && high / low >= WIDE ? low * (high / low) ** u : low + (high - low) * u;
  return String(whole ? Math.round(value) : Number(value.toPrecision(4)));
}
