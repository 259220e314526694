// A job as a script for sbatch: pure, the same script for the same job. May import errors, its siblings.
import { UserError } from "../../errors.ts";
import { command, ENDED, head, overriding, SECRET, STRICT, surroundings } from "./body.ts";
import { sbatchLine, sbatchOption } from "./directive.ts";
import { type Job, slug, tasksOf } from "./job.ts";

export function renderSlurm(job: Job): string {
  const file = "sbatch FILE";
  return [
    ...head(job, [
      `Submit it with \`${file}\`${
        job.overrides.length > 0 ? ", or with changes: `sbatch --export=ALL,EPOCHS=200,LR=1e-4 FILE`." : "."
      }`,
    ]),
    ...directives(job),
    "",
    ': "${SLURM_JOB_ID:?is not set. Submit this script with sbatch}"',
    ...surroundings(job),
    ...STRICT,
    ...overriding(job),
    ...SECRET,
    ...(job.ending.requeue ? ENDED : []),
    ...mpi(job),
    "",
    ...start(job),
    ...ending(job),
  ].join("\n") + "\n";
}

/** Where sbatch writes what the job prints; nothing makes this folder but who submits. */
export const slurmOutput = ({ logs, array }: Job): string => `${logs}/slurm/%x_${array ? "%A_%a" : "%j"}.out`;

/** In the whole path of its output SLURM takes %j and the like for what it puts in, and knows no way to say a % itself. */
export function refuseFolder(folder: string): void {
  if (!/[%\\]/.test(folder)) return;
  throw new UserError(
    "usage",
    `SLURM can't write a job's output below ${
      JSON.stringify(folder)
    }: it takes % and \\ in that path for its own signs. ` +
      "Submit from a folder without them, or give --save-dir.",
  );
}

function directives(job: Job): string[] {
  const { layout, limits, ending, site, array } = job;
  const { perNode, cpus } = tasksOf(layout);
  const gpus = layout.gpusPerNode > 0 && layout.gres === "" ? layout.gpusPerNode : 0;
  const lines: [string, string | number | boolean][] = [
    ["job-name", slug(job.name)],
    ["nodes", layout.nodes],
    ["ntasks-per-node", perNode],
    ["gpus-per-node", gpus && (layout.gpuType ? `${layout.gpuType}:${gpus}` : gpus)],
    ["gres", layout.gres],
    ["cpus-per-task", cpus],
    ["mem", limits.mem],
    ["time", limits.time],
    ["partition", limits.partition],
    ["account", limits.account],
    ["qos", limits.qos],
    ["constraint", limits.constraint],
    ["exclude", limits.exclude],
    ["reservation", limits.reservation],
    ["exclusive", limits.exclusive],
    ["array", array ? `0-${array.last}${array.atOnce ? `%${array.atOnce}` : ""}` : ""],
    ["output", slurmOutput(job)],
    ["open-mode", ending.openMode],
    ["mail-user", site.mail],
    ["mail-type", site.mail && site.mailType],
    ["signal", ending.signal === "none" ? "" : ending.signal],
    [ending.requeue ? "requeue" : "no-requeue", true],
  ];
  return [
    ...lines.filter(([, value]) => value !== "" && value !== 0 && value !== false)
      .map(([name, value]) => sbatchLine(name, value as string | number | true)),
    ...limits.more.map(sbatchOption),
  ];
}

/** srun has to speak MPI's language, and how each family's is called is the same everywhere. */
function mpi({ layout, site }: Job): string[] {
  if (!layout.mpi || layout.tasks === "per-node" || site.mpi !== "auto") return [];
  return [
    "",
    "# Ranks on CPUs talk by MPI. Where the site has not said how srun starts it, its family decides.",
    "if [[ -z ${SLURM_MPI_TYPE:-} ]] && scontrol show config | grep '^MpiDefault *= none' >/dev/null; then",
    "  SLURM_MPI_TYPE=pmi2",
    "  if command -v ompi_info >/dev/null; then SLURM_MPI_TYPE=pmix; fi",
    "  export SLURM_MPI_TYPE",
    "fi",
  ];
}

/**
 * The job may have been given another size than the script says (`sbatch --nodes=4 FILE`), and srun would take its
 * number of tasks from what is left in the environment: so all of it is said. --export=ALL is for jobs that were
 * submitted with another --export, whose tasks would have no PATH.
 */
function start(job: Job): string[] {
  const { layout, site, overrides } = job;
  const sized = overrides.length > 0;
  const nodes = sized ? "${NODES:-$SLURM_JOB_NUM_NODES}" : "$SLURM_JOB_NUM_NODES";
  const flags = (tasks: string, perNode: string) => [
    `srun --export=ALL --nodes="$nodes" --ntasks=${tasks} --ntasks-per-node=${perNode}`,
    `--cpus-per-task="$SLURM_CPUS_PER_TASK" --kill-on-bad-exit=1${
      layout.mpi && !["auto", ""].includes(site.mpi) ? ` --mpi=${site.mpi}` : ""
    }`,
  ];
  if (layout.tasks === "per-node") {
    const own = { ...job, program: [...job.program], words: launched(job) };
    return [
      `nodes=${nodes}`,
      "# Each task starts the ranks of its node, which meet at the first one.",
      'first=$(scontrol show hostnames "$SLURM_JOB_NODELIST")',
      "MASTER_ADDR=${first%%$'\\n'*} MASTER_PORT=$((20000 + SLURM_JOB_ID % 12000))",
      "export MASTER_ADDR MASTER_PORT",
      ...command(own, flags('"$nodes"', "1")),
    ];
  }
  const known = layout.gpusPerNode > 0 ? "SLURM_GPUS_ON_NODE" : "SLURM_NTASKS_PER_NODE";
  const counted = `\${${known}:-${layout.ranksPerNode}}`;
  const tasks = sized && layout.gpusPerNode > 0 ? `\${GPUS:-${counted}}` : counted;
  return [
    `nodes=${nodes}`,
    `tasks=${tasks} # on each node`,
    ...command(job, flags('"$((nodes * tasks))"', '"$tasks"')),
  ];
}

/** The ranks of a node are started by `launch` in its one task. */
function launched({ layout, words, overrides }: Job): Job["words"] {
  const ranks = overrides.length > 0 && layout.gpusPerNode > 0
    ? { shell: `"\${GPUS:-\${SLURM_GPUS_ON_NODE:-${layout.ranksPerNode}}}"` }
    : String(layout.ranksPerNode);
  return ["launch", "-n", ranks, "--nodes", { shell: '"$nodes"' }, "--", ...words];
}

/** Code 75: stopped on request, with a checkpoint to go on from. */
function ending({ ending: { requeue, maxRequeues }, array }: Job): string[] {
  if (!requeue) return ['exit "$code"'];
  // In an array SLURM_JOB_ID can be the number of the whole array.
  const id = array ? '"${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID"' : '"$SLURM_JOB_ID"';
  return [
    "",
    "# 75: it stopped on request, with a checkpoint to go on from.",
    `if [[ -s $HPCTRAIN_ENDED ]]; then echo "Not going back to the queue: $(<"$HPCTRAIN_ENDED")."`,
    `elif ((code == 75 && \${SLURM_RESTART_COUNT:-0} < ${maxRequeues})); then`,
    '  echo "Going back to the queue, to go on from the checkpoint."',
    `  scontrol requeue ${id} || echo "That failed. By hand: sbatch FILE --resume auto"`,
    "fi",
    'rm -f -- "$HPCTRAIN_ENDED"',
    'exit "$code"',
  ];
}
