// The launcher of an MPI is found beside its library. Its options keep it from binding ranks to one core, refusing
// root and counting cores.
import { isFile } from "../../base/files.ts";
import { dirname, join } from "../../../deps/path.ts";
import { findMpi, MPI_NAMES, noMpiSentence } from "../../../ffi/mpi/find.ts";
import { UserError } from "../../base/errors.ts";
import type { SettingChoice } from "../../settings/values.ts";
import type { MpiLauncher } from "../engines.ts";

type Env = Record<string, string>;
type Family = "openmpi" | "mpich";

const NAMES: Readonly<Record<Family, readonly string[]>> = {
  openmpi: ["mpirun", "mpiexec", "orterun", "mpirun.openmpi"],
  mpich: ["mpiexec.hydra", "mpiexec", "mpirun", "mpiexec.mpich"],
};

const SAYS: Readonly<Record<Family, RegExp>> = {
  openmpi: /Open MPI|OpenRTE|PRRTE/i,
  mpich: /HYDRA|MPICH|Intel\(R\) MPI|MVAPICH/i,
};

const ARGUMENTS: Readonly<Record<Family, readonly string[]>> = {
  openmpi: ["--bind-to", "none", "--oversubscribe"],
  mpich: [],
};

/**
 * Ranks are for this node, whatever allocation it is in: schedulers' own ways to start processes are skipped.
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
 * Looking for networks takes a second, and there is none to cross. PMIx's tables in shared memory want one
 * address in every process, which now and then is taken: the start fails. The user's own variables win.
 */
const TUNING: Readonly<Record<Family, Env>> = {
  openmpi: { OMPI_MCA_btl: "^ofi", OMPI_MCA_mtl: "^ofi", PMIX_MCA_gds: "hash" },
  mpich: {},
};

export function mpiLauncher(env: Env, requested: SettingChoice | null): MpiLauncher {
  const { chosen, rejected } = findMpi(env);
  if (!chosen) throw new UserError("environment", noMpiSentence(rejected, requested));
  const family: Family = chosen.abi === "openmpi" ? "openmpi" : "mpich";
  const tuning = Object.fromEntries(Object.entries(TUNING[family]).filter(([name]) => !env[name]));
  const folders = [...beside(chosen.path), ...(env.PATH ?? "").split(":").filter((at) => at.startsWith("/"))];
  for (const folder of folders) {
    for (const name of NAMES[family]) {
      const program = join(folder, name);
      if (!isFile(program) || !SAYS[family].test(versionOf(program, env))) continue;
      return {
        library: chosen,
        command: [program, ...ARGUMENTS[family]],
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
