// Where an MPI library may be, in order of preference. Loads nothing. May import ffi/libraries.
import { dirname, join } from "../../deps/path.ts";
import { cacheFolder, listFolder } from "../libraries/places.ts";
import type { Env } from "../libraries/types.ts";

export interface Place {
  readonly from: string;
  /** A folder, or the library itself. */
  readonly path: string;
}

/** What sites' modules and Python's environments set. Intel's lies deeper. */
const VARIABLES: readonly [name: string, ...below: string[]][] = [
  ["MPI_HOME", "lib", "lib64"],
  ["MPI_ROOT", "lib", "lib64"],
  ["EBROOTOPENMPI", "lib", "lib64"],
  ["EBROOTMPICH", "lib", "lib64"],
  ["I_MPI_ROOT", "lib/release", "lib", "intel64/lib/release", "intel64/lib"],
  ["MPICH_DIR", "lib", "lib-abi-mpich"],
  ["VIRTUAL_ENV", "lib"],
  ["CONDA_PREFIX", "lib"],
];

const LAUNCHERS = ["mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun"];

/** A generator, because the last ones cost a program's start and are often not needed. */
export function* placesOf(env: Env): Generator<Place> {
  if (env.OMPI_LIBDIR_LOC) yield { from: "OMPI_LIBDIR_LOC, set by mpirun", path: env.OMPI_LIBDIR_LOC };
  for (const path of besideParent()) yield { from: "beside what started this process", path };
  for (const path of folders(env.LD_LIBRARY_PATH)) yield { from: "LD_LIBRARY_PATH", path };
  for (const folder of folders(env.PATH)) {
    for (const name of LAUNCHERS) {
      for (const path of beside(join(folder, name))) yield { from: `beside ${name} in PATH`, path };
    }
  }
  for (const [name, ...below] of VARIABLES) {
    for (const inner of env[name] ? below : []) yield { from: name, path: join(env[name], inner) };
  }
  for (const path of systemLibraries(env)) yield { from: "the system's libraries", path };
  const root = join(cacheFolder(env), "mpi");
  for (const name of listFolder(root).filter((name) => name.startsWith("mpich-")).sort().toReversed()) {
    yield { from: "hpctrain libtorch install mpich", path: join(root, name, "lib") };
  }
}

const folders = (list = ""): string[] => list.split(":").filter((folder) => folder.startsWith("/"));

/** A rank's parent is its launcher's daemon: hydra_pmi_proxy, prted, orted. */
function besideParent(): string[] {
  try {
    const program = Deno.readLinkSync(`/proc/${Deno.ppid}/exe`);
    return /^(hydra|mpi|pr?te|ort|pals)/.test(program.slice(program.lastIndexOf("/") + 1))
      ? around(program)
      : [];
  } catch {
    return []; // another user's process, or none
  }
}

function beside(program: string): string[] {
  try {
    return around(Deno.realPathSync(program));
  } catch {
    return [];
  }
}

const around = (program: string): string[] =>
  ["lib", "lib64", "lib/release"].map((name) => join(dirname(program), "..", name));

/** What the loader would find by name. */
function systemLibraries(env: Env): string[] {
  for (const program of ["ldconfig", "/sbin/ldconfig"]) {
    try {
      const { success, stdout } = new Deno.Command(program, {
        args: ["-p"],
        stderr: "null",
        env,
        clearEnv: true,
      })
        .outputSync();
      if (!success) continue;
      return new TextDecoder().decode(stdout).split("\n")
        .filter((line) => /^\s*libmpi(_abi)?\.so\.\d/.test(line))
        .map((line) => line.slice(line.indexOf("=>") + 3).trim())
        .filter((path) => path.startsWith("/"));
    } catch { /* not there: the next one */ }
  }
  return [];
}
