// `hpctrain launch`: several ranks on this node, under one supervisor.
import { findLibtorch } from "../../ffi/libraries/find.ts";
import { thisProgram } from "../../core/base/shell.ts";
import {
  looksLikeFlag,
  splitFlag,
  splitOwnOptions,
  takeValue,
  unknownFlag,
} from "../../core/settings/options.ts";
import { resolveSettings } from "../../core/settings/resolve.ts";
import { didYouMean } from "../../core/base/suggest.ts";
import { cpuCount, ownTopology, shareCores, type Topology } from "../../core/base/topology.ts";
import { gpuCount, oneGpu } from "../../core/base/gpus.ts";
import { type MpiEngine, mpiEngine, type MpiLauncher } from "../../core/ranks/engines.ts";
import type { NodePorts } from "../../core/ranks/launch/start.ts";
import { secretOf } from "../../core/ranks/launch/pmi.ts";
import { supervise } from "../../core/ranks/launch/supervise.ts";
import { type SettingChoice, settingChoice } from "../../core/settings/values.ts";
import { EXIT, UserError } from "../../core/base/errors.ts";
import { formatPlural } from "../../core/base/format.ts";
import { loadCommand } from "../mod.ts";
import { SOURCE_FLAGS } from "../../core/settings/flags.ts";
import { FLAGS } from "../../core/settings/settings.ts";
import { type Env, inSlurmStep, wholeVariable } from "../../core/ranks/launchers.ts";

type Variables = Record<string, string>;

/** Commands whose ranks share work. */
const STARTS = ["train", "predict", "doctor", "bench", "pack", "generate-data"];

export async function launch(argv: string[]): Promise<number> {
  const env = Deno.env.toObject();
  const request = readLaunchOptions(argv, env);
  const words = commandOf(request.words);
  const say = (line: string) => console.error(`hpctrain: ${line}`);
  if (request.aside) {
    say(
      `Task ${env.SLURM_PROCID} of the step starts nothing: --nodes ${request.nodes} is one launch on each node, and task 0 of ` +
        "this node starts its ranks. #SBATCH --ntasks-per-node=1 is all that it takes.",
    );
    return EXIT.done;
  }
  const gpus = gpuCount(env), places = gpus * request.ranksPerGpu;
  const topology = ownTopology();
  const talking = ["train", "predict", "doctor", "bench"].includes(words[0]);
  const settings = request.ranks === null && talking ? await settingsOf(words, 1, gpus, env) : null;
  const forCpus = settings !== null && !settings.onGpus;
  const ranks = request.ranks ?? (settings?.gpusPerNode || null);
  const local = localRanks({ ranks }, forCpus ? 0 : places, topology);
  const world = local * request.nodes;
  const { onGpus, backend, requested } = talking
    ? await settingsOf(words, world, gpus, env)
    : { onGpus: false, backend: "gloo" as const, requested: null };
  if (onGpus) refuseTooMany(local, gpus, request.ranksPerGpu, env);
  const mayUseMpi = !onGpus && world > 1 && (backend === "auto" || backend === "mpi");
  const { mpi, across } = mayUseMpi
    ? await mpiFor(request, local, env, backend === "mpi" ? requested : null)
    : WITHOUT_MPI;
  const { cores, description: shares } = shareCores(topology, local);
  const json = words.includes("--json") || words.includes("--quiet");
  if (!json) {
    const by = mpi ? `, by ${mpi.command[0]}` : "";
    const where = request.nodes > 1 ? ` on node ${request.nodeRank} of ${request.nodes}` : "";
    say(`Starting ${formatPlural(local, onGpus ? "GPU rank" : "rank")}${where}${by}; ${shares}.`);
  }
  const called = ["launch", ...request.own];
  const first = request.nodeRank * local;
  const numbers = Array.from({ length: local }, (_, k) => first + k);
  const { nodeRank: node, nodes, master, maxRestarts } = request;
  const shared = onGpus && request.ranksPerGpu > 1 ? sharedGpus(request, env) : null;
  return await supervise(
    {
      ranks: numbers,
      world,
      node,
      nodes,
      master,
      called,
      program: thisProgram(),
      cores,
      mpi,
      across,
      gpus: shared,
      env,
    },
    words,
    maxRestarts,
    say,
  );
}

/** Flags alone are train's, as everywhere. */
function commandOf(words: readonly string[]): string[] {
  const [first] = words;
  if (first === undefined || looksLikeFlag(first)) return ["train", ...words];
  if (STARTS.includes(first)) return [...words];
  throw new UserError(
    "usage",
    `launch starts ${STARTS.join(", ")}, but "${first}" was given.${
      didYouMean(first, STARTS)
    } Usage: ${LAUNCH_USAGE}`,
  );
}

export function localRanks(
  { ranks }: Pick<LaunchOptions, "ranks">,
  gpus: number,
  { domains }: Topology,
): number {
  if (typeof ranks === "number") return ranks;
  const several = domains.length > 1;
  if (ranks === "numa" || (ranks !== "cpu" && ranks !== "gpu" && gpus === 0 && several)) {
    return domains.length;
  }
  if (ranks === "cpu" || (ranks === "auto" && gpus === 0)) return cpuCount();
  if (gpus > 0) return gpus;
  if (ranks === null) {
    throw new UserError(
      "usage",
      "launch needs the number of ranks, because this machine has no GPU and one NUMA domain: -n N. " +
        `Usage: ${LAUNCH_USAGE}`,
    );
  }
  throw new UserError(
    "environment",
    "--nproc-per-node gpu, but this node shows no GPU (no /dev/nvidia0 and no /dev/kfd, or CUDA_VISIBLE_DEVICES or ROCR_VISIBLE_DEVICES is empty). Give a number.",
  );
}

/** Wrong settings are refused here, once, before any rank starts. */
async function settingsOf([name, ...words]: string[], ranks: number, gpus: number, env: Variables) {
  const { options = {}, positionals } = await loadCommand(name);
  const argv = splitOwnOptions(words, options).rest;
  const { config, origin } = resolveSettings({ argv, env, ranks, positionals });
  const { training, environment, distributed: { backend, gpus_per_node: gpusPerNode } } = config;
  const usable = () =>
    (findLibtorch({ explicit: environment.libtorch || undefined }).chosen?.gpu ?? null) !== null;
  const onGpus = training.device === "auto" ? gpus > 0 && usable() : training.device === "cuda";
  const requested = settingChoice("distributed.backend", backend, origin("distributed.backend"));
  return { onGpus, backend, requested, gpusPerNode };
}

function refuseTooMany(local: number, gpus: number, perGpu: number, env: Variables): void {
  if (local <= gpus * perGpu || gpus === 0 || env.NCCL_MULTI_RANK_GPU_ENABLE === "1") return;
  const count = formatPlural(gpus, "GPU"), requested = perGpu > 1 ? ` --ranks-per-gpu ${perGpu}` : "";
  throw new UserError(
    "usage",
    `-n ${local}${requested}, but this node shows ${count}: give -n ${gpus * perGpu}, --ranks-per-gpu ${
      Math.ceil(local / gpus)
    } for ranks that share a GPU, or --device cpu for ranks on its cores.`,
  );
}

/** Each rank sees its GPU alone. NCCL refuses two ranks on one GPU of a host, and takes each of these for a host of its own. */
const sharedGpus = ({ nodes, ranksPerGpu }: LaunchOptions, env: Variables) => (local: number): Variables => ({
  ...oneGpu(env, Math.floor(local / ranksPerGpu)),
  NCCL_HOSTID: `${Deno.hostname()}-${local}`,
  ...(nodes === 1 && !env.NCCL_SOCKET_IFNAME ? { NCCL_SOCKET_IFNAME: "lo" } : {}),
});

interface ByMpi {
  readonly mpi: MpiLauncher | null;
  readonly across: NodePorts | null;
}

/** Ranks find each other by themselves then, and communicate by shared memory or TCP. */
const WITHOUT_MPI: ByMpi = { mpi: null, across: null };

/** `requested`: somebody wants it. Without it ranks do with less, unless what was named can't be used. */
async function mpiFor(
  request: LaunchOptions,
  local: number,
  env: Variables,
  requested: SettingChoice | null,
): Promise<ByMpi> {
  // Ranks of several nodes can know each other by a file, and their launchers by a secret alone.
  if (request.nodes > 1 && !requested && !env.HPCTRAIN_SECRET) return WITHOUT_MPI;
  try {
    const engine = await mpiEngine();
    return request.nodes > 1
      ? { mpi: null, across: acrossNodes(engine, request, local, env, requested) }
      : { mpi: engine.launcher(env, requested), across: null };
  } catch (error) {
    const lacking = error instanceof UserError && error.kind === "environment";
    if (requested || env.HPCTRAIN_MPI || !lacking) throw error;
    return WITHOUT_MPI;
  }
}

/** We are MPI's launcher then, in the language of MPICH's family; Open MPI's has daemons of its own on every node. */
function acrossNodes(
  { find }: MpiEngine,
  request: LaunchOptions,
  local: number,
  env: Variables,
  requested: SettingChoice | null,
): NodePorts {
  const { chosen } = find({ ...env, PMI_SIZE: "1" });
  if (chosen && chosen.abi !== "openmpi") return { library: chosen, secret: secretOf(env) };
  const { nodes, words } = request;
  const flags = words.join(" ");
  throw new UserError(
    "environment",
    `${
      requested ? `${requested.by}: ` : ""
    }launch starts ranks on several nodes with a library of MPICH's family, which was not found ` +
      `here${
        chosen ? " (but Open MPI)" : ""
      }: \`hpctrain libtorch install mpich\` downloads one. Or the site's own ` +
      `launcher starts them: \`srun --nodes=${nodes} --ntasks-per-node=${local} hpctrain ${flags}\`, or ` +
      `\`mpirun -n ${nodes * local} hpctrain ${flags}\` in an allocation of ${nodes} nodes.`,
  );
}

interface LaunchOptions {
  /** Null where none is given: one on each GPU, or on each of several NUMA domains. */
  readonly ranks: number | "gpu" | "cpu" | "numa" | "auto" | null;
  readonly nodes: number;
  readonly nodeRank: number;
  readonly master: { readonly host: string; readonly port: number } | null;
  readonly maxRestarts: number;
  /** So many ranks compute on each GPU. */
  readonly ranksPerGpu: number;
  /** Another task of this node's step starts its ranks. */
  readonly aside: boolean;
  /** launch's own flags, in their order; and the command of the ranks. */
  readonly own: readonly string[];
  readonly words: readonly string[];
}

const LAUNCH_USAGE =
  "hpctrain launch [-n N] [--nodes M --node-rank K --rendezvous HOST:PORT --max-restarts R] -- [FLAGS]";

type Name =
  | "ranks"
  | "gpus"
  | "nodes"
  | "node-rank"
  | "rendezvous"
  | "master-addr"
  | "master-port"
  | "max-restarts"
  | "ranks-per-gpu";

const SPELLINGS: Readonly<Record<string, Name | "nothing" | "bare">> = {
  n: "ranks",
  np: "ranks",
  "nproc-per-node": "ranks",
  "gpus-per-node": "gpus",
  nodes: "nodes",
  nnodes: "nodes",
  "node-rank": "node-rank",
  rendezvous: "rendezvous",
  "rdzv-endpoint": "rendezvous",
  "master-addr": "master-addr",
  "master-port": "master-port",
  "max-restarts": "max-restarts",
  "ranks-per-gpu": "ranks-per-gpu",
  // torchrun's flags without a meaning here: one job is one supervisor a node, and one node needs no meeting
  // place.
  "rdzv-id": "nothing",
  "rdzv-backend": "nothing",
  "monitor-interval": "nothing",
  standalone: "bare",
};

const KNOWN = ["nproc-per-node", "nodes", "node-rank", "rendezvous", "max-restarts", "ranks-per-gpu"];

const PORT = 29500; // torchrun's

export function readLaunchOptions(argv: readonly string[], env: Env): LaunchOptions {
  const { given, own, words } = split(argv);
  const nodes = nodeCount(given.nodes ?? "1");
  const nodeRank = whole("--node-rank", given["node-rank"] ?? nodeRankIn(env, nodes), 0);
  if (nodeRank >= nodes) {
    throw new UserError(
      "usage",
      `--node-rank ${nodeRank} of --nodes ${nodes}: nodes are numbered from 0 to ${nodes - 1}.`,
    );
  }
  return {
    ranks: ranksOf(given),
    nodes,
    nodeRank,
    master: masterOf(given, nodes, env),
    maxRestarts: whole("--max-restarts", given["max-restarts"] ?? "0", 0),
    ranksPerGpu: whole("--ranks-per-gpu", given["ranks-per-gpu"] ?? "1", 1),
    aside: given["node-rank"] === undefined && standsAside(env, nodes),
    own,
    words,
  };
}

/** launch's flags stand anywhere before `--`, beside those of the command. */
function split(argv: readonly string[]) {
  const given: Partial<Record<Name, string>> = {};
  const own: string[] = [], words: string[] = [], rest = [...argv];
  for (let word = rest.shift(); word !== undefined; word = rest.shift()) {
    if (word === "--") {
      own.push(word);
      words.push(...rest.splice(0));
      break;
    }
    const { name, value } = splitFlag(word), flag = looksLikeFlag(word);
    const is = flag && Object.hasOwn(SPELLINGS, name) ? SPELLINGS[name] : undefined;
    if (is === undefined) {
      // No command stands before `--`, so this is a flag of train's or of nobody's.
      const nobodys = flag && !FLAGS.has(name) && !Object.hasOwn(SOURCE_FLAGS, name) && rest.includes("--");
      if (nobodys && words.every(looksLikeFlag)) throw unknownFlag(word, KNOWN, LAUNCH_USAGE);
      words.push(word);
      continue;
    }
    own.push(word);
    if (is === "bare") continue;
    const text = value ?? takeValue(name, rest, `a value. Usage: ${LAUNCH_USAGE}`);
    if (value === undefined) own.push(text);
    if (is !== "nothing") given[is] = text;
  }
  return { given, own, words };
}

/** --gpus-per-node is a rank for each GPU, as in a job; where there is no GPU, it is the number of ranks alone. */
function ranksOf({ ranks, gpus, "ranks-per-gpu": each = "1" }: Partial<Record<Name, string>>) {
  if (gpus === undefined) return rankCount(ranks);
  const count = whole("--gpus-per-node", gpus, 1) * whole("--ranks-per-gpu", each, 1);
  if (ranks === undefined || ranks === String(count)) return count;
  throw new UserError(
    "usage",
    `-n ${ranks} and --gpus-per-node ${gpus} are two numbers of ranks on this node: a GPU has one rank` +
      `${each === "1" ? "" : `, here ${each} (--ranks-per-gpu)`}. Leave one of them out.`,
  );
}

function rankCount(text: string | undefined): LaunchOptions["ranks"] {
  if (text === undefined) return null;
  return text === "gpu" || text === "cpu" || text === "numa" || text === "auto" ? text : whole("-n", text, 1);
}

/** torchrun's "2:2" is 2; an elastic number of nodes is refused. */
function nodeCount(text: string): number {
  const [least, most = least] = text.split(":");
  if (least === most) return whole("--nodes", least, 1);
  throw new UserError(
    "usage",
    `--nodes ${text}: a run has the same number of nodes from beginning to end. Give one number; a run that was stopped ` +
      "goes on with another by --resume auto.",
  );
}

/** srun may start several launches on a node (--ntasks-per-node=2): each is one of `nodes`, or the first is the node's. */
const inTasks = (env: Env, nodes: number): "each" | "first" | null =>
  nodes === 1 || !inSlurmStep(env) || env.NODE_RANK
    ? null
    : wholeVariable(env, "SLURM_STEP_NUM_TASKS") === nodes
    ? "each"
    : "first";

const standsAside = (env: Env, nodes: number): boolean =>
  inTasks(env, nodes) === "first" && (wholeVariable(env, "SLURM_LOCALID") ?? 0) > 0;

function nodeRankIn(env: Env, nodes: number): string {
  if (nodes === 1) return "0";
  const number = env.NODE_RANK || (inTasks(env, nodes) === "each" ? env.SLURM_PROCID : env.SLURM_NODEID);
  if (number) return number;
  throw new UserError(
    "usage",
    `--nodes ${nodes} needs --node-rank: 0 on the node of --rendezvous, 1 on the next, and so on ` +
      "(in a SLURM step it is SLURM_NODEID).",
  );
}

function masterOf(given: Partial<Record<Name, string>>, nodes: number, env: Env): LaunchOptions["master"] {
  const endpoint = given.rendezvous ?? given["master-addr"] ?? (nodes > 1 ? env.MASTER_ADDR : undefined);
  if (endpoint === undefined && nodes === 1) return null;
  const [, host, own] = /^(.+?)(?::(\d+))?$/.exec(endpoint ?? "") ?? [];
  if (host === undefined) {
    throw new UserError(
      "usage",
      `--nodes ${nodes} needs --rendezvous HOST:PORT, the same on every node: the host of --node-rank 0, and a port that ` +
        "is free there.",
    );
  }
  const port = own ?? given["master-port"] ?? env.MASTER_PORT ?? String(PORT);
  return { host, port: whole("the port of --rendezvous", port, 0) || PORT };
}

function whole(name: string, text: string, least: number): number {
  if (/^\d{1,6}$/.test(text) && Number(text) >= least) return Number(text);
  const names = name === "-n" ? ", or gpu, cpu, numa or auto" : "";
  throw new UserError("usage", `${name} is "${text}": a whole number from ${least} on is expected${names}.`);
}
