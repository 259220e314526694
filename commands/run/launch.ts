// `hpctrain launch`: several ranks on this node, under one supervisor.
import { findLibtorch } from "../../ffi/libraries/find.ts";
import { thisProgram } from "../../core/base/shell.ts";
import { looksLikeFlag, splitOwnOptions } from "../../core/settings/options.ts";
import { resolveSettings } from "../../core/settings/resolve.ts";
import { didYouMean } from "../../core/base/suggest.ts";
import { LAUNCH_USAGE, type LaunchOptions, readLaunchOptions } from "../../core/ranks/launch/options.ts";
import { cpuCount } from "../../core/base/cores.ts";
import { gpuCount, oneGpu } from "../../core/base/gpus.ts";
import { ownTopology, shareCores, type Topology } from "../../core/base/topology.ts";
import { type MpiEngine, mpiEngine, type MpiLauncher } from "../../core/ranks/engines.ts";
import type { NodePorts } from "../../core/ranks/launch/start.ts";
import { secretOf } from "../../core/ranks/launch/pmi.ts";
import { supervise } from "../../core/ranks/launch/supervise.ts";
import { type SettingChoice, settingChoice } from "../../core/settings/values.ts";
import { EXIT, UserError } from "../../core/base/errors.ts";
import { formatPlural } from "../../core/base/format.ts";
import { loadCommand } from "../mod.ts";

type Env = Record<string, string>;

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
async function settingsOf([name, ...words]: string[], ranks: number, gpus: number, env: Env) {
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

function refuseTooMany(local: number, gpus: number, perGpu: number, env: Env): void {
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
const sharedGpus = ({ nodes, ranksPerGpu }: LaunchOptions, env: Env) => (local: number): Env => ({
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
  env: Env,
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
  env: Env,
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
