// Compares SLURM's allocation with how the program was started: tasks, nodes, GPUs.
import type { Config } from "../../settings/settings.ts";
import { expandCounts, inSlurmStep, uniqueNodes } from "../launchers.ts";
import { pbsNodesIn, type RankContext } from "../context.ts";
import { UserError } from "../../base/errors.ts";
import { formatPlural } from "../../base/format.ts";
import { shownOf } from "../../base/gpus.ts";
import type { SchedulerEnv } from "./scheduler.ts";

interface LayoutRequest {
  readonly device: "auto" | "cpu" | "cuda";
  readonly anyLayout: boolean;
  /** GPUS or --gpus-per-node; 0 means all. */
  readonly gpusPerNode: number;
}

export const layoutRequest = (
  { training, distributed }: Pick<Config, "training" | "distributed">,
): LayoutRequest => ({
  device: training.device,
  anyLayout: distributed.any_layout,
  gpusPerNode: distributed.gpus_per_node,
});

export function refuseJobLayout(
  env: SchedulerEnv,
  where: RankContext,
  { device, anyLayout, gpusPerNode }: LayoutRequest,
): void {
  if (anyLayout) return;
  if (!env.SLURM_JOB_ID) {
    if (where.launcher === "alone") refuseWithoutMpiexec(env);
    return;
  }
  const ofStep = inSlurmStep(env) && whole(env.SLURM_STEP_NUM_TASKS) === where.world;
  if (where.launcher === "alone") refuseWithoutSrun(env);
  if (device === "cpu" || !ofStep && where.launcher !== "alone") return;
  refuseGpus(env, where, gpusPerNode);
  refuseHidden(env, where);
}

function refuseWithoutSrun(env: SchedulerEnv): void {
  const { SLURM_JOB_ID: job } = env;
  const nodes = whole(env.SLURM_JOB_NUM_NODES) ?? whole(env.SLURM_NNODES) ?? 1;
  const tasks = whole(env.SLURM_NTASKS) ?? tasksPerNode(env);
  if (tasks <= 1 && nodes <= 1) return;
  const has = tasks > 1 ? formatPlural(tasks, "task") : formatPlural(nodes, "node");
  const lines = nodes > 1 ? "#SBATCH --nodes=1 and --ntasks-per-node=1" : "#SBATCH --ntasks-per-node=1";
  throw new UserError(
    "usage",
    `SLURM job ${job} has ${has}, and this is one process, started without srun. In the job script, write ` +
      `\`srun hpctrain ...\`, which starts one process in each task; or ask for one task: ${lines}. To train in one process ` +
      "all the same, add --world-size 1.",
  );
}

/** PBS starts a job's script on its first node alone. */
function refuseWithoutMpiexec(env: SchedulerEnv): void {
  const { PBS_JOBID: job } = env, hosts = job ? uniqueNodes(pbsNodesIn(env)) : [];
  if (hosts.length < 2) return;
  throw new UserError(
    "usage",
    `PBS job ${job} has ${
      formatPlural(hosts.length, "node")
    }, and this is one process, started without mpiexec. In the job ` +
      "script, write `mpiexec hpctrain ...`, which starts the ranks on all of them (`hpctrain qsub` makes such a script); or " +
      "ask for one node. To train in one process all the same, add --world-size 1.",
  );
}

/** One host may stand there once for each core, so several lines of it are no mistake. */
export function slotsNote(env: SchedulerEnv, { launcher }: Pick<RankContext, "launcher">): string[] {
  const slots = launcher === "alone" && env.PBS_JOBID && !env.SLURM_JOB_ID ? pbsNodesIn(env).length : 0;
  return slots < 2 ? [] : [
    `PBS job ${env.PBS_JOBID} has ${slots} places on this node (PBS_NODEFILE), and this is one process: \`mpiexec hpctrain ...\` ` +
    "would start a rank in each.",
  ];
}

function refuseGpus(env: SchedulerEnv, { localWorld, launcher }: RankContext, requested: number): void {
  const gpus = whole(env.SLURM_GPUS_ON_NODE) ?? 0;
  if (gpus === 0) return; // SLURM gave none, or does not know of them
  const given = `This node gives the job ${formatPlural(gpus, "GPU")} and ${
    formatPlural(localWorld, "task")
  }`;
  if (localWorld > gpus) {
    throw new UserError(
      "usage",
      `${given}, and each rank needs a GPU of its own. In the job script: #SBATCH --ntasks-per-node=${gpus}` +
        `, or --gpus-per-node=${localWorld}. For ranks on the node's cores, add --device cpu.`,
    );
  }
  // With one visible GPU, somebody has chosen it: --gpus-per-task=1, --gpu-bind, or a variable by hand or a wrapper.
  const visible = shownOf(env, gpus);
  if (localWorld === gpus || localWorld === requested || visible <= 1) return;
  const launch = localWorld === 1 ? `, or start \`hpctrain launch -n ${gpus} -- ...\` in the one task` : "";
  const start = launcher === "alone" ? " and `srun hpctrain ...`" : "";
  throw new UserError(
    "usage",
    `${given}: ${formatPlural(gpus - localWorld, "GPU")} would be idle. In the job script: ` +
      `#SBATCH --ntasks-per-node=${gpus}${start}${launch}; or ask for fewer: --gpus-per-node=${localWorld}. ` +
      "To train so all the same, add --any-layout.",
  );
}

/** NCCL can't open the memory of GPUs that are hidden from each other, and goes through the node's. */
function refuseHidden(env: SchedulerEnv, { rank, localWorld }: RankContext): void {
  const bound = boundGpu(env), gpus = whole(env.SLURM_GPUS_ON_NODE) ?? 0;
  if (bound === null || localWorld === 1 || gpus < 2) return;
  throw new UserError(
    "usage",
    `SLURM lets rank ${rank} see ${bound} alone (--gpus-per-task=1 or --gpu-bind), so the ${gpus} GPUs of its node can't ` +
      "copy to each other, and every gradient would go through the node's memory. In the job script: " +
      `#SBATCH --gpus-per-node=${gpus} in place of --gpus-per-task, and \`srun --gpu-bind=none hpctrain ...\`: each rank ` +
      "takes the GPU of its number. To train so all the same, add --any-layout.",
  );
}

/** SLURM's job holds these GPUs while no rank computes on them. */
export function refuseIdleGpus(
  env: SchedulerEnv,
  computesOn: "cpu" | "cuda",
  why: () => string,
  request: LayoutRequest,
): void {
  const { SLURM_GPUS_ON_NODE: gpus, SLURM_JOB_ID: job } = env;
  if (computesOn !== "cpu" || request.device === "cpu" || request.anyLayout || !job || !whole(gpus)) return;
  throw new UserError(
    "environment",
    `SLURM job ${job} has ${
      formatPlural(Number(gpus), "GPU")
    } on this node, but ${why()}. \`hpctrain doctor\` in the job ` +
      "says what is missing. To train on the node's cores all the same, add --device cpu.",
  );
}

/** SLURM has bound this task to one GPU; null where it has not. */
export const boundGpu = (env: SchedulerEnv): string | null =>
  inSlurmStep(env) && /^\d+$/.test(env.SLURM_STEP_GPUS ?? "") ? `GPU ${env.SLURM_STEP_GPUS}` : null;

const tasksPerNode = ({ SLURM_TASKS_PER_NODE: counts }: SchedulerEnv): number =>
  counts ? expandCounts(counts, "SLURM_TASKS_PER_NODE").reduce((a, b) => a + b, 0) : 1;

const whole = (text: string | undefined): number | null => text && /^\d+$/.test(text) ? Number(text) : null;
