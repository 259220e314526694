// Finds the MPI library that fits what started this process, in a fixed order of places, and explains why the
// others were not taken. Loads nothing.
import { basename, dirname, join } from "../../deps/path.ts";
import { cacheFolder, type Env, listFolder, type Rejected } from "../libraries/find.ts";
import { UserError } from "../../core/base/errors.ts";
import { readElf, systemLibraries } from "../libraries/elf.ts";
import type { MpiAbi } from "./abi.ts";

interface MpiFolder {
  readonly from: string;
  readonly path: string;
}

/** Sites' modules and Python's environments set these. Intel's library lies deeper. */
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
function* mpiFolders(env: Env): Generator<MpiFolder> {
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
  for (const path of systemLibraries(/^\s*libmpi(_abi)?\.so\.\d/, env)) {
    yield { from: "the system's libraries", path };
  }
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

export interface MpiLibrary {
  readonly path: string;
  readonly abi: MpiAbi;
  readonly from: string;
}

export interface FoundMpi {
  readonly chosen: MpiLibrary | null;
  readonly usable: readonly MpiLibrary[];
  readonly rejected: readonly Rejected[];
}

export const MPI_NAMES: Readonly<Record<MpiAbi, string>> = {
  openmpi: "Open MPI",
  mpich: "MPICH or one of its family",
  standard: "MPI with the standard interface",
};

/** Versioned names only: plain libmpi.so may be a text for the linker. Cray's carry the compiler's name. */
const FILES: readonly [pattern: RegExp, abi: MpiAbi][] = [
  [/^libmpi\.so\.40(\.\d+)*$/, "openmpi"],
  [/^libmpi(_(gnu|intel|cray|aocc|amd|nvidia)(_\d+)?)?\.so\.12(\.\d+)*$/, "mpich"],
  [/^libmpi_abi\.so\.[01](\.\d+)*$/, "standard"],
];

/** With `all` it looks on after the first that fits best, as `doctor` does. */
export function findMpi(env: Env = Deno.env.toObject(), all = false): FoundMpi {
  const { tiers, why } = whatFits(env);
  const tierOf = ({ abi }: { abi: MpiAbi }) => tiers.findIndex((tier) => tier.includes(abi));
  const usable: MpiLibrary[] = [], rejected: Rejected[] = [];
  const seen = new Set<string>();
  const named = env.HPCTRAIN_MPI ? theNamed(env.HPCTRAIN_MPI) : null;
  if (named && !all) return { chosen: named, usable: [named], rejected };
  for (const { from, path: folder } of mpiFolders(env)) {
    for (const library of librariesAt(folder)) {
      const { path, abi } = library, id = realPath(path);
      if (seen.has(id)) continue;
      seen.add(id);
      const elf = readElf(path);
      if (typeof elf === "string") rejected.push({ dir: path, from, reason: elf });
      else if (tierOf(library) >= 0) usable.push({ path, abi, from });
      else rejected.push({ dir: path, from, reason: `it is ${MPI_NAMES[abi]}, and ${why}` });
    }
    if (!all && usable.some((library) => tierOf(library) === 0)) break;
  }
  const best = usable.toSorted((a, b) => tierOf(a) - tierOf(b))[0] ?? null;
  return { chosen: named ?? best, usable: named ? [named, ...usable] : usable, rejected };
}

/** The user named it, so no other may take its place; opening it shows whether it fits the launcher. */
function theNamed(path: string): MpiLibrary {
  const from = "HPCTRAIN_MPI";
  const isFile = /\.so(\.|$)/.test(basename(path));
  const found = isFile
    ? { path, abi: abiOf(realPath(path)) ?? "mpich" }
    : [path, join(path, "lib"), join(path, "lib64")].flatMap(librariesAt)[0];
  const elf = found ? readElf(found.path) : "there is no MPI library in it";
  if (typeof elf !== "string") return { ...found, from };
  throw new UserError(
    "environment",
    `The MPI library given by ${from} can't be used (${path}): ${elf}. Give the file (libmpi.so.40 of Open MPI, ` +
      "libmpi.so.12 of MPICH, Intel's or Cray's MPI), or the folder that holds it.",
  );
}

/**
 * Libraries that can talk to what started this process: those of the first tier where there is one, else of
 * the next.
 */
function whatFits(env: Env): { tiers: readonly (readonly MpiAbi[])[]; why: string } {
  if (env.OMPI_COMM_WORLD_SIZE) {
    return {
      tiers: [["openmpi"]],
      why: "Open MPI's mpirun, which started this process, talks to Open MPI alone",
    };
  }
  // srun's own plug-ins: PMIx is Open MPI's, PMI-2 is MPICH's; each can be built for the other.
  if (env.PMIX_RANK) return { tiers: [["openmpi"], ["mpich", "standard"]], why: "" };
  if (env.PMI_SIZE && env.SLURM_PROCID) return { tiers: [["mpich", "standard"], ["openmpi"]], why: "" };
  if (env.PMI_SIZE) {
    return {
      tiers: [["mpich", "standard"]],
      why: "the launcher of MPICH's family, which started this process (PMI_SIZE is set), can't talk to it",
    };
  }
  return { tiers: [["openmpi", "mpich", "standard"]], why: "" };
}

/** `requested`: who asked for MPI, and how that is taken back. */
export function noMpiSentence(
  rejected: readonly Rejected[],
  requested: { readonly by: string; readonly undo: string } | null,
): string {
  const looked = rejected.map(({ dir, from, reason }) => `\n  ${dir} (${from}): ${reason}`).join("");
  return (requested ? `${requested.by}: ` : "") +
    (looked
      ? `No usable MPI library, by which ranks on CPUs communicate, was found:${looked}\n`
      : "No MPI library, by which ranks on CPUs communicate, was found on this machine.\n") +
    "To get one: load your site's MPI module (`module load openmpi`, say), which brings the launcher too; or " +
    "`hpctrain libtorch install mpich` downloads one for this machine; or name one with " +
    "HPCTRAIN_MPI=/path/to/libmpi.so." +
    (requested ? ` Ranks need none, as shared memory and TCP serve: ${requested.undo}.` : "");
}

function librariesAt(path: string): { path: string; abi: MpiAbi }[] {
  const itself = abiOf(path);
  if (itself) return [{ path, abi: itself }];
  const names = listFolder(path);
  return FILES.flatMap(([pattern, abi]) =>
    // The shorter of libmpi.so.40 and libmpi.so.40.30.4 is the link that was made to be loaded.
    names.filter((name) => pattern.test(name)).sort((a, b) => a.length - b.length).slice(0, 1)
      .map((name) => ({ path: join(path, name), abi }))
  );
}

function abiOf(path: string): MpiAbi | null {
  return FILES.find(([pattern]) => pattern.test(basename(path)))?.[1] ?? null;
}

function realPath(path: string): string {
  try {
    return Deno.realPathSync(path);
  } catch {
    return path;
  }
}
