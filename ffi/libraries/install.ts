// Installs the pinned releases of libtorch (for CPUs or for CUDA) and MPICH into our own folders.
import { basename, dirname, join, resolve } from "../../deps/path.ts";
import { statfsSync } from "node:fs";
import { messageOf, UserError } from "../../core/base/errors.ts";
import {
  cacheFolder,
  checkLibtorch,
  type Env,
  installedName,
  isLibtorch,
  libraryFolder,
  type Libtorch,
  listFolder,
  missingOf,
} from "./find.ts";
import { onSignal } from "../signals.ts";
import { exists, readElf } from "./elf.ts";
import { ownPython } from "./python.ts";
import {
  CUDA_RELEASES,
  type CudaRelease,
  MPICH,
  MPICH_VERSION,
  NEWEST,
  newestReleaseFor,
  type Pin,
  type Release,
  RELEASES,
} from "./releases.ts";

interface Installation {
  readonly called: string;
  readonly release: Release;
  readonly target: string;
  readonly unpack: string;
  readonly check: (folder: string) => void;
  readonly instead: string;
  readonly architecture: string;
}

/**
 * Installs unless it is there already; several processes may call it at once. A half-made folder never has
 * the final name.
 */
async function installWheels(
  given: Installation,
  env: Env,
  say: (line: string) => void,
): Promise<void> {
  const installation = { ...given, target: resolve(given.target) }, { target } = installation;
  const root = dirname(target);
  await makeFolder(root);
  using lock = await Deno.open(join(root, ".lock"), { create: true, write: true });
  await lock.lock(true); // let go of by the system, however this process ends
  if (listFolder(target).includes("installed.json")) return;
  await removeLeftovers(root);
  const work = join(root, `.partial-${Deno.pid}`);
  const cleanUp = () => {
    try {
      Deno.removeSync(work, { recursive: true });
    } catch { /* already gone */ }
  };
  const interrupted = () => {
    cleanUp();
    Deno.exit(130);
  };
  const listening = (["SIGINT", "SIGTERM"] as const).map((name) => onSignal(name, interrupted));
  try {
    await assemble(installation, work, env, say);
  } finally {
    listening.forEach((end) => end());
    cleanUp();
  }
}

async function assemble(
  installation: Installation,
  work: string,
  env: Env,
  say: (line: string) => void,
): Promise<void> {
  const { called, release, target } = installation, root = dirname(target);
  checkSpace(root, called, release);
  const kept = join(root, `.wheels-${basename(target)}`);
  say(`Downloading ${called} (${release.download} MB, once) to ${root}`);
  await download(installation, { work, kept, env, say });
  say("Unpacking it");
  try {
    await unpackWheels(installation, { work, kept, env });
  } finally {
    await Deno.remove(kept, { recursive: true });
  }
}

interface Folders {
  readonly work: string;
  /** It has each wheel that has arrived: a second attempt goes on with them. */
  readonly kept: string;
  readonly env: Env;
}

async function download(
  { called, release, instead, architecture }: Installation,
  { work, kept, env, say }: Folders & { readonly say: (line: string) => void },
): Promise<void> {
  const wheels = join(work, "wheels"), temp = join(work, "tmp");
  for (const folder of [kept, wheels, temp]) await Deno.mkdir(folder, { recursive: true });
  const stopProgress = showProgress([temp, wheels, kept], release.download, say);
  try {
    for (const wheel of release.wheels) {
      const wheelPath = join(kept, `${wheel.sha256}.whl`);
      if (exists(wheelPath)) continue;
      const args = await downloadArguments(wheel, work, architecture);
      await runPython(args, { ...env, TMPDIR: temp }, `${called} could not be downloaded`, instead);
      for (const name of listFolder(wheels)) await Deno.rename(join(wheels, name), wheelPath);
    }
  } finally {
    stopProgress();
    if (listFolder(kept).length === 0) await Deno.remove(kept);
  }
}

async function unpackWheels(
  { called, release, target, unpack, check, instead }: Installation,
  { work, kept, env }: Folders,
): Promise<void> {
  const out = join(work, "out");
  await Deno.mkdir(out);
  const python = (args: string[], failed: string) => runPython(args, env, `${called} ${failed}`, instead);
  await python(["-c", unpack, kept, out], "was downloaded but could not be unpacked");
  check(out);
  await Deno.writeTextFile(join(out, "installed.json"), JSON.stringify({ wheels: release.wheels }, null, 2));
  await python(["-c", SYNC, out], "could not be written to the disk");
  await Deno.remove(target, { recursive: true }).catch(() => {});
  await Deno.rename(out, target);
}

async function downloadArguments(
  { requirement, sha256 }: Pin,
  work: string,
  architecture: string,
): Promise<string[]> {
  const pins = join(work, "pins.txt");
  await Deno.writeTextFile(pins, `${requirement} --hash=sha256:${sha256}\n`);
  const platforms = [
    ...["manylinux_2_28", "manylinux_2_27", "manylinux_2_25", "manylinux_2_18", "manylinux_2_17"],
    ...["manylinux2014", "manylinux_2_12", "manylinux2010"],
  ];
  return [
    ...["-m", "pip", "download", "--quiet", "--no-deps", "--no-cache-dir", "--disable-pip-version-check"],
    ...["--only-binary=:all:", "--require-hashes", "--python-version", "3.11", "--implementation", "cp"],
    ...platforms.flatMap((p) => ["--platform", `${p}_${architecture}`]),
    ...["--requirement", pins, "--dest", join(work, "wheels")],
  ];
}

const SYNC = "import os, sys; [os.fsync(os.open(os.path.join(d, f), os.O_RDONLY)) " +
  "for d, _, fs in os.walk(sys.argv[1]) for f in fs]";

async function runPython(args: string[], env: Env, failed: string, instead: string): Promise<void> {
  let output: Deno.CommandOutput;
  using python = ownPython(args, env);
  try {
    output = await python.command.output();
  } catch {
    throw new UserError("environment", `${failed}: there is no python3 on PATH. ${instead}`);
  }
  if (output.success) return;
  const message = new TextDecoder().decode(output.stderr).trim();
  if (message.includes("No module named pip")) {
    throw new UserError(
      "environment",
      `${failed}: this python3 has no pip (try \`python3 -m ensurepip\`). ${instead}`,
    );
  }
  if (/No space left|Disk quota exceeded/.test(message)) {
    throw new UserError(
      "environment",
      `${failed}: the disk or quota is full. Free some, or set HPCTRAIN_CACHE to another folder.`,
    );
  }
  if (/DO NOT MATCH THE HASHES/i.test(message)) {
    throw new UserError(
      "environment",
      `${failed}: what arrived is not what is pinned (its hash differs), so it was thrown away.`,
    );
  }
  const last = message.split("\n").filter((line) => /\S/.test(line)).slice(-3).join("\n  ");
  throw new UserError(
    "environment",
    `${failed}:\n  ${last || `python3 ended with code ${output.code}`}\n${instead}`,
  );
}

function showProgress(
  folders: readonly string[],
  total: number,
  say: (line: string) => void,
): () => void {
  const timer = setInterval(() => {
    const bytes = folders.reduce((sum, folder) => sum + folderSize(folder), 0);
    const done = Math.min(total, Math.round(bytes / 1e6));
    if (done > 0) say(`  ${done} of ${total} MB`);
  }, 5000);
  return () => clearInterval(timer);
}

function folderSize(path: string): number {
  try {
    return [...Deno.readDirSync(path)].reduce((sum, entry) => {
      const inner = join(path, entry.name);
      return sum + (entry.isDirectory ? folderSize(inner) : Deno.lstatSync(inner).size);
    }, 0);
  } catch {
    return 0; // pip moves its files as it goes
  }
}

function checkSpace(root: string, called: string, release: Release): void {
  const { bavail, bsize } = statfsSync(root);
  const free = Math.floor(Number(bavail) * Number(bsize) / 1e6),
    needed = 2 * release.download + release.unpacked;
  if (free >= needed) return;
  throw new UserError(
    "environment",
    `${needed} MB are needed in ${root} for ${called} (${release.unpacked} MB stay), and ${free} MB are ` +
      "free. Free some, or set HPCTRAIN_CACHE to a folder with room.",
  );
}

async function makeFolder(root: string): Promise<void> {
  try {
    await Deno.mkdir(root, { recursive: true });
  } catch (error) {
    const why = messageOf(error);
    throw new UserError(
      "environment",
      `The cache folder ${root} can't be made (${why}). Set HPCTRAIN_CACHE to a folder you can write to.`,
    );
  }
}

async function removeLeftovers(root: string): Promise<void> {
  for (const name of listFolder(root).filter((n) => n.startsWith(".partial-"))) {
    await Deno.remove(join(root, name), { recursive: true });
  }
}

interface InstallOptions {
  version?: string;
  /** PyTorch's CUDA libraries are installed for a driver that serves this CUDA, "13.2"; the CPU's by default. */
  cuda?: string | null;
  /** The machines that will use it have this one; by default they are like this one. */
  architecture?: string;
  env?: Env;
  say?: (line: string) => void;
}

export async function installLibtorch(options: InstallOptions = {}): Promise<Libtorch> {
  const { cuda = null, architecture = Deno.build.arch, env = Deno.env.toObject(), say = () => {} } = options;
  const version = options.version ?? (cuda ? newestFor(cuda) : NEWEST);
  const folder = installedName(`${version}-${cuda ? "cuda" : "cpu"}`, architecture);
  const target = join(cacheFolder(env), "libtorch", folder);
  const called = `PyTorch ${version}'s ${cuda ? "CUDA libraries" : "CPU library"}${
    forMachines(architecture)
  }`;
  const check = (folder: string) => void mustWork(folder, version, env, architecture);
  const release = releaseOf(version, cuda, architecture);
  const unpack = cuda ? UNPACK_CUDA : UNPACK;
  await installWheels({ called, release, target, unpack, check, instead: INSTEAD, architecture }, env, say);
  return mustWork(target, version, env, architecture);
}

const forMachines = (architecture: string): string =>
  architecture === Deno.build.arch ? "" : ` for machines that are ${architecture}`;

function newestFor(cuda: string): string {
  const version = newestReleaseFor(cuda);
  if (version !== null) return version;
  const oldest = Math.min(...Object.values(CUDA_RELEASES).map(({ x86_64 }) => x86_64.driver));
  throw new UserError(
    "environment",
    `CUDA ${cuda} is too old: PyTorch 2.10 and newer need a driver that serves CUDA ${oldest}. Ask the site for a newer one.`,
  );
}

const INSTEAD =
  "If this machine has no network, install on one that has and copy the cache folder (~/.cache/hpctrain), " +
  "or point --libtorch DIR at a PyTorch 2.10 or newer that is here.";

function mustWork(folder: string, version: string, env: Env, architecture: string): Libtorch {
  const lib = libraryFolder(folder) ?? join(folder, "lib");
  const result = checkLibtorch(lib, "hpctrain libtorch install", env, architecture);
  const reason = !isLibtorch(result) ? result.reason : whyNoCuda(lib, result, env);
  if (isLibtorch(result) && reason === null) return result;
  throw new UserError(
    "environment",
    `PyTorch ${version} was downloaded but can't be used here: ${reason}. ` +
      `If ${cacheFolder(env)}/libtorch was damaged, remove it to have it installed afresh.`,
  );
}

function whyNoCuda(lib: string, { gpu }: Libtorch, env: Env): string | null {
  if (gpu !== null || !exists(join(lib, "libtorch_cuda.so"))) return null;
  return `libtorch_cuda.so needs ${missingOf(join(lib, "libtorch_cuda.so"), env).join(", ")}`;
}

function releaseOf(version: string, cuda: string | null, architecture: string): Release {
  const known: Readonly<Record<string, Readonly<Record<string, Release>>>> = cuda ? CUDA_RELEASES : RELEASES;
  const byArch = known[version];
  if (!byArch) {
    const versions = Object.keys(known).join(" and ");
    throw new UserError(
      "usage",
      `There is no pinned PyTorch ${version}: the versions that can be installed are ${versions}.`,
    );
  }
  const release = byArch[architecture];
  if (Deno.build.os === "linux" && release) {
    if (cuda) refuseDriver(version, release as CudaRelease, cuda);
    return release;
  }
  const of = cuda ? `No CUDA build of PyTorch ${version}` : "No PyTorch library";
  throw new UserError(
    "environment",
    `${of} is offered for ${Deno.build.os} on ${architecture}: ` +
      `Linux on ${Object.keys(byArch).join(" or ")} is needed.`,
  );
}

function refuseDriver(version: string, { driver }: CudaRelease, cuda: string): void {
  if (Number.parseInt(cuda) >= driver) return;
  throw new UserError(
    "environment",
    `PyTorch ${version} is built for CUDA ${driver}, and this machine's driver serves CUDA ${cuda}: ` +
      "leave the version out, and the newest that fits is taken.",
  );
}

// Includes everything that libtorch_cpu.so may need; not the CUDA halves, which are most of the size, nor
// Python's.
const UNPACK = `
import os, re, shutil, sys, zipfile
wheels, out = sys.argv[1], os.path.join(sys.argv[2], "lib")
wanted = re.compile(r"torch/version\\.py|torch/lib/lib[^/]*\\.so[.0-9]*|torch\\.libs/[^/]*\\.so[^/]*|nvidia/.*/lib(cudart|cupti)\\.so[.0-9]*")
unwanted = re.compile(r"libtorch_cuda|libc10_cuda|libcaffe2|libtorch_nvshmem|libtorch_python|libtorch_global|libtorch\\.so|libshm|_test\\.so|custom_ops|backend_with")
os.makedirs(out)
for name in os.listdir(wheels):
    path = os.path.join(wheels, name)
    with zipfile.ZipFile(path) as wheel:
        for entry in wheel.namelist():
            if wanted.fullmatch(entry) and not unwanted.search(entry):
                with wheel.open(entry) as source, open(os.path.join(out, os.path.basename(entry)), "wb") as to:
                    shutil.copyfileobj(source, to, 1 << 20)
`;

// The wheels' own folders, in which the libraries look for each other. Left out is what PyTorch never loads.
const UNPACK_CUDA = `
import os, re, shutil, sys, zipfile
wheels, out = sys.argv[1:]
wanted = re.compile(r"torch/version\\.py|torch/lib/lib[^/]*\\.so[.0-9]*|torch\\.libs/[^/]*\\.so[^/]*|nvidia/.*/[^/]*\\.so[.0-9]*")
unwanted = re.compile(r"libtorch_python|libtorch_global|libshm|_test\\.so|custom_ops|backend_with|libnvperf|libpcsamplingutil|libnvblas|libcusolverMg|libcheckpoint")
for name in os.listdir(wheels):
    with zipfile.ZipFile(os.path.join(wheels, name)) as wheel:
        for entry in wheel.namelist():
            if wanted.fullmatch(entry) and not unwanted.search(entry) and ".." not in entry:
                path = os.path.join(out, entry)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with wheel.open(entry) as source, open(path, "wb") as to:
                    shutil.copyfileobj(source, to, 1 << 20)
`;

/** The folder has bin/mpiexec and lib/libmpi.so.12. */
export async function installMpich(
  env = Deno.env.toObject(),
  say = (_: string) => {},
  architecture: string = Deno.build.arch,
): Promise<string> {
  const target = join(cacheFolder(env), "mpi", installedName(`mpich-${MPICH_VERSION}`, architecture));
  const release = MPICH[architecture];
  if (Deno.build.os !== "linux" || !release) {
    throw new UserError(
      "environment",
      `No MPICH is offered for ${Deno.build.os} on ${architecture}: Linux on x86_64 or aarch64 is needed.`,
    );
  }
  const called = `MPICH ${MPICH_VERSION}${forMachines(architecture)}`;
  const check = (folder: string) => mpichMustWork(folder, architecture);
  await installWheels(
    { called, release, target, unpack: UNPACK_MPICH, check, instead: INSTEAD_OF_MPICH, architecture },
    env,
    say,
  );
  check(target);
  return target;
}

function mpichMustWork(folder: string, architecture: string): void {
  const library = readElf(join(folder, "lib/libmpi.so.12"), architecture);
  const launcher = readElf(join(folder, "bin/mpiexec"), architecture);
  const reason = [library, launcher].find((result) => typeof result === "string");
  if (reason === undefined) return;
  throw new UserError(
    "environment",
    `MPICH ${MPICH_VERSION} was downloaded but can't be used here: ${reason}. If ${folder} was damaged, remove it to ` +
      "have it installed afresh.",
  );
}

const INSTEAD_OF_MPICH =
  "If this machine has no network, install on one that has and copy the cache folder (~/.cache/hpctrain), or load your " +
  "site's MPI module.";

// Library and launcher without the parts for building programs. Python's unpacking loses the executable bits.
const UNPACK_MPICH = `
import os, re, sys, zipfile
wheels, out = sys.argv[1:]
for wheel in os.listdir(wheels):
    with zipfile.ZipFile(os.path.join(wheels, wheel)) as archive:
        for entry in archive.namelist():
            found = re.fullmatch(r"mpich-[^/]*\\.data/data/((bin|lib)/.*[^/])", entry)
            if not found: continue
            path = os.path.join(out, found[1])
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as to: to.write(archive.read(entry))
            if found[2] == "bin": os.chmod(path, 0o755)
`;
