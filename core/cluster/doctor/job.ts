// Checks the scheduler and this job's allocation: tasks, nodes, GPUs.
import { bad, type Finding, good, onPath, programOutput, warn } from "./check.ts";
import { inSlurmStep } from "../../ranks/launchers.ts";
import { type PlaceFlags, rankContext } from "../../ranks/context.ts";
import { UserError } from "../../base/errors.ts";
import { formatPlural } from "../../base/format.ts";

interface SchedulerFacts {
  readonly name: "SLURM" | "PBS" | null;
  readonly program: string | null;
  readonly version: string | null;
  /** It is null where nothing asked the server. */
  readonly answers: boolean | null;
  readonly job: string | null;
}

export async function gatherScheduler(env: Readonly<Record<string, string>>): Promise<SchedulerFacts> {
  const job = env.SLURM_JOB_ID ?? env.PBS_JOBID ?? null;
  const sbatch = onPath("sbatch", env), qsub = onPath("qsub", env);
  if (sbatch) {
    const beside = (name: string) => `${sbatch.slice(0, sbatch.lastIndexOf("/"))}/${name}`;
    const [version, ping] = await Promise.all([
      programOutput(sbatch, ["--version"]),
      programOutput(beside("scontrol"), ["ping"]),
    ]);
    const answers = ping !== null && /\bUP\b/.test(ping);
    return { name: "SLURM", program: sbatch, version: shortVersion(version), answers, job };
  }
  if (qsub) {
    const beside = (name: string) => `${qsub.slice(0, qsub.lastIndexOf("/"))}/${name}`;
    const [version, state] = await Promise.all([
      programOutput(qsub, ["--version"]),
      programOutput(beside("qstat"), ["-B"]),
    ]);
    return { name: "PBS", program: qsub, version: shortVersion(version), answers: state !== null, job };
  }
  const name = env.SLURM_JOB_ID ? "SLURM" : env.PBS_JOBID ? "PBS" : null;
  return { name, program: null, version: null, answers: null, job };
}

/** "slurm-wlm 22.05.8", "pbs_version = 23.06.06" */
const shortVersion = (text: string | null): string | null => /\d+\.\d+[\w.]*/.exec(text ?? "")?.[0] ?? null;

const SCHEDULER = "scheduler";

export function judgeScheduler({ name, program, version, answers, job }: SchedulerFacts): Finding[] {
  if (name === null) return [good(SCHEDULER, "none on this machine; `hpctrain launch` starts several ranks")];
  const which = `${name} ${version ?? "of unknown version"}${job ? `, in job ${job}` : ", outside of a job"}`;
  if (program === null) {
    // In a container on a compute node only the time that remains needs the scheduler.
    return [warn(
      SCHEDULER,
      `${which}, but its programs are not on PATH: a run can't ask how much time is left`,
      `Add them to PATH (in a container: bind /usr/bin/${
        name === "SLURM" ? "squeue" : "qstat"
      } in), or let the ` +
        "scheduler send a signal before the end (--signal=B:USR1@300).",
    )];
  }
  if (answers === false) {
    return [warn(
      SCHEDULER,
      `${which}, whose server does not answer (${program})`,
      `Try \`${
        name === "SLURM" ? "scontrol ping" : "qstat -B"
      }\`; while it fails, jobs can't be submitted from here.`,
    )];
  }
  return [good(SCHEDULER, which)];
}

interface AllocationFacts {
  readonly rank: number;
  readonly world: number;
  readonly localRank: number;
  readonly localWorld: number;
  readonly nodes: number;
  readonly nodeNames: readonly string[];
  readonly said: string;
  readonly wrong: string | null;
  /** The job has these tasks, and this process is outside of any step. */
  readonly idle: number;
  readonly inside: boolean;
  readonly gpus: number;
}

type Env = Record<string, string>;

export function gatherAllocation(env: Env, flags: PlaceFlags, gpus: number): AllocationFacts {
  const tasks = Number(env.SLURM_NTASKS ?? env.SLURM_NPROCS ?? 1);
  const idle = env.SLURM_JOB_ID && !inSlurmStep(env) && tasks > 1 ? tasks : 0;
  const inside = Boolean(env.SLURM_JOB_ID || env.PBS_JOBID);
  try {
    const { rank, world, localRank, localWorld, nodes, nodeNames, description } = rankContext(env, flags);
    return {
      rank,
      world,
      localRank,
      localWorld,
      nodes,
      nodeNames,
      said: description,
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

const ALLOCATION = "allocation";

export function judgeAllocation(facts: AllocationFacts): Finding[] {
  const { world, localWorld, nodes, said, wrong, idle, inside, gpus } = facts;
  if (wrong !== null) {
    const [first, ...rest] = wrong.split(/(?<=\.)\s+/);
    return [
      bad(
        ALLOCATION,
        first.replace(/\.$/, ""),
        rest.join(" ") || "Let srun, mpirun or hpctrain launch number the ranks.",
      ),
    ];
  }
  if (idle > 0 && world === 1) {
    return [warn(
      ALLOCATION,
      `this job has ${idle} tasks, and this is one process outside of them: a run started like this would use one`,
      "Start it with srun: `srun hpctrain ...`.",
    )];
  }
  if (gpus > 0 && localWorld > gpus && gpus > 1) {
    return [bad(
      ALLOCATION,
      `${localWorld} ranks on this node, and ${formatPlural(gpus, "GPU")} shown to each`,
      `Start as many ranks on a node as it has GPUs: #SBATCH --ntasks-per-node=${gpus}, or hpctrain launch -n ${gpus}.`,
    )];
  }
  if (!inside) return [good(ALLOCATION, "not inside a job: this machine alone")];
  const where = `${formatPlural(world, "rank")} on ${formatPlural(nodes, "node")}`;
  return [good(ALLOCATION, `${where}. ${said.replace(/\.$/, "")}`)];
}

export const jobChecks = {
  scheduler: { gather: gatherScheduler, judge: judgeScheduler },
  allocation: { gather: gatherAllocation, judge: judgeAllocation },
};
