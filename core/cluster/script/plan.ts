// Plans a job from settings and options, or refuses it; and prints what it requests and what each step trains
// on.
import { join } from "../../../deps/path.ts";
import { type Env, variableOf } from "../../settings/environment.ts";
import { checkLayout, loadPreset } from "../../settings/presets.ts";
import type { Resolved } from "../../settings/resolve.ts";
import { ALL_SETTINGS, type Config } from "../../settings/settings.ts";
import { HIDDEN, withoutValue } from "../../base/secrets.ts";
import { UserError } from "../../base/errors.ts";
import { formatPlural } from "../../base/format.ts";
import { type JobLayout, type JobLimits, type JobSite, type ScriptJob, tasksOf } from "./job.ts";
import { overridesOf, srunOption, uselessFor } from "./body.ts";
import { VERSION } from "../../base/version.ts";
import { type JobOptions, UNTOUCHED } from "./options.ts";
import { COMMANDS, type SchedulerName } from "./scheduler.ts";
import { planBatches } from "../../train/batches.ts";
import { rateLine } from "../../train/schedule.ts";

interface JobRequest {
  readonly resolved: Resolved;
  readonly options: JobOptions;
  /** The words of the command that makes it. */
  readonly argv: readonly string[];
  readonly program: readonly string[];
  readonly env: Env;
  readonly scheduler: SchedulerName;
}

export function planJob({ resolved, options, argv, program, env, scheduler }: JobRequest): ScriptJob {
  const { command, words, job, own } = options, submits = COMMANDS[scheduler];
  const typed = argv.filter((word) => !["--submit", "--dry-run"].includes(word));
  const { cluster, output } = resolved.config;
  const trains = command === "train";
  const layout = layoutOf(resolved, command);
  const args = scheduler === "slurm" ? cluster.sbatch_args : cluster.qsub_args;
  return {
    made: { version: VERSION, command: ["hpctrain", submits, ...typed], architecture: Deno.build.arch },
    jobFlags: [
      ...job,
      ...UNTOUCHED.flatMap((name) => (own[name] ?? []).map((value) => `--${name}=${value}`)),
    ],
    name: cluster.job_name || output.run_name || resolved.preset ||
      (trains ? resolved.config.model.name : command),
    program,
    words: [command, ...words],
    overrides: overridesOf(command, resolved),
    useless: uselessFor(command),
    gaveWay: resolved.overruled.flatMap(({ variable: name }): [string, string][] =>
      env[name] === undefined ? [] : [[name, env[name]]]
    ),
    inherited: inheritedFrom(resolved, env, trains || command === "eval"),
    layout,
    limits: limitsOf(cluster, [...args, ...(own[`${submits}-arg`] ?? [])]),
    site: siteOf(cluster, own),
    ending: {
      signal: cluster.signal,
      requeue: cluster.requeue,
      maxRequeues: cluster.max_requeues,
      openMode: cluster.open_mode,
    },
    logs: join(output.save_dir, "logs"),
    errFile: cluster.err_file,
  };
}

interface Kind {
  readonly nodes: number;
  readonly gpus: number;
  readonly ranks: number;
}

const KINDS: Readonly<Record<string, Kind>> = {
  "single-gpu": { nodes: 1, gpus: 1, ranks: 1 },
  "multi-gpu": { nodes: 1, gpus: 4, ranks: 4 },
  "multi-node": { nodes: 2, gpus: 4, ranks: 4 },
  "cpu-cluster": { nodes: 2, gpus: 0, ranks: 4 },
};
const CPUS = { gpu: 8, "cpu-cluster": 4, other: 4 } as const;

function layoutOf(resolved: Resolved, command: string): JobLayout {
  const { config, preset, origin, originText } = resolved;
  const { cluster, distributed, training } = config;
  const wantsGpu = command === "train" && training.device === "cuda";
  const kind = KINDS[preset ?? ""] ?? { nodes: 1, gpus: wantsGpu ? 1 : 0, ranks: 1 };
  const [, gresType, gresCount] = /^gpu(?::(.+))?:(\d+)$/.exec(cluster.gres) ?? [];
  refuseTwoGpus(config, gresType, gresCount);
  const requested = distributed.gpus_per_node || Number(gresCount ?? 0);
  const gpus = requested || (command === "train" || cluster.tasks_per_node === 0 ? kind.gpus : 0);
  const nodes = distributed.nodes || kind.nodes;
  const perNode = cluster.layout === "task-per-node";
  // One task a node may be meant in SLURM's own words.
  const oneTask = perNode && cluster.tasks_per_node === 1 && gpus > 0;
  const ranks = (oneTask ? 0 : cluster.tasks_per_node) || gpus || kind.ranks;
  if (gpus > 0 && ranks !== gpus) throw ranksAndGpus(ranks, gpus, originText("distributed.gpus_per_node"));
  if (gpus > 0 && training.device === "cpu" && command === "train") {
    throw noUse(gpus, originText("training.device"));
  }
  if (wantsGpu && gpus === 0) throw noGpu(originText("training.device"));
  const mpi = gpus === 0 && nodes * ranks > 1 && ["train", "bench", "doctor"].includes(command);
  if (command === "train" && preset !== null && !distributed.any_layout) {
    const device = gpus > 0 ? "cuda" : "cpu";
    checkLayout(loadPreset(preset), { nodes, ranks: nodes * ranks, device });
  }
  const loaders = origin("data.num_workers").kind === "flag" ? config.data.num_workers : 0;
  const cpus = gpus > 0 ? CPUS.gpu : CPUS[preset === "cpu-cluster" ? preset : "other"];
  return {
    nodes,
    ranksPerNode: ranks,
    tasks: perNode ? "per-node" : "per-rank",
    gpusPerNode: gpus,
    gpuType: cluster.gpu_type,
    gres: cluster.gres,
    cpusPerRank: cluster.cpus_per_task || Math.max(loaders, loaders > 0 ? 1 : cpus),
    mpi,
  };
}

function limitsOf(cluster: Config["cluster"], more: readonly string[]): JobLimits {
  const { time, mem, partition, account, qos, constraint, exclude, reservation, exclusive } = cluster;
  return {
    time,
    mem: mem.replace(/B$/i, ""),
    partition,
    account,
    qos,
    constraint,
    exclude,
    reservation,
    exclusive,
    more,
  };
}

function siteOf(cluster: Config["cluster"], own: JobOptions["own"]): JobSite {
  const all = [...cluster.env, ...(own.env ?? [])];
  for (const pair of all) refuseVariable(pair);
  return {
    modules: cluster.modules,
    env: all.filter((pair) => pair.includes("=")),
    passed: [...new Set(all.filter((pair) => !pair.includes("=")))],
    setup: [...cluster.setup, ...(own.setup ?? [])],
    mail: cluster.mail,
    mailType: cluster.mail_type,
    mpi: cluster.mpi,
    srun: [...cluster.srun_args, ...(own["srun-arg"] ?? [])].map(srunOption),
    pbs: { dialect: cluster.pbs, launch: cluster.pbs_launch, place: cluster.place },
  };
}

function refuseVariable(pair: string): void {
  const [, name, value] = /^([A-Za-z_]\w*)(?:=(.*))?$/s.exec(pair) ?? [];
  if (name === undefined) {
    throw new UserError(
      "usage",
      `cluster.env (--env) takes NAME=VALUE, such as NCCL_DEBUG=WARN, or NAME alone, whose value the job gets from the ` +
        `shell that submits it, but got "${withoutValue(pair)}".`,
    );
  }
  if (value !== HIDDEN) return;
  throw new UserError(
    "usage",
    `cluster.env (--env) has ${name} without its value, as secrets are printed: give the value again, or ${name} alone, ` +
      "whose value the job gets from the shell that submits it.",
  );
}

/** These are not settings, but belong to this machine's user. */
const OURS = [
  "HPCTRAIN_PRESET",
  "HPCTRAIN_CONFIG",
  "HPCTRAIN_CACHE",
  "HPCTRAIN_MPI",
  "HPCTRAIN_TRACE_ERRORS",
];

/** A job that is submitted with another --export inherits none of these. */
function inheritedFrom({ origin }: Resolved, env: Env, settings: boolean): [string, string][] {
  const given = ALL_SETTINGS.filter(({ path }) =>
    settings ? !/^(cluster|distributed)\./.test(path) : path === "environment.libtorch"
  )
    .map(({ path }) => variableOf(origin(path)))
    .filter((name) => name !== null);
  return [...new Set([...(settings ? OURS : OURS.slice(2)), ...given])]
    .flatMap((name): [string, string][] => env[name] ? [[name, env[name]]] : []);
}

function refuseTwoGpus(
  { cluster, distributed }: Config,
  type: string | undefined,
  count: string | undefined,
): void {
  const { gres, gpu_type } = cluster;
  if (count !== undefined && distributed.gpus_per_node > 0 && Number(count) !== distributed.gpus_per_node) {
    throw new UserError(
      "usage",
      `--gres ${gres} and --gpus-per-node ${distributed.gpus_per_node} ask for different numbers of GPUs. Give one of the two.`,
    );
  }
  if (type !== undefined && gpu_type !== "" && type !== gpu_type) {
    throw new UserError(
      "usage",
      `--gres ${gres} and --gpu-type ${gpu_type} name different GPUs. Give one of the two.`,
    );
  }
  if (gpu_type !== "" && gres !== "" && type === undefined) {
    throw new UserError(
      "usage",
      `--gpu-type ${gpu_type} belongs into --gres here: --gres gpu:${gpu_type}:${count}.`,
    );
  }
}

const ranksAndGpus = (ranks: number, gpus: number, origin: string) =>
  new UserError(
    "usage",
    `--ntasks-per-node ${ranks} and ${
      formatPlural(gpus, "GPU")
    } on each node (${origin}): a rank has one GPU, so ` +
      (ranks === 1
        ? "give --layout task-per-node for one task that starts them all, or leave --ntasks-per-node out."
        : `the two must be the same. Give --gpus-per-node ${ranks}, or leave --ntasks-per-node out.`),
  );

const noUse = (gpus: number, origin: string) =>
  new UserError(
    "usage",
    `The job asks for ${
      formatPlural(gpus, "GPU")
    } a node, and ${origin} computes on CPUs. Leave the GPUs out ` +
      "(--preset cpu-cluster), or the device.",
  );

const noGpu = (origin: string) =>
  new UserError(
    "usage",
    `${origin} computes on GPUs, and the job asks for none. Add --gpus-per-node 4, say.`,
  );

/** Throws where the numbers can't be, such as a batch larger than the data. */
export function arithmetic(job: ScriptJob, trains: Pick<Resolved, "config" | "originText"> | null): string[] {
  const { layout, limits } = job;
  const { nodes, ranksPerNode, gpusPerNode, gpuType } = layout;
  const { perNode, cpus, all } = tasksOf(layout);
  const world = nodes * ranksPerNode;
  const gpus = gpusPerNode > 0
    ? `, ${formatPlural(gpusPerNode, `${gpuType}${gpuType && " "}GPU`)} on each (${
      nodes * gpusPerNode
    } in all)`
    : "";
  return [
    `Nodes: ${formatPlural(nodes, "node")}${gpus}`,
    `Tasks: ${formatPlural(perNode, "task")} on each node, ${all} in all; ${formatPlural(world, "rank")}`,
    `Cores: ${cpus} a task, ${perNode * cpus} on each node, ${all * cpus} in all`,
    `Memory: ${
      limits.mem === ""
        ? "the site's own for a node"
        : limits.mem === "0"
        ? "all of each node"
        : memoryText(limits.mem, nodes)
    }`,
    `Time: ${limits.time || "the site's own limit"}`,
    ...(trains ? trainingLines(trains, world) : []),
  ];
}

function memoryText(mem: string, nodes: number): string {
  const [, count, unit] = /^(\d+)(.*)$/.exec(mem)!;
  return `${count}${unit || "M"} on each node, ${Number(count) * nodes}${unit || "M"} in all`;
}

/** Only the job sees how many samples files have. */
function trainingLines(
  { config, originText }: Pick<Resolved, "config" | "originText">,
  world: number,
): string[] {
  const { training, data } = config;
  const made = data.data_path === "";
  const plan = planBatches(training, made ? data.train_samples : Number.MAX_SAFE_INTEGER, world);
  return [
    made ? plan.note : plan.note.replace(/, [^,]*$/, ""),
    rateLine(training, plan.global, originText),
  ];
}
