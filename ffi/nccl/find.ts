// Finds the NCCL library: the one that libtorch has loaded, else the one beside it, else the system's. Loads nothing.
import { basename, dirname, join } from "../../deps/path.ts";
import { UserError } from "../../core/base/errors.ts";
import { exists, libraryNamed, readElf, systemLibraries } from "../libraries/elf.ts";
import { type Env, listFolder, type Rejected } from "../libraries/find.ts";

interface NcclLibrary {
  readonly path: string;
  readonly from: string;
}

interface FoundNccl {
  readonly chosen: NcclLibrary | null;
  readonly rejected: readonly Rejected[];
}

export const NCCL_FILE = "libnccl.so.2";

/**
 * `torch` is the folder with libtorch_cpu.so. `loaded` is the library that this process has already, or the
 * bare name.
 */
export function findNccl(
  torch: string,
  env: Env = Deno.env.toObject(),
  loaded = libraryNamed(NCCL_FILE),
): FoundNccl {
  const named = env.HPCTRAIN_NCCL;
  if (named) return { chosen: theNamed(named), rejected: [] };
  // A second copy in one process would not see the first's settings.
  if (loaded !== NCCL_FILE) return { chosen: { path: loaded, from: "loaded by libtorch" }, rejected: [] };
  const rejected: Rejected[] = [];
  for (const { path, from } of placesOf(torch, env)) {
    if (!exists(path)) continue;
    const elf = readElf(path);
    if (typeof elf !== "string") return { chosen: { path, from }, rejected };
    rejected.push({ dir: path, from, reason: elf });
  }
  return { chosen: null, rejected };
}

export function noNcclSentence(rejected: readonly Rejected[]): string {
  const looked = rejected.map(({ dir, from, reason }) => `\n  ${dir} (${from}): ${reason}`).join("");
  return (looked
    ? `No usable NCCL, by which ranks on GPUs communicate, was found:${looked}\n`
    : "No NCCL, by which ranks on GPUs communicate, was found beside libtorch or on this machine.\n") +
    `PyTorch with CUDA from PyPI or conda brings it along. To get it: take that libtorch (--libtorch DIR), ` +
    `\`pip install nvidia-nccl-cu13\` into its environment, or load your site's module (\`module load nccl\`, say), or name ` +
    `it with HPCTRAIN_NCCL=/path/to/${NCCL_FILE}.`;
}

function theNamed(named: string): NcclLibrary {
  const isFile = /\.so(\.|$)/.test(basename(named));
  const candidates = isFile ? [named] : [named, join(named, "lib")].map((folder) => join(folder, NCCL_FILE));
  const path = candidates.find(exists) ?? candidates[0];
  const elf = readElf(path);
  if (typeof elf !== "string") return { path, from: "HPCTRAIN_NCCL" };
  throw new UserError(
    "environment",
    `The NCCL library given by HPCTRAIN_NCCL can't be used (${named}): ${elf}. Give the file ${NCCL_FILE}, or the folder that holds it.`,
  );
}

const VARIABLES = ["NCCL_HOME", "NCCL_ROOT", "EBROOTNCCL", "NCCL_DIR", "CONDA_PREFIX"];

/** A generator, because the last one costs a program's start and is often not needed. */
function* placesOf(torch: string, env: Env): Generator<NcclLibrary> {
  const packages = dirname(dirname(torch)); // of …/site-packages/torch/lib
  const beside = [
    torch,
    join(packages, "nvidia/nccl/lib"),
    ...listFolder(join(packages, "nvidia")).filter((name) => /^cu\d+$/.test(name))
      .map((name) => join(packages, "nvidia", name, "lib")),
    ...(/\/python3[^/]*\/[^/]+$/.test(packages) ? [join(packages, "../..")] : []), // conda: …/lib/python3.12/site-packages
  ];
  for (const folder of beside) yield { path: join(folder, NCCL_FILE), from: "beside libtorch" };
  for (const folder of (env.LD_LIBRARY_PATH ?? "").split(":").filter((folder) => folder.startsWith("/"))) {
    yield { path: join(folder, NCCL_FILE), from: "LD_LIBRARY_PATH" };
  }
  for (const name of VARIABLES.filter((name) => env[name])) {
    for (const below of ["lib", "lib64"]) yield { path: join(env[name], below, NCCL_FILE), from: name };
  }
  for (const path of systemLibraries(/^\s*libnccl\.so\.2 /, env)) {
    yield { path, from: "the system's libraries" };
  }
}
