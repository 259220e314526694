// What this job was given, and what of that a run here would use: tasks, nodes, GPUs. May import dist/where, errors,
// line.
import { inSlurmStep } from "../../dist/launchers.ts";
import { whereAmI } from "../../dist/where.ts";
import type { PlaceFlags } from "../../dist/place.ts";
import { UserError } from "../../errors.ts";
import { formatPlural } from "../../format.ts";
import { bad, good, type Line, warn } from "./line.ts";

export interface AllocationFacts {
  /** Where a rank started like this would be. */
  readonly rank: number;
  readonly world: number;
  readonly localRank: number;
  readonly localWorld: number;
  readonly nodes: number;
  readonly nodeNames: readonly string[];
  /** Who numbered the ranks, in a sentence. */
  readonly said: string;
  /** Why the ranks can't be as they are told. */
  readonly wrong: string | null;
  /** Tasks that the job has, where this is one process of it outside of any step. */
  readonly idle: number;
  /** Inside a job or a launcher's world. */
  readonly inside: boolean;
  /** GPUs that a process here may see. */
  readonly gpus: number;
}

type Env = Record<string, string>;

export function gatherAllocation(env: Env, flags: PlaceFlags, gpus: number): AllocationFacts {
  const tasks = Number(env.SLURM_NTASKS ?? env.SLURM_NPROCS ?? 1);
  const idle = env.SLURM_JOB_ID && !inSlurmStep(env) && tasks > 1 ? tasks : 0;
  const inside = Boolean(env.SLURM_JOB_ID || env.PBS_JOBID);
  try {
    const { rank, world, localRank, localWorld, nodes, nodeNames, said } = whereAmI(env, flags);
    return {
      rank,
      world,
      localRank,
      localWorld,
      nodes,
      nodeNames,
      said,
      wrong: null,
      idle,
      inside: inside || world > 1,
      gpus,
    };
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    const wrong = error.message;
    return {
      rank: 0,
      world: 1,
      localRank: 0,
      localWorld: 1,
      nodes: 1,
      nodeNames: [],
      said: "",
      wrong,
      idle,
      inside,
      gpus,
    };
  }
}

const NAME = "allocation";

export function judgeAllocation(facts: AllocationFacts): Line[] {
  const { world, localWorld, nodes, said, wrong, idle, inside, gpus } = facts;
  if (wrong !== null) {
    const [first, ...rest] = wrong.split(/(?<=\.)\s+/);
    return [
      bad(
        NAME,
        first.replace(/\.$/, ""),
        rest.join(" ") || "Let srun, mpirun or hpctrain launch number the ranks.",
      ),
    ];
  }
  if (idle > 0 && world === 1) {
    return [warn(
      NAME,
      `this job has ${idle} tasks, and this is one process outside of them: a run started like this would use one`,
      "Start it with srun: `srun hpctrain ...`.",
    )];
  }
  if (gpus > 0 && localWorld > gpus && gpus > 1) {
    return [bad(
      NAME,
      `${localWorld} ranks on this node, and ${formatPlural(gpus, "GPU")} shown to each`,
      `Start as many ranks on a node as it has GPUs: #SBATCH --ntasks-per-node=${gpus}, or hpctrain launch -n ${gpus}.`,
    )];
  }
  if (!inside) return [good(NAME, "not inside a job: this machine alone")];
  const where = `${formatPlural(world, "rank")} on ${formatPlural(nodes, "node")}`;
  return [good(NAME, `${where}. ${said.replace(/\.$/, "")}`)];
}
