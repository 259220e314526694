// MPI: the library that ranks on CPUs would communicate by, those that don't fit, and the launchers on PATH. May import
// ffi/mpi, dist/launch, line, ask.
import { findMpi, type FoundMpi } from "../../../ffi/mpi/find.ts";
import { mpiVersion } from "../../../ffi/mpi/version.ts";
import { mpiLauncher } from "../../dist/launch/mpi_launcher.ts";
import { onPath } from "./ask.ts";
import { bad, good, type Line, warn } from "./line.ts";

export interface MpiFacts {
  readonly chosen: { readonly path: string; readonly from: string; readonly version: string | null } | null;
  readonly rejected: FoundMpi["rejected"];
  /** Why the library that was named can't be used. */
  readonly named: string | null;
  /** The program that `hpctrain launch` would start ranks with; null where there is none. */
  readonly launcher: string | null;
  /** What is on PATH. */
  readonly programs: readonly string[];
  /** Whether a run here has several ranks on CPUs. */
  readonly needed: boolean;
}

const PROGRAMS = ["mpirun", "mpiexec", "srun", "aprun", "palsrun"];

export function gatherMpi(needed: boolean, env: Record<string, string>): MpiFacts {
  const programs = PROGRAMS.map((name) => onPath(name, env)).filter((path) => path !== null);
  try {
    const { chosen, rejected } = findMpi(env, true);
    const library = chosen &&
      { path: chosen.path, from: chosen.from, version: mpiVersion(chosen.path) };
    const launcher = chosen && launcherOf(env);
    return { chosen: library, rejected, named: null, launcher, programs, needed };
  } catch (error) {
    const named = error instanceof Error ? error.message : String(error);
    return { chosen: null, rejected: [], named, launcher: null, programs, needed };
  }
}

function launcherOf(env: Record<string, string>): string | null {
  try {
    return mpiLauncher(env).command[0];
  } catch {
    return null; // the library is there without it: srun may do
  }
}

const NAME = "MPI";
const GET = "Load your site's MPI module (`module load openmpi`), or run `hpctrain libtorch install mpich`.";

export function judgeMpi({ chosen, rejected, named, launcher, programs, needed }: MpiFacts): Line[] {
  if (named !== null) {
    return [(needed ? bad : warn)(NAME, named.replace(/\.$/, ""), "Or unset HPCTRAIN_MPI.")];
  }
  const passed = rejected.map(({ dir, from, reason }) => good(NAME, `not used: ${dir} (${from}): ${reason}`));
  if (chosen === null) {
    const none = "none found: ranks on CPUs communicate by shared memory on one node, by TCP between nodes";
    return [needed ? warn(NAME, `${none}, which is slower`, GET) : good(NAME, none), ...passed];
  }
  const which = `${chosen.version ?? "of unknown version"}, ${chosen.path} (${chosen.from})`;
  if (chosen.version === null) {
    return [(needed ? bad : warn)(NAME, `${chosen.path} (${chosen.from}) can't be loaded`, GET), ...passed];
  }
  const srun = programs.find((path) => path.endsWith("/srun"));
  if (launcher !== null) return [good(NAME, `${which}; ranks are started by ${launcher}`), ...passed];
  if (srun) return [good(NAME, `${which}; ranks are started by ${srun}`), ...passed];
  return [
    warn(
      NAME,
      `${which}, but nothing that starts its ranks: no mpirun or mpiexec of it beside it or on PATH`,
      GET,
    ),
    ...passed,
  ];
}
