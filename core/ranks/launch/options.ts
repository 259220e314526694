import { SOURCE_FLAGS } from "../../settings/flags.ts";
import { FLAGS } from "../../settings/settings.ts";
import { looksLikeFlag, splitFlag, takeValue, unknownFlag } from "../../settings/options.ts";
import { UserError } from "../../base/errors.ts";
import { type Env, inSlurmStep, wholeVariable } from "../launchers.ts";

export interface LaunchOptions {
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

export const LAUNCH_USAGE =
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
