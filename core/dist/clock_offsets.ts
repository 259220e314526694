// How far the ranks' clocks are apart, measured when they come out of a reduction together. May import team, flight's clock.
import { clock } from "./flight.ts";
import type { Team } from "./team.ts";

const ROUNDS = 9;

/** Milliseconds that each rank's `clock` is ahead of rank 0's; 0 on the same host, which has one clock. Every rank calls it. */
export function clockOffsets(team: Team): number[] {
  const left = Array.from({ length: ROUNDS }, () => {
    team.reduce([0], "max", "clocks");
    return clock();
  });
  const all = team.hear({ host: Deno.hostname(), left }, "clocks");
  return all.map(({ host, left }) =>
    host === all[0].host ? 0 : median(left.map((at, i) => at - all[0].left[i]))
  );
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[values.length >> 1];
}
