// Finds the NCCL library, or RCCL for HIP: the one that libtorch has loaded, else the one beside it, else the system's. Loads nothing.
import { basename, dirname, join } from "../../deps/path.ts";
import { UserError } from "../../core/base/errors.ts";
import { BACKENDS, type GpuBackend } from "../gpu/backends.ts";
import { exists, libraryNamed, readElf, systemLibraries } from "../libraries/elf.ts";
import { type Env, listFolder, type Rejected } from "../libraries/find.ts";

interface NcclLibrary {
  readonly path: string;
  readonly from: string;
}

/**
 * `torch` is the folder with libtorch_cpu.so. `loaded` is the library that this process has already, or null.
 */
export function findNccl(
  torch: string,
  env: Env = Deno.env.toObject(),
  { collectives }: GpuBackend = BACKENDS.cuda,
  loaded = loadedOf(collectives),
) {
  const named = env.HPCTRAIN_NCCL;
  if (named) return { chosen: theNamed(named, collectives), rejected: [] };
  // A second copy in one process would not see the first's settings.
  if (loaded !== null) return { chosen: { path: loaded, from: "loaded by libtorch" }, rejected: [] };
  const rejected: Rejected[] = [];
  for (const { path, from } of placesOf(torch, env, collectives)) {
    if (!exists(path)) continue;
    const elf = readElf(path);
    if (typeof elf !== "string") return { chosen: { path, from }, rejected };
    rejected.push({ dir: path, from, reason: elf });
  }
  return { chosen: null, rejected };
}

const loadedOf = (files: readonly string[]): string | null =>
  files.map((file) => ({ file, path: libraryNamed(file) })).find(({ file, path }) => path !== file)?.path ??
    null;

export function noNcclSentence(rejected: readonly Rejected[], backend: GpuBackend = BACKENDS.cuda): string {
  const { collectives: [file], words: { collectives: name, platform } } = backend;
  const looked = rejected.map(({ dir, from, reason }) => `\n  ${dir} (${from}): ${reason}`).join("");
  return (looked
    ? `No usable ${name}, by which ranks on GPUs communicate, was found:${looked}\n`
    : `No ${name}, by which ranks on GPUs communicate, was found beside libtorch or on this machine.\n`) +
    `PyTorch with ${platform} from ${GET[backend.kind]}, or name it with HPCTRAIN_NCCL=/path/to/${file}.`;
}

const GET: Readonly<Record<GpuBackend["kind"], string>> = {
  cuda:
    "PyPI or conda brings it along. To get it: take that libtorch (--libtorch DIR), `pip install nvidia-nccl-cu13` into " +
    "its environment, or load your site's module (`module load nccl`, say)",
  hip:
    "PyTorch's own wheels brings it along, and ROCm has it. To get it: load your site's module (`module load rocm`, say)",
};

function theNamed(named: string, files: readonly string[]): NcclLibrary {
  const isFile = /\.so(\.|$)/.test(basename(named));
  const folders = [named, join(named, "lib")];
  const candidates = isFile ? [named] : folders.flatMap((folder) => files.map((file) => join(folder, file)));
  const path = candidates.find(exists) ?? candidates[0];
  const elf = readElf(path);
  if (typeof elf !== "string") return { path, from: "HPCTRAIN_NCCL" };
  throw new UserError(
    "environment",
    `The NCCL library given by HPCTRAIN_NCCL can't be used (${named}): ${elf}. Give the file ${
      files[0]
    }, or the folder that holds it.`,
  );
}

const VARIABLES = [
  ...["NCCL_HOME", "NCCL_ROOT", "EBROOTNCCL", "NCCL_DIR", "RCCL_ROOT", "RCCL_HOME"],
  ...["ROCM_PATH", "ROCM_HOME", "EBROOTROCM", "CONDA_PREFIX"],
];

/** A generator, because the last one costs a program's start and is often not needed. */
function* placesOf(torch: string, env: Env, files: readonly string[]): Generator<NcclLibrary> {
  const packages = dirname(dirname(torch)); // of …/site-packages/torch/lib
  const beside = [
    torch,
    join(packages, "nvidia/nccl/lib"),
    ...listFolder(join(packages, "nvidia")).filter((name) => /^cu\d+$/.test(name))
      .map((name) => join(packages, "nvidia", name, "lib")),
    ...(/\/python3[^/]*\/[^/]+$/.test(packages) ? [join(packages, "../..")] : []), // conda: …/lib/python3.12/site-packages
  ];
  const within = (folder: string, from: string) => files.map((file) => ({ path: join(folder, file), from }));
  for (const folder of beside) yield* within(folder, "beside libtorch");
  for (const folder of (env.LD_LIBRARY_PATH ?? "").split(":").filter((folder) => folder.startsWith("/"))) {
    yield* within(folder, "LD_LIBRARY_PATH");
  }
  for (const name of VARIABLES.filter((name) => env[name])) {
    for (const below of ["lib", "lib64"]) yield* within(join(env[name], below), name);
  }
  const known = new RegExp(`^\\s*(${files.map((file) => RegExp.escape(file)).join("|")}) `);
  for (const path of systemLibraries(known, env)) yield { path, from: "the system's libraries" };
}
