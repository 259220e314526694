// The clock: of this machine against the file server's; of ranks against each other, which --full measures. May import
// line.
import { formatDuration } from "../../format.ts";
import { good, type Line, warn } from "./line.ts";

export interface ClockFacts {
  /** Unix seconds. */
  readonly now: number;
  /** How far file systems' clocks are ahead, in seconds. */
  readonly servers: readonly { readonly folder: string; readonly ahead: number }[];
}

/** 2026-01-01: no machine that runs this is older. */
const LEAST = 1767225600, MOST_SKEW = 2;
const NAME = "clock";

export function judgeClock({ now, servers }: ClockFacts): Line[] {
  if (now < LEAST) {
    return [warn(
      NAME,
      `this machine's clock says ${new Date(1000 * now).toISOString()}`,
      "Have it set (chronyc makestep): certificates and logs go by it.",
    )];
  }
  const odd = servers.filter(({ ahead }) => Math.abs(ahead) > MOST_SKEW);
  if (odd.length === 0) {
    return [good(NAME, `${new Date(1000 * now).toISOString().slice(0, 19)}Z, and files agree`)];
  }
  return odd.map(({ folder, ahead }) =>
    warn(
      NAME,
      `files in ${folder} get times that are ${formatDuration(Math.abs(ahead))} ${
        ahead > 0 ? "ahead of" : "behind"
      } this machine's clock`,
      "Have the clocks of this node and of the file server set (chronyc tracking).",
    )
  );
}
