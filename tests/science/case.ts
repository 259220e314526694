// A real case of science from the data to the figures: small in the suite, at full size by `./scripts/science`.
import { assert } from "@std/assert";
import { peer } from "../peer.ts";

export type Size = "small" | "full";

/** What a case measured, and what it has to be. */
export interface Figure {
  readonly what: string;
  readonly value: number;
  readonly atLeast?: number;
  readonly atMost?: number;
}

export interface Case {
  /** A sentence that the figures prove. */
  readonly promise: string;
  /** Makes data in this empty folder, trains on it, predicts, and looks at the predictions with the data's own tools. */
  run(folder: string, size: Size): Promise<Figure[]>;
}

/** NaN is never met. */
export const met = ({ value, atLeast = -Infinity, atMost = Infinity }: Figure): boolean =>
  value >= atLeast && value <= atMost;

export function sentence(figure: Figure): string {
  const { what, value, atLeast, atMost } = figure;
  const bounds = [
    ...(atLeast === undefined ? [] : [`at least ${atLeast}`]),
    ...(atMost === undefined ? [] : [`at most ${atMost}`]),
  ];
  return `${what}: ${Number(value.toPrecision(4))} (${bounds.join(", ")})${met(figure) ? "" : ": NOT MET"}`;
}

/** Runs Python, whose last line of output is JSON. */
export async function python(args: string[], cwd: string): Promise<string> {
  const { success, stdout, stderr } = await peer(args, { cwd, stdin: "null" }).output();
  assert(success, new TextDecoder().decode(stderr));
  return new TextDecoder().decode(stdout);
}
