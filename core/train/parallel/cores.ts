// Ranks on one node that may use the same cores share them out, or each would start a thread on every core.
// May import ffi, dist.
import { setThreads } from "../../../ffi/random.ts";
import { allowedCores, cpusHere } from "../../dist/cpus.ts";
import type { Team } from "../../dist/team.ts";

/** How many ranks use this one's cores: 1 where a launcher has bound each to its own. */
export function ranksSharingCores(team: Team): number {
  const all = team.hear(`${Deno.hostname()} ${allowedCores()}`, "cores");
  return all.filter((where) => where === all[team.rank]).length;
}

/** Unless somebody said how many threads to compute with. */
export function shareCores(sharing: number, asked: number, env: Record<string, string>): void {
  if (asked > 0 || env.OMP_NUM_THREADS) return;
  setThreads(Math.max(1, Math.floor(cpusHere() / sharing)));
}
