// SLURM: a job as a script for sbatch, which is tried, submitted and found again.
import { UserError } from "../../base/errors.ts";
import { quoteAll } from "../../base/shell.ts";
import { runSubmit, submit, submitRefused } from "../jobs.ts";
import {
  ADDRESSES,
  architecture,
  command,
  ENDED,
  head,
  madeBy,
  overriding,
  partly,
  REFUSE,
  sbatchLine,
  sbatchOption,
  SECRET,
  STRICT,
  surroundings,
  wrapped,
} from "./body.ts";
import { errBeside, requestSentence, type ScriptJob, slug, tasksOf } from "./job.ts";
import type { Scheduler } from "./scheduler.ts";
import { siteHint } from "./site.ts";

export const scheduler: Scheduler = {
  short: {
    "-N": "nodes",
    "-t": "time",
    "-p": "partition",
    "-A": "account",
    "-J": "job-name",
    "-q": "qos",
    "-C": "constraint",
    "-c": "cpus-per-task",
    "-x": "exclude",
  },
  needsFolder: true,
  queue: "squeue -j",
  cancel: "scancel",
  render: renderSlurm,
  output: ({ logs, name }, id) => `${logs}/slurm/${slug(name)}_${id}.out`,
  index: () => "SLURM_ARRAY_TASK_ID",
  checkFolder: refuseFolder,
  hint: siteHint,
  tryOut,
  async submit(job, path) {
    const { site: { passed } } = job;
    const around = Deno.env.get("SBATCH_EXPORT"); // it counts more than the script's own line
    const also = around && passed.length > 0 ? [`--export=${exported(around, passed)}`] : [];
    return (await submit("sbatch", ["--parsable", ...also], path, requestSentence(job))).split(";")[0];
  },
};

async function tryOut(job: ScriptJob, script: string): Promise<string> {
  const file = Deno.makeTempFileSync({ prefix: "hpctrain-", suffix: ".sh" });
  try {
    Deno.writeTextFileSync(file, script);
    const answer = await runSubmit("sbatch", ["--test-only", file]);
    if (answer && answer.code !== 0) {
      const printed = "what `hpctrain sbatch` prints without --dry-run";
      throw submitRefused("sbatch", answer, printed, requestSentence(job));
    }
    return answer
      ? `SLURM: ${answer.stderr || answer.stdout}`
      : "SLURM: not asked, there is no sbatch in PATH";
  } finally {
    Deno.removeSync(file);
  }
}

export function renderSlurm(job: ScriptJob): string {
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
    ...surroundings(job, (names) => `sbatch --export=ALL,${names} FILE`),
    ...STRICT,
    ...architecture(job),
    ...ADDRESSES,
    ...REFUSE,
    ...misplaced(),
    ...overriding(job),
    ...SECRET,
    ...madeBy(job),
    ...(job.ending.requeue ? ENDED : []),
    ...mpi(job),
    "",
    ...start(job),
    ...ending(job),
  ].join("\n") + "\n";
}

/** The submitter makes its folder, because sbatch does not. */
const slurmOutput = ({ logs, array }: ScriptJob): string => `${logs}/slurm/%x_${array ? "%A_%a" : "%j"}.out`;

/** SLURM expands %j and the like in the whole path, and can't escape a %. */
function refuseFolder(folder: string): void {
  if (!/[%\\]/.test(folder)) return;
  throw new UserError(
    "usage",
    `SLURM can't write a job's output below ${
      JSON.stringify(folder)
    }: it takes % and \\ in that path for its own signs. ` +
      "Submit from a folder without them, or give --save-dir.",
  );
}

function directives(job: ScriptJob): string[] {
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
    ["error", job.errFile && errBeside(slurmOutput(job))],
    ["open-mode", ending.openMode],
    ["mail-user", site.mail],
    ["mail-type", site.mail && site.mailType],
    ["signal", ending.signal === "none" ? "" : ending.signal],
    [ending.requeue ? "requeue" : "no-requeue", true],
  ];
  return [
    ...lines.flatMap(([name, value]) =>
      value === "" || value === 0 || value === false ? [] : [sbatchLine(name, value)]
    ),
    ...limits.more.map(sbatchOption),
    ...(site.passed.length > 0 ? [sbatchLine("export", exported(exportIn(limits.more), site.passed))] : []),
  ];
}

const exportIn = (options: readonly string[]): string | undefined =>
  options.map((option) => /^--export[= ]\s*(.*)$/.exec(option)?.[1]).findLast((value) => value !== undefined);

/** --export with these variables, beside what it is already. Names alone have the values of the shell that submits. */
function exported(given: string | undefined, passed: readonly string[]): string {
  if (given === undefined || given === "") return ["ALL", ...passed].join();
  return [...(/^(NONE|NIL)$/i.test(given) ? [] : [given]), ...passed].join();
}

/** Each family of MPI has the same name for srun everywhere. */
function mpi({ layout, site }: ScriptJob): string[] {
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
 * The job may have another size than the script says (`sbatch --nodes=4 FILE`), so srun gets every size.
 * Tasks of a job with another --export have no PATH without --export=ALL.
 */
function start(job: ScriptJob): string[] {
  const { layout, site } = job;
  const flags = (tasks: string, perNode: string) => [
    `srun --export=ALL --nodes="$nodes" --ntasks=${tasks} --ntasks-per-node=${perNode}`,
    `--cpus-per-task=${
      layout.tasks === "per-node" ? '"$SLURM_CPUS_PER_TASK"' : '"$cpus"'
    } --kill-on-bad-exit=1${layout.mpi && !["auto", ""].includes(site.mpi) ? ` --mpi=${site.mpi}` : ""}`,
    ...(site.srun.length > 0 ? [quoteAll(site.srun)] : []),
  ];
  if (layout.tasks === "per-node") {
    const own = { ...job, program: [...job.program], words: launched(job) };
    return [
      ...size(job),
      "# Each task starts the ranks of its node, which meet at the first one.",
      'first=$(scontrol show hostnames "$SLURM_JOB_NODELIST")',
      "MASTER_ADDR=${first%%$'\\n'*} MASTER_PORT=$((20000 + SLURM_JOB_ID % 12000))",
      "export MASTER_ADDR MASTER_PORT",
      ...command(own, flags('"$nodes"', "1")),
    ];
  }
  return [...size(job), ...FITTING, ...command(job, flags('"$((nodes * tasks))"', '"$tasks"'))];
}

/** `sbatch --gpus-per-node=8 FILE` brings GPUs, and no cores beside those of the script's own tasks. */
const FITTING = [
  "if ((tasks * cpus > ${SLURM_CPUS_ON_NODE:-tasks * cpus})); then",
  "  if ((tasks > SLURM_CPUS_ON_NODE)); then",
  '    refuse "$tasks ranks on each node, and this job has $SLURM_CPUS_ON_NODE cores there: sbatch --ntasks-per-node=$tasks FILE"',
  "  fi",
  "  cpus=$((SLURM_CPUS_ON_NODE / tasks))",
  '  echo "$tasks ranks share the $SLURM_CPUS_ON_NODE cores that this job has on each node, $cpus each; for" \\',
  '    "$SLURM_CPUS_PER_TASK each: sbatch --ntasks-per-node=$tasks FILE"',
  "fi",
];

function size(job: ScriptJob): string[] {
  const { layout: { gpusPerNode, ranksPerNode, tasks, gres } } = job;
  const known = gpusPerNode > 0 ? "SLURM_GPUS_ON_NODE" : "SLURM_NTASKS_PER_NODE";
  const more = gres === "" ? "--gpus-per-node=$GPUS" : `--gres=${gres.replace(/\d+$/, "$GPUS")}`;
  const also = tasks === "per-rank" ? " --ntasks-per-node=$GPUS" : "";
  return [
    `nodes=$SLURM_JOB_NUM_NODES tasks=\${${known}:-${ranksPerNode}} # on each node`,
    ...(tasks === "per-rank" ? ["cpus=$SLURM_CPUS_PER_TASK # of each rank"] : []),
    ...partly(job, { NODES: "sbatch --nodes=$NODES FILE", GPUS: `sbatch ${more}${also} FILE` }),
  ];
}

/** sbatch reads these, and --export, only before the file's name. */
const OF_SBATCH = (
  "account array begin constraint cpus-per-task dependency exclude exclusive gpus gpus-per-node gpus-per-task gres " +
  "job-name mail-type mail-user mem nodelist nodes ntasks ntasks-per-node open-mode output partition qos requeue reservation signal time"
).split(" ").map((name) => `--${name}`).concat("-[A-Za-z]");

/** The job can still set variables by itself, and refuses what it can not do. */
function misplaced(): string[] {
  return [
    "",
    "# Its own options sbatch reads before the file; behind it they are the program's words.",
    "words=()",
    "while (($# > 0)); do",
    "  word=$1",
    "  shift",
    "  case ${word%%=*} in",
    "    --export)",
    '      if [[ $word != *=* ]]; then word+="=${1:-}"; shift; fi',
    "      names=()",
    '      IFS=, read -r -a pairs <<<"${word#*=}"',
    '      for pair in "${pairs[@]}"; do',
    '        if [[ $pair =~ ^[A-Za-z_][A-Za-z0-9_]*= ]]; then export "${pair?}"; names+=("${pair%%=*}"); fi',
    "      done",
    '      echo "hpctrain: --export stands after the file, where sbatch does not read it: the job itself sets ${names[*]:-nothing} by" \\',
    '        "it. It belongs before the file: sbatch --export=ALL,NAME=VALUE FILE" ;;',
    ...wrapped("   ", OF_SBATCH.flatMap((name, i) => i === 0 ? [name] : ["|", name]), ")"),
    '      if [[ $word != *=* && ${1:--} != -* ]]; then word+=" $1"; fi',
    '      refuse "$word stands after the file, where sbatch does not read it. Submit it so: sbatch $word FILE" ;;',
    '    *) words+=("$word") ;;',
    "  esac",
    "done",
    'set -- "${words[@]}"',
  ];
}

/** `launch` starts the ranks of a node in its one task. */
function launched({ layout, words }: ScriptJob): ScriptJob["words"] {
  const ranks = layout.gpusPerNode > 0 ? { shell: '"$tasks"' } : String(layout.ranksPerNode);
  return ["launch", "-n", ranks, "--nodes", { shell: '"$nodes"' }, "--", ...words];
}

/** Code 75 means stopped on request, with a checkpoint. */
function ending({ ending: { requeue, maxRequeues }, array }: ScriptJob): string[] {
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
