// The program that starts ranks which can talk by an MPI library: found beside the library, with what it has to be told
// so that it neither binds ranks to one core, nor refuses root, nor counts cores. May import ffi/mpi/find, errors.
import { dirname, join } from "../../../deps/path.ts";
import { findMpi, MPI_NAMES, type MpiLibrary, noMpiSentence } from "../../../ffi/mpi/find.ts";
import { UserError } from "../../errors.ts";

export interface MpiLauncher {
  readonly library: MpiLibrary;
  /** The program, and its words before -n. */
  readonly command: readonly string[];
  /** Added to its environment. */
  readonly env: Readonly<Record<string, string>>;
}

type Env = Record<string, string>;
type Family = "openmpi" | "mpich";

const NAMES: Readonly<Record<Family, readonly string[]>> = {
  openmpi: ["mpirun", "mpiexec", "orterun", "mpirun.openmpi"],
  mpich: ["mpiexec.hydra", "mpiexec", "mpirun", "mpiexec.mpich"],
};

/** What each says of itself when it is asked for its version. */
const SAYS: Readonly<Record<Family, RegExp>> = {
  openmpi: /Open MPI|OpenRTE|PRRTE/i,
  mpich: /HYDRA|MPICH|Intel\(R\) MPI|MVAPICH/i,
};

const WORDS: Readonly<Record<Family, readonly string[]>> = {
  openmpi: ["--bind-to", "none", "--oversubscribe"],
  mpich: [],
};

/**
 * Ranks are for this node, whatever allocation it is in: schedulers' own ways to start processes are left aside.
 * OMPI_ and PRTE_MCA_ are Open MPI's before and since version 5.
 */
const ENVIRONMENT: Readonly<Record<Family, Env>> = {
  openmpi: {
    OMPI_ALLOW_RUN_AS_ROOT: "1",
    OMPI_ALLOW_RUN_AS_ROOT_CONFIRM: "1",
    OMPI_MCA_ras: "^slurm,tm,lsf,gridengine,alps",
    PRTE_MCA_ras: "^slurm,pbs,lsf,gridengine,flux",
    OMPI_MCA_plm: "^slurm,tm,lsf,alps",
    PRTE_MCA_plm: "^slurm,pbs,lsf",
  },
  mpich: { HYDRA_LAUNCHER: "fork", HYDRA_RMK: "user", I_MPI_HYDRA_BOOTSTRAP: "fork", I_MPI_PIN: "off" },
};

/**
 * Looking for networks takes a second, and there is none to cross. PMIx's tables in shared memory want one address in
 * every process, which now and then is taken: the start fails. Whoever has chosen keeps their choice.
 */
const TUNING: Readonly<Record<Family, Env>> = {
  openmpi: { OMPI_MCA_btl: "^ofi", OMPI_MCA_mtl: "^ofi", PMIX_MCA_gds: "hash" },
  mpich: {},
};

export function mpiLauncher(env: Env): MpiLauncher {
  const { chosen, rejected } = findMpi(env);
  if (!chosen) throw new UserError("environment", noMpiSentence(rejected));
  const family: Family = chosen.abi === "openmpi" ? "openmpi" : "mpich";
  const tuning = Object.fromEntries(Object.entries(TUNING[family]).filter(([name]) => !env[name]));
  const folders = [...beside(chosen.path), ...(env.PATH ?? "").split(":").filter((at) => at.startsWith("/"))];
  for (const folder of folders) {
    for (const name of NAMES[family]) {
      const program = join(folder, name);
      if (!isFile(program) || !SAYS[family].test(versionOf(program, env))) continue;
      return {
        library: chosen,
        command: [program, ...WORDS[family]],
        env: { ...tuning, ...ENVIRONMENT[family] },
      };
    }
  }
  throw new UserError(
    "environment",
    `${
      MPI_NAMES[chosen.abi]
    } was found (${chosen.path}, ${chosen.from}), but not what starts its ranks: there is no ` +
      `${NAMES[family].slice(0, 2).join(" or ")} of it in ${
        beside(chosen.path).join(", ")
      } or PATH. Load the site's MPI module; ` +
      "or `hpctrain libtorch install mpich` downloads one with all it needs.",
  );
}

function beside(library: string): string[] {
  const lib = dirname(library);
  return ["../bin", "../../bin", "../../../bin"].map((up) => join(lib, up));
}

function isFile(path: string): boolean {
  try {
    return Deno.statSync(path).isFile;
  } catch {
    return false;
  }
}

function versionOf(program: string, env: Env): string {
  try {
    const { stdout, stderr } = new Deno.Command(program, {
      args: ["--version"],
      env: { ...env, ...ENVIRONMENT.openmpi },
      clearEnv: true,
    }).outputSync();
    return new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr);
  } catch {
    return ""; // not for this machine, or not to be started
  }
}
