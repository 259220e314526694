import { bool, choice, int, list, text } from "../setting.ts";

const SITE = "the site's own";

/** Directive lines of both schedulers can hold this. */
const WORD = { regex: /^[\w@%+=:,.()[\]*&|!<>~/-]+$/, says: "a word without blanks, quotes or #" };
const VARIABLES = "NAME=VALUE";

const size = {
  cpus_per_task: int(0, {
    min: 0,
    max: 4096,
    flag: "cpus-per-task",
    empty: "as many as it loads data with, 8 on GPUs",
    help: "cores a rank",
  }),
  tasks_per_node: int(0, {
    min: 0,
    max: 4096,
    flag: "ntasks-per-node",
    spellings: ["tasks-per-node"],
    empty: "one for each GPU; 4 in preset cpu-cluster; else 1",
    help: "ranks on each node of a job",
  }),
  layout: choice(["task-per-gpu", "task-per-node"], "task-per-gpu", {
    flag: "layout",
    help: "what the scheduler starts: each rank, or one task a node that starts the ranks there",
  }),
  gpu_type: text("", {
    flag: "gpu-type",
    empty: "any",
    help: "kind of GPU, as the site calls it",
    pattern: { regex: /^[\w.+-]+$/, says: "a name such as h100" },
  }),
  gres: text("", {
    flag: "gres",
    empty: "--gpus-per-node is written instead",
    help: "GPUs of a node as older sites write them, such as gpu:a100:4",
    pattern: { regex: /^gpu(:[\w.+-]+)?:\d+$/, says: "gpu:COUNT or gpu:TYPE:COUNT" },
  }),
  mem: text("", {
    flag: "mem",
    empty: SITE,
    help: "memory a node, such as 64G; 0 is all of it",
    pattern: { regex: /^\d+[KMGT]?B?$/i, says: "a size such as 64G" },
  }),
  time: text("", {
    flag: "time",
    spellings: ["time-limit", "walltime"],
    empty: SITE,
    help: "time limit, such as 04:00:00",
    pattern: { regex: /^(\d+-)?\d+(:\d+){0,2}$/, says: "a time such as 04:00:00 or 2-00:00:00" },
  }),
};

const place = {
  site: text("", {
    flag: "site",
    empty: "none",
    help: "the cluster that a job is for: lumi, frontier, jupiter, alps, perlmutter, leonardo, or a file",
  }),
  account: text("", {
    flag: "account",
    empty: "the user's own",
    help: "account the job is charged to",
    pattern: WORD,
  }),
  partition: text("", {
    flag: "partition",
    aliases: ["cluster.queue"],
    empty: SITE,
    help: "partition or queue",
    pattern: WORD,
  }),
  qos: text("", { flag: "qos", empty: SITE, help: "quality of service (SLURM)", pattern: WORD }),
  constraint: text("", {
    flag: "constraint",
    empty: "any node",
    help: "features that nodes must have (SLURM)",
    pattern: WORD,
  }),
  exclude: text("", {
    flag: "exclude",
    empty: "none",
    help: "nodes to stay away from, such as node[3-4] (SLURM)",
    pattern: WORD,
  }),
  reservation: text("", { flag: "reservation", empty: "none", help: "reservation to run in", pattern: WORD }),
  exclusive: bool(false, { flag: "exclusive", help: "share the job's nodes with no other job" }),
};

const about = {
  job_name: text("", { flag: "job-name", empty: "the run's name", help: "name of the job in the queue" }),
  mail: text("", {
    flag: "mail-user",
    aliases: ["cluster.mail_user"],
    empty: "nobody",
    help: "who gets mail at the job's end",
    pattern: WORD,
  }),
  mail_type: text("END,FAIL", { flag: "mail-type", help: "when they get mail, in SLURM's words" }),
};

const ending = {
  signal: text("USR1@120", {
    flag: "signal",
    help: "signal and seconds before the time limit at which SLURM asks the run to stop; none: never",
    pattern: {
      regex: /^(none|(R:)?[A-Z]+[12]?@\d+)$/,
      says: "a signal and seconds such as USR1@120, or none",
    },
  }),
  stop_signals: list({
    flag: "stop-signals",
    empty: "USR1, USR2, TERM, INT",
    help: "signals that ask a run to stop after a save",
  }),
  watch_time: bool(true, {
    flag: "watch-time",
    help: "ask the scheduler how much time is left, and stop after a save when it is nearly over",
  }),
  requeue: bool(true, {
    flag: "requeue",
    help: "put the job back in the queue when it was stopped with a checkpoint, or its node was lost",
  }),
  max_requeues: int(100, {
    min: 0,
    max: 1e6,
    flag: "max-requeues",
    help: "most times a job that was stopped goes back to the queue",
  }),
  open_mode: choice(["append", "truncate"], "append", {
    flag: "open-mode",
    help: "what a job that starts again does with the output it has: append to it, or begin an empty one",
  }),
};

const script = {
  err_file: bool(false, {
    flag: "err-file",
    help: "what a job writes to stderr goes into a .err file of its own, beside the .out",
  }),
  modules: list({ flag: "modules", empty: "none", help: "modules the job loads first" }),
  env: list({
    empty: "none",
    help:
      `variables the job sets (${VARIABLES}) or takes from your shell (NAME); also --env, may be repeated`,
  }),
  setup: list({
    empty: "none",
    help: "lines of shell the job begins with; also --setup, which may be repeated",
  }),
  sbatch_args: list({
    empty: "none",
    help: "more options for SLURM, such as --nice=100; also --sbatch-arg, which may be repeated",
  }),
  srun_args: list({
    empty: "none",
    help: "more options for srun, such as --cpu-bind=cores; also --srun-arg, which may be repeated",
  }),
  qsub_args: list({
    empty: "none",
    help: "more options for PBS, such as -l software=x; also --qsub-arg, which may be repeated",
  }),
  mpi: text("auto", {
    flag: "mpi",
    help: "how srun starts MPI, as `srun --mpi=list` calls it; auto is the site's way, or what the MPI needs",
    pattern: { regex: /^[\w.-]+$/, says: "a word such as pmix or pmi2" },
  }),
  pbs: choice(["pro", "torque"], "pro", {
    flag: "pbs",
    help: "which PBS: PBS Pro and OpenPBS (select), or Torque (nodes:ppn)",
  }),
  pbs_launch: choice(["mpiexec", "pals", "pbsdsh"], "mpiexec", {
    flag: "pbs-launch",
    help:
      "what starts ranks under PBS: mpiexec of Open MPI, MPICH or Intel; that of PALS (Cray); or PBS itself",
  }),
  place: text("", {
    flag: "place",
    empty: "scatter, with more than one node",
    help: "how PBS Pro spreads the job over nodes",
    pattern: WORD,
  }),
};

export const cluster = { ...size, ...place, ...about, ...ending, ...script };
