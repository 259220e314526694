// Starts this node's ranks: through MPI's launcher where they talk by MPI, else each by itself. May import ffi/process,
// its siblings.
import { join } from "../../../deps/path.ts";
import { makePipe } from "../../../ffi/process.ts";
import type { MpiLibrary } from "../../../ffi/mpi/find.ts";
import { refusalOf, UserError, whyRefused } from "../../errors.ts";
import type { Secret } from "../control/auth.ts";
import { openExchange } from "./exchange.ts";
import type { MpiLauncher } from "./mpi_launcher.ts";
import { CALLED, FILES, LEASH, rankFolder, VARIABLE } from "./notes.ts";
import { openPmi, type Pmi } from "./pmi.ts";

type Env = Record<string, string>;

export interface Job {
  /** Of this node, by their number in the world. */
  readonly ranks: readonly number[];
  readonly world: number;
  readonly node: number;
  readonly nodes: number;
  readonly master: { readonly host: string; readonly port: number } | null;
  /** `launch` and its own flags. */
  readonly called: readonly string[];
  /** The program, without its arguments. */
  readonly program: readonly string[];
  readonly cores: readonly (readonly number[])[] | null;
  /** Null: there is none, or it is not needed, or ranks find each other by `across`. */
  readonly mpi: MpiLauncher | null;
  /** Set where ranks on several nodes talk by MPI: we are its launcher then. */
  readonly across?: Across | null;
  readonly env: Env;
}

export interface Across {
  readonly library: MpiLibrary;
  readonly secret: Secret;
}

export interface Started {
  readonly pmi: Pmi | null;
  /** Private, with a folder for each rank. */
  readonly folder: string;
  /** MPI's launcher; or the ranks themselves, in their order. */
  readonly processes: readonly Deno.ChildProcess[];
  /** Held as long as the ranks may live. */
  readonly leash: Deno.FsFile;
}

/**
 * A shell that says its process id, turns to the rank's own pipes, and becomes the rank: its text reaches us as it is, not
 * through daemons that cut and delay it, and what MPI's launcher handed down (descriptors) stays open.
 */
const BECOME = [
  "r=${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-$RANK}} d=$0/$r",
  `echo $$ >"$d/${FILES.pid}"`,
  `${VARIABLE}=$d exec "$@" >"$d/${FILES.out}" 2>"$d/${FILES.err}"`,
].join("\n");

export function startRanks(job: Job, args: readonly string[]): Started {
  const folder = makeFolder(job);
  const held = Deno.openSync(join(folder, LEASH), { read: true, write: true });
  const rank = ["/bin/sh", "-c", BECOME, folder, ...job.program, ...args];
  const pmi = job.across ? pmiOf(job) : null;
  const processes = job.mpi ? [throughMpi(job, rank)] : directly(job, rank, pmi);
  return { folder, leash: held, processes, pmi };
}

/** Pipes and notes: what is wrong with its place is the machine's fault, before anything has begun. */
function makeFolder({ ranks, cores, called }: Job): string {
  let folder = Deno.env.get("TMPDIR") ?? "/tmp";
  try {
    folder = Deno.makeTempDirSync({ prefix: "hpctrain-launch-" });
    Deno.writeTextFileSync(join(folder, CALLED), JSON.stringify(called));
    const pipes = [join(folder, LEASH)];
    ranks.forEach((rank, local) => {
      const own = rankFolder(folder, rank);
      Deno.mkdirSync(own);
      pipes.push(join(own, FILES.out), join(own, FILES.err));
      if (cores) Deno.writeTextFileSync(join(own, FILES.cores), cores[local].join(","));
    });
    if (pipes.every(makePipe)) return folder;
  } catch (error) {
    const refusal = refusalOf(error);
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

function throughMpi({ mpi, ranks, env }: Job, rank: readonly string[]): Deno.ChildProcess {
  const { command: [program, ...words], library } = mpi!;
  return spawn(program, [...words, "-n", String(ranks.length), ...rank], {
    ...withoutPlace(env),
    ...mpi!.env,
    HPCTRAIN_MPI: library.path,
  });
}

function pmiOf({ ranks, world, node, nodes, master, across }: Job): Pmi {
  const exchange = openExchange({ node, nodes, master: master!, secret: across!.secret });
  const failed = (error: unknown) =>
    console.error(`hpctrain: ${error instanceof Error ? error.message : String(error)}`);
  return openPmi({ ranks, world, nodes, exchange, failed });
}

/** With `pmi` the port of the master is the supervisors', and ranks take one that follows from the secret. */
function directly(
  { ranks, world, node, nodes, master, across, env }: Job,
  [shell, ...words]: readonly string[],
  pmi: Pmi | null,
) {
  return ranks.map((rank, local) =>
    spawn(shell, words, {
      ...withoutPlace(env),
      RANK: String(rank),
      WORLD_SIZE: String(world),
      LOCAL_RANK: String(local),
      LOCAL_WORLD_SIZE: String(ranks.length),
      GROUP_RANK: String(node),
      GROUP_WORLD_SIZE: String(nodes),
      ...(master ? { MASTER_ADDR: master.host } : {}),
      ...(master && !pmi ? { MASTER_PORT: String(master.port) } : {}),
      ...(pmi ? { ...pmi.env(rank), HPCTRAIN_MPI: across!.library.path } : {}),
    })
  );
}

/** In a session of its own: Ctrl-C at the terminal is for the supervisor, which tells the ranks. */
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

/** What another launcher said of this process is not true of its ranks. */
const PLACE =
  /^(PMI_|PMIX_|PALS_|OMPI_(COMM_WORLD|UNIVERSE)_|PRTE_LAUNCHED|MPI_LOCAL|HYDI_|MASTER_(ADDR|PORT)$|(LOCAL_|GROUP_|NODE_)?RANK$|(LOCAL_|GROUP_)?WORLD_SIZE$)/;

const withoutPlace = (env: Env): Env =>
  Object.fromEntries(Object.entries(env).filter(([name]) => !PLACE.test(name)));
