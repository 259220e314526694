// How far the ranks' clocks are apart: all read theirs right after a barrier. May import ffi, dist.
import { synchroniseCuda } from "../../../../ffi/cuda.ts";
import type { Team } from "../../../dist/team.ts";

export interface Skew {
  /** Seconds ahead of rank 0, and how far that can be wrong. */
  readonly ahead: number;
  readonly unsure: number;
}

const ROUNDS = 5;

/** Each rank's; of a few rounds the one that all came out of soonest. */
export function measureSkew(team: Team): Skew[] {
  const rounds = Array.from({ length: ROUNDS }, () => {
    team.collectives.wait(team.collectives.barrier("doctor: clocks"));
    synchroniseCuda();
    const before = Date.now();
    team.collectives.wait(team.collectives.barrier("doctor: clocks"));
    synchroniseCuda();
    const after = Date.now();
    return team.hear({ before, after }, "doctor: clocks");
  });
  const length = (round: typeof rounds[number]) =>
    Math.max(...round.map(({ before, after }) => after - before));
  const best = rounds.toSorted((a, b) => length(a) - length(b))[0];
  const [zero] = best;
  return best.map(({ after }) => ({
    ahead: (after - zero.after) / 1000,
    unsure: (length(best) + 1) / 1000,
  }));
}
