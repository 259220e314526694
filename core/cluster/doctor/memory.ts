// Memory: what is free, and what the job's control group lets this process take. May import data/room, line, ask.
import { freeMemory } from "../../data/room.ts";
import { formatBytes } from "../../format.ts";
import { bad, good, type Line, warn } from "./line.ts";

export interface MemoryFacts {
  /** Of the machine, in bytes. */
  readonly total: number;
  /** That this process may still take. */
  readonly free: number;
  /** The machine's own, whatever the job may take of it. */
  readonly machineFree: number;
}

export function gatherMemory(): MemoryFacts {
  const { total, available } = Deno.systemMemoryInfo();
  return { total, free: freeMemory(), machineFree: available };
}

const GIB = 2 ** 30, LEAST = GIB / 2, LITTLE = 2 * GIB;
const NAME = "memory";

export function judgeMemory({ total, free, machineFree }: MemoryFacts): Line[] {
  const limited = free < 0.98 * machineFree;
  const said = `${formatBytes(free)} free${limited ? " by the limit of this job's control group" : ""}, of ${
    formatBytes(total)
  } in the machine`;
  const ask = limited
    ? "Ask for more: --mem in SLURM (--mem=0 is all of a node), mem in PBS, --memory of a container."
    : "End what else runs here, or take another node.";
  if (free < LEAST) return [bad(NAME, said, ask)];
  if (free < LITTLE) return [warn(NAME, said, ask)];
  return [good(NAME, said)];
}
