// The cores that this process may use, against what the machine has and what was asked to load data. May import dist/cpus,
// line, ask.
import { settleSpin, type Spin } from "../../../ffi/spin.ts";
import { allowedCores, cpusHere, spinSentence } from "../../dist/cpus.ts";
import { formatPlural } from "../../format.ts";
import { textOf } from "./ask.ts";
import { good, type Line, warn } from "./line.ts";

export interface CoresFacts {
  /** Of the process's cpuset and its control group's quota. */
  readonly usable: number;
  /** "0-3,8", as Linux writes it. */
  readonly cpuset: string;
  /** That the machine has. */
  readonly online: number;
  /** Ranks that share them. */
  readonly sharing: number;
  /** --num-workers, and whether somebody asked for just that. */
  readonly workers: number;
  readonly mentioned: boolean;
  /** How threads wait for each other on these cores. */
  readonly spin: Spin;
}

export function gatherCores(workers: number, mentioned: boolean, sharing: number): CoresFacts {
  const online = (textOf("/proc/stat").match(/^cpu\d+ /gm) ?? []).length;
  return {
    usable: cpusHere(),
    cpuset: allowedCores(),
    online: Math.max(online, cpusHere()),
    sharing,
    workers,
    mentioned,
    spin: settleSpin(),
  };
}

const NAME = "cores";
const ASK =
  "Ask the scheduler for more (--cpus-per-task in SLURM, ncpus in PBS), or --bind-to none with mpirun";

export function judgeCores(
  { usable, cpuset, online, sharing, workers, mentioned, spin }: CoresFacts,
): Line[] {
  const set = cpuset && ` (cpuset ${cpuset})`;
  const here = `${formatPlural(usable, "core")} of ${online}${set}`;
  if (mentioned && workers > usable) {
    return [warn(
      NAME,
      `${here} may be used, and ${workers} threads were asked to load data: ${usable} will, and training waits for data`,
      `${ASK}; or give --num-workers ${usable}.`,
    )];
  }
  if (usable === 1 && online > 1) {
    return [warn(
      NAME,
      `${here} may be used: training and the threads that load data take turns on it`,
      `${ASK}.`,
    )];
  }
  if (sharing > usable) {
    return [warn(
      NAME,
      `${here} for ${formatPlural(sharing, "rank")}: who waits for another keeps a core from it`,
      `Start at most ${formatPlural(usable, "rank")} here, or ask for more cores.`,
    )];
  }
  const ranks = sharing > 1 ? `, for ${formatPlural(sharing, "rank")}` : "";
  return [good(NAME, `${here}${ranks}; ${spinSentence(spin)}`)];
}
