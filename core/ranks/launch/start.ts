import { join } from "../../../deps/path.ts";
import { makePipe } from "../../../ffi/libc.ts";
import { messageOf, systemRefusal, UserError, whyRefused } from "../../base/errors.ts";
import type { Secret } from "../control/channel.ts";
import { openExchange, Pmi } from "./pmi.ts";
import type { MpiLauncher, MpiLibrary } from "../engines.ts";
import { LAUNCH_VARIABLE } from "../launchers.ts";
import { COMMAND_FILE, LEASH, RANK_FILES, rankFolder } from "./rank.ts";

type Env = Record<string, string>;

export interface LaunchJob {
  readonly ranks: readonly number[];
  readonly world: number;
  readonly node: number;
  readonly nodes: number;
  readonly master: { readonly host: string; readonly port: number } | null;
  readonly called: readonly string[];
  readonly program: readonly string[];
  readonly cores: readonly (readonly number[])[] | null;
  /** Null where it is missing or not needed, or ranks find each other by `across`. */
  readonly mpi: MpiLauncher | null;
  /** Set where ranks on several nodes talk by MPI: we are its launcher then. */
  readonly across?: NodePorts | null;
  /** Set where ranks share GPUs: those of each rank, by its number on this node. */
  readonly gpus?: ((local: number) => Env) | null;
  readonly env: Env;
}

export interface NodePorts {
  readonly library: MpiLibrary;
  readonly secret: Secret;
}

export interface StartedRanks {
  readonly pmi: Pmi | null;
  readonly folder: string;
  /** MPI's launcher; or the ranks themselves, in their order. */
  readonly processes: readonly Deno.ChildProcess[];
  readonly leash: Deno.FsFile;
}

/**
 * The shell writes its process id, opens the rank's own pipes, and becomes the rank: its text reaches us
 * unchanged, not through daemons that cut and delay it, and descriptors from MPI's launcher stay open.
 */
const BECOME = [
  "r=${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-$RANK}} d=$0/$r",
  `echo $$ >"$d/${RANK_FILES.pid}"`,
  `${LAUNCH_VARIABLE}=$d exec "$@" >"$d/${RANK_FILES.out}" 2>"$d/${RANK_FILES.err}"`,
].join("\n");

export function startRanks(job: LaunchJob, args: readonly string[]): StartedRanks {
  const folder = makeFolder(job);
  const held = Deno.openSync(join(folder, LEASH), { read: true, write: true });
  const rank = ["/bin/sh", "-c", BECOME, folder, ...job.program, ...args];
  const pmi = job.across ? pmiOf(job.across, job) : null;
  const processes = job.mpi ? [throughMpi(job.mpi, job, rank)] : directly(job, rank, pmi);
  return { folder, leash: held, processes, pmi };
}

/** A failure here is the machine's fault, before anything has begun. */
function makeFolder({ ranks, cores, called }: LaunchJob): string {
  let folder = Deno.env.get("TMPDIR") ?? "/tmp";
  try {
    folder = Deno.makeTempDirSync({ prefix: "hpctrain-launch-" });
    Deno.writeTextFileSync(join(folder, COMMAND_FILE), JSON.stringify(called));
    const pipes = [join(folder, LEASH)];
    ranks.forEach((rank, local) => {
      const own = rankFolder(folder, rank);
      Deno.mkdirSync(own);
      pipes.push(join(own, RANK_FILES.out), join(own, RANK_FILES.err));
      if (cores) Deno.writeTextFileSync(join(own, RANK_FILES.cores), cores[local].join(","));
    });
    if (pipes.every(makePipe)) return folder;
  } catch (error) {
    const refusal = systemRefusal(error);
    if (refusal === undefined) throw error;
    throw unusable(folder, whyRefused(refusal), error);
  }
  throw unusable(folder, "its file system has no pipes with names", null);
}

const unusable = (folder: string, why: string, cause: unknown) =>
  new UserError(
    "environment",
    `The ranks can't be started from ${folder}: ${why}. Name a local folder with TMPDIR=DIR, or make room there.`,
    { cause },
  );

function throughMpi(mpi: MpiLauncher, { ranks, env }: LaunchJob, rank: readonly string[]): Deno.ChildProcess {
  const { command: [program, ...words], library } = mpi;
  return spawn(program, [...words, "-n", String(ranks.length), ...rank], {
    ...withoutLauncherVariables(env),
    ...mpi.env,
    HPCTRAIN_MPI: library.path,
  });
}

function pmiOf({ secret }: NodePorts, { ranks, world, node, nodes, master }: LaunchJob): Pmi {
  const exchange = openExchange({ node, nodes, master: master!, secret });
  const failed = (error: unknown) => console.error(`hpctrain: ${messageOf(error)}`);
  return new Pmi({ ranks, world, nodes, exchange, failed });
}

/** With `pmi` the port of the master is the supervisors', and ranks take one that follows from the secret. */
function directly(
  { ranks, world, node, nodes, master, across, gpus, env }: LaunchJob,
  [shell, ...words]: readonly string[],
  pmi: Pmi | null,
) {
  return ranks.map((rank, local) =>
    spawn(shell, words, {
      ...withoutLauncherVariables(env),
      RANK: String(rank),
      WORLD_SIZE: String(world),
      LOCAL_RANK: String(local),
      LOCAL_WORLD_SIZE: String(ranks.length),
      GROUP_RANK: String(node),
      GROUP_WORLD_SIZE: String(nodes),
      ...(master ? { MASTER_ADDR: master.host } : {}),
      ...(master && !pmi ? { MASTER_PORT: String(master.port) } : {}),
      ...(pmi && across ? { ...pmi.env(rank), HPCTRAIN_MPI: across.library.path } : {}),
      ...gpus?.(local),
    })
  );
}

/** The rank has a session of its own: Ctrl-C at the terminal is for the supervisor, which passes it on. */
function spawn(program: string, args: readonly string[], env: Env): Deno.ChildProcess {
  return new Deno.Command(program, {
    args: [...args],
    env,
    clearEnv: true,
    detached: true,
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
}

/** Variables of another launcher describe this process, not its ranks. */
const LAUNCHER_VARIABLES =
  /^(PMI_|PMIX_|PALS_|OMPI_(COMM_WORLD|UNIVERSE)_|PRTE_LAUNCHED|MPI_LOCAL|HYDI_|MASTER_(ADDR|PORT)$|(LOCAL_|GROUP_|NODE_)?RANK$|(LOCAL_|GROUP_)?WORLD_SIZE$)/;

const withoutLauncherVariables = (env: Env): Env =>
  Object.fromEntries(Object.entries(env).filter(([name]) => !LAUNCHER_VARIABLES.test(name)));
