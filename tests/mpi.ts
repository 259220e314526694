// Starts ranks of a program with real MPI libraries: those that HPCTRAIN_OPENMPI and HPCTRAIN_MPICH name.
import { join } from "paths";
import { finish, type Result, ROOT } from "./integration/program.ts";

export interface MpiUnderTest {
  /** The folder with bin/ and lib/. */
  readonly folder: string;
  readonly library: string;
  /** What starts `-n N program`. */
  readonly launcher: readonly string[];
}

const folderOf = (variable: string): string => {
  const folder = Deno.env.get(variable);
  if (!folder) {
    throw new Error(`set ${variable} to a folder with bin/ and lib/ of it; ./scripts/test sets it`);
  }
  return folder;
};

/** Root and too few cores are the tests' circumstances, and no rank may be bound to one core. */
export function openMpi(): MpiUnderTest {
  const folder = folderOf("HPCTRAIN_OPENMPI");
  const flags = ["--allow-run-as-root", "--bind-to", "none", "--oversubscribe"];
  const launcher = [join(folder, "bin/mpirun"), ...flags];
  return { folder, library: join(folder, "lib/libmpi.so.40"), launcher };
}

export function mpich(library = "libmpi.so.12"): MpiUnderTest {
  const folder = folderOf("HPCTRAIN_MPICH");
  return { folder, library: join(folder, "lib", library), launcher: [join(folder, "bin/mpiexec")] };
}

/** MPICH by the interface that MPI 5 fixes for all. */
export const standardMpi = () => mpich("libmpi_abi.so.1");

export interface Ranks {
  readonly ranks: number;
  /** A file of the tests, with its arguments. */
  readonly program: readonly string[];
  readonly env?: Record<string, string>;
  readonly cwd?: string;
}

const STEERING = /^(SLURM_|PMIX?_|PALS_|OMPI_|PRTE_|MPI_|PBS_|MASTER_|(LOCAL_)?RANK$|WORLD_SIZE$)/;

/** Starts them; HPCTRAIN_MPI is not set, so a program that opens MPI has to find the right one. */
export function startRanks(mpi: MpiUnderTest, { ranks, program: [file, ...args], env, cwd }: Ranks) {
  const [launcher, ...flags] = mpi.launcher;
  const own = Object.entries(Deno.env.toObject()).filter(([name]) => !STEERING.test(name));
  const path = `${join(mpi.folder, "bin")}:${Deno.env.get("PATH") ?? ""}`;
  const deno = [Deno.execPath(), "run", "--quiet", "--allow-all", "--no-check", join(ROOT, file), ...args];
  return new Deno.Command(launcher, {
    args: [...flags, "-n", String(ranks), ...deno],
    cwd,
    env: {
      ...Object.fromEntries(own),
      PATH: path,
      OMP_NUM_THREADS: "1",
      NO_COLOR: "1",
      PMIX_MCA_gds: "hash", // as `launch` has it, and says why
      ...env,
    },
    clearEnv: true,
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
}

export const runRanks = (mpi: MpiUnderTest, ranks: Ranks, timeout = 240): Promise<Result> =>
  finish(startRanks(mpi, ranks), timeout);

/** Infinity once it is gone. */
function writtenAt(path: string): number {
  try {
    return Deno.statSync(path).mtime!.getTime();
  } catch {
    return Infinity;
  }
}

function remove(path: string): void {
  try {
    Deno.removeSync(path);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
}

const MINUTE_MS = 60_000;

/**
 * Ranks that are killed leave shared memory behind; what no process uses is removed when the tests end. Other groups of
 * tests do so at the same moment, and what is new may just not be in use yet.
 */
addEventListener("unload", () => {
  const left = filesOf("/dev/shm").filter((name) => /^(mpich_shm_|sm_segment\.|vader_segment\.)/.test(name))
    .filter((name) => Date.now() - writtenAt(`/dev/shm/${name}`) > MINUTE_MS);
  if (left.length === 0) return;
  const used = filesOf("/proc").filter((name) => /^\d+$/.test(name)).map((pid) => mapsOf(pid)).join("");
  for (const name of left.filter((name) => !used.includes(`/dev/shm/${name}`))) {
    remove(`/dev/shm/${name}`);
  }
});

const filesOf = (folder: string): string[] => [...Deno.readDirSync(folder)].map(({ name }) => name);

function mapsOf(pid: string): string {
  try {
    return Deno.readTextFileSync(`/proc/${pid}/maps`);
  } catch {
    return ""; // it has ended
  }
}
