// Finds the MPI library that fits what started this process, in a fixed order of places, and says why the others were
// not taken. Loads nothing. May import abi, places, ffi/libraries, errors.
import { basename, join } from "../../deps/path.ts";
import { UserError } from "../../core/errors.ts";
import { readElf } from "../libraries/elf.ts";
import { listFolder } from "../libraries/places.ts";
import type { Env, Rejected } from "../libraries/types.ts";
import type { MpiAbi } from "./abi.ts";
import { placesOf } from "./places.ts";

export interface MpiLibrary {
  /** The file to load. */
  readonly path: string;
  readonly abi: MpiAbi;
  /** The place that named it, as the user would. */
  readonly from: string;
}

export interface FoundMpi {
  readonly chosen: MpiLibrary | null;
  readonly usable: readonly MpiLibrary[];
  readonly rejected: readonly Rejected[];
}

/** What a person calls each. */
export const MPI_NAMES: Readonly<Record<MpiAbi, string>> = {
  openmpi: "Open MPI",
  mpich: "MPICH or one of its family",
  standard: "MPI with the standard interface",
};

/** Versioned names: plain libmpi.so may be a text for the linker. Cray's carry the compiler's name. */
const FILES: readonly [pattern: RegExp, abi: MpiAbi][] = [
  [/^libmpi\.so\.40(\.\d+)*$/, "openmpi"],
  [/^libmpi(_(gnu|intel|cray|aocc|amd|nvidia)(_\d+)?)?\.so\.12(\.\d+)*$/, "mpich"],
  [/^libmpi_abi\.so\.[01](\.\d+)*$/, "standard"],
];

/** `all`: looks on after the first that fits best, as `doctor` does. */
export function findMpi(env: Env = Deno.env.toObject(), all = false): FoundMpi {
  const { tiers, why } = whatFits(env);
  const tierOf = ({ abi }: { abi: MpiAbi }) => tiers.findIndex((tier) => tier.includes(abi));
  const usable: MpiLibrary[] = [], rejected: Rejected[] = [];
  const seen = new Set<string>();
  const named = env.HPCTRAIN_MPI ? theNamed(env.HPCTRAIN_MPI) : null;
  if (named && !all) return { chosen: named, usable: [named], rejected };
  for (const { from, path: folder } of placesOf(env)) {
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

/** The user named it, so no other may take its place, and whether it fits the launcher shows when it is opened. */
function theNamed(path: string): MpiLibrary {
  const from = "HPCTRAIN_MPI";
  const isFile = /\.so(\.|$)/.test(basename(path));
  const found = isFile
    // What it is when its name does not tell: seen when it is opened.
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

/** Which libraries can talk to what started this process: of the first tier where there is one, else of the next. */
function whatFits(env: Env): { tiers: readonly (readonly MpiAbi[])[]; why: string } {
  if (env.OMPI_COMM_WORLD_SIZE) {
    return {
      tiers: [["openmpi"]],
      why: "Open MPI's mpirun, which started this process, talks to Open MPI alone",
    };
  }
  // srun's own plug-ins: PMIx is what Open MPI wants, PMI-2 what MPICH does; each can be built for the other.
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

/** What to say when none was found. */
export function noMpiSentence(rejected: readonly Rejected[]): string {
  const looked = rejected.map(({ dir, from, reason }) => `\n  ${dir} (${from}): ${reason}`).join("");
  return (looked
    ? `No usable MPI library, by which ranks on CPUs communicate, was found:${looked}\n`
    : "No MPI library, by which ranks on CPUs communicate, was found on this machine.\n") +
    "To get one: load your site's MPI module (`module load openmpi`, say), which brings the launcher too; or " +
    "`hpctrain libtorch install mpich` downloads one for this machine; or name one with " +
    "HPCTRAIN_MPI=/path/to/libmpi.so. Without --distributed-backend mpi ranks need none: shared memory and TCP serve.";
}

/** The libraries in a folder; a path to one stands for itself. */
function librariesAt(path: string): { path: string; abi: MpiAbi }[] {
  const itself = abiOf(path);
  if (itself) return [{ path, abi: itself }];
  const names = listFolder(path);
  return FILES.flatMap(([pattern, abi]) =>
    // Of libmpi.so.40 and libmpi.so.40.30.4 the shorter is the link that was made to be loaded.
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
