// Memory: what is free, and what the job's control group or a limit lets this process take.
import { formatBytes } from "../../format.ts";
import { freeOf, type Limit, limitsOf, tightestLimit } from "../../memory.ts";
import { bad, good, type Line, warn } from "./line.ts";

export interface MemoryFacts {
  /** Of the machine, in bytes. */
  readonly total: number;
  /** That this process may still take. */
  readonly free: number;
  /** Whose limit leaves so much, and what it allows in all. */
  readonly by: Limit["of"];
  readonly limit: number;
}

export function gatherMemory(): MemoryFacts {
  const machine = limitsOf().find(({ of }) => of === "machine")!, tightest = tightestLimit();
  return { total: machine.limit, free: freeOf(tightest), by: tightest.of, limit: tightest.limit };
}

const GIB = 2 ** 30, LEAST = GIB / 2, LITTLE = 2 * GIB;
const NAME = "memory";

const WHOSE: Readonly<Record<Limit["of"], readonly [said: string, todo: string]>> = {
  "machine": ["", "End what else runs here, or take another node."],
  "job": [
    " by the limit of this job's control group",
    "Ask for more: --mem in SLURM (--mem=0 is all of a node), mem in PBS, --memory of a container.",
  ],
  "address space": [" by the limit of the address space", "Raise it: `ulimit -v unlimited`."],
  "data": [" by the limit of a process's data", "Raise it: `ulimit -d unlimited`."],
};

export function judgeMemory({ total, free, by, limit }: MemoryFacts): Line[] {
  const [whose, todo] = WHOSE[by];
  const of = by === "machine" ? "" : ` (${formatBytes(limit)})`;
  const said = `${formatBytes(free)} free${whose}${of}, of ${formatBytes(total)} in the machine`;
  if (free < LEAST) return [bad(NAME, said, todo)];
  if (free < LITTLE) return [warn(NAME, said, todo)];
  return [good(NAME, said)];
}
