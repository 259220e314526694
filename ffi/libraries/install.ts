// Puts PyTorch's CPU library into our cache from its pinned wheels, whole or not at all. May import its siblings.

import { join } from "@std/path";
import { statfsSync } from "node:fs";
import { UserError } from "../../core/errors.ts";
import { checkLibtorch, isLibtorch } from "./check.ts";
import { NEWEST, type Release, RELEASES } from "./pins.ts";
import { cacheFolder, listFolder } from "./places.ts";
import type { Env, Libtorch } from "./types.ts";

export interface InstallOptions {
  version?: string;
  env?: Env;
  /** Gets one line at a time. */
  say?: (line: string) => void;
}

/** Installs unless it is there already; several may ask at once. Nothing half-made is ever seen under its name. */
export async function installLibtorch(options: InstallOptions = {}): Promise<Libtorch> {
  const { version = NEWEST, env = Deno.env.toObject(), say = () => {} } = options;
  const release = releaseOf(version);
  const root = join(cacheFolder(env), "libtorch");
  const target = join(root, `${version}-cpu`);
  await makeFolder(root);
  using lock = await Deno.open(join(root, ".lock"), { create: true, write: true });
  await lock.lock(true); // let go of by the system, however this process ends
  if (!listFolder(target).includes("installed.json")) {
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
      await assemble(release, { version, root, work, target, env, say });
    } finally {
      Deno.removeSignalListener("SIGINT", interrupted);
      Deno.removeSignalListener("SIGTERM", interrupted);
      cleanUp();
    }
  }
  return mustWork(target, version, env);
}

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

interface Job {
  version: string;
  root: string;
  work: string;
  target: string;
  env: Env;
  say: (line: string) => void;
}

async function assemble(release: Release, job: Job): Promise<void> {
  const { version, root, work, target, env, say } = job;
  checkSpace(root, release);
  const out = join(work, "out"), wheels = join(work, "wheels"), temp = join(work, "tmp");
  for (const folder of [join(out, "lib"), wheels, temp]) await Deno.mkdir(folder, { recursive: true });
  say(`Downloading PyTorch ${version}'s CPU library (${release.download} MB, once) to ${root}`);
  const stopProgress = showProgress(temp, release.download, say);
  try {
    await download(release, work, { ...env, TMPDIR: temp });
  } finally {
    stopProgress();
  }
  say("Unpacking it");
  await python(
    ["-c", UNPACK, wheels, join(out, "lib")],
    env,
    `The downloaded PyTorch ${version} could not be unpacked`,
  );
  mustWork(out, version, env);
  await Deno.writeTextFile(
    join(out, "installed.json"),
    JSON.stringify({ version, wheels: release.wheels }, null, 2),
  );
  await python(["-c", SYNC, out], env, `The unpacked PyTorch ${version} could not be written to the disk`);
  await Deno.remove(target, { recursive: true }).catch(() => {});
  await Deno.rename(out, target);
}

async function download(release: Release, work: string, env: Env): Promise<void> {
  const pins = join(work, "pins.txt");
  await Deno.writeTextFile(
    pins,
    release.wheels.map((w) => `${w.requirement} --hash=sha256:${w.sha256}\n`).join(""),
  );
  const platforms = ["manylinux_2_28", "manylinux_2_25", "manylinux_2_17", "manylinux2014"];
  await python(
    [
      ...["-m", "pip", "download", "--quiet", "--no-deps", "--no-cache-dir", "--disable-pip-version-check"],
      ...["--only-binary=:all:", "--require-hashes", "--python-version", "3.11", "--implementation", "cp"],
      ...platforms.flatMap((p) => ["--platform", `${p}_${Deno.build.arch}`]),
      ...["--requirement", pins, "--dest", join(work, "wheels")],
    ],
    env,
    "PyTorch's library could not be downloaded",
  );
}

// Everything that libtorch_cpu.so may need; not the CUDA halves, which are most of the size, nor Python's.
const UNPACK = `
import os, re, shutil, sys, zipfile
wheels, out = sys.argv[1:]
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

const SYNC = "import os, sys; [os.fsync(os.open(os.path.join(d, f), os.O_RDONLY)) " +
  "for d, _, fs in os.walk(sys.argv[1]) for f in fs]";

async function python(args: string[], env: Env, failed: string): Promise<void> {
  let output: Deno.CommandOutput;
  try {
    output = await new Deno.Command("python3", { args, env, clearEnv: true, stdout: "null", stderr: "piped" })
      .output();
  } catch {
    throw new UserError("environment", `${failed}: there is no python3 on PATH. ${INSTEAD}`);
  }
  if (output.success) return;
  const said = new TextDecoder().decode(output.stderr).trim();
  if (said.includes("No module named pip")) {
    throw new UserError(
      "environment",
      `${failed}: this python3 has no pip (try \`python3 -m ensurepip\`). ${INSTEAD}`,
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
    `${failed}:\n  ${last || `python3 ended with code ${output.code}`}\n${INSTEAD}`,
  );
}

const INSTEAD =
  "If this machine has no network, install on one that has and copy the cache folder (~/.cache/hpctrain), " +
  "or point --libtorch DIR at a PyTorch 2.10 or newer that is here.";

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

function checkSpace(root: string, release: Release): void {
  const { bavail, bsize } = statfsSync(root);
  const free = Math.floor(Number(bavail) * Number(bsize) / 1e6),
    needed = 2 * release.download + release.unpacked;
  if (free >= needed) return;
  throw new UserError(
    "environment",
    `${needed} MB are needed in ${root} to install PyTorch's library (${release.unpacked} MB stay), and ${free} MB are ` +
      "free. Free some, or set HPCTRAIN_CACHE to a folder with room.",
  );
}

async function makeFolder(root: string): Promise<void> {
  try {
    await Deno.mkdir(root, { recursive: true });
  } catch (error) {
    const why = (error as Error).message;
    throw new UserError(
      "environment",
      `The cache folder ${root} can't be made (${why}). Set HPCTRAIN_CACHE to a folder you can write to.`,
    );
  }
}

// What a killed installation left; the lock is ours, so no other is at work.
async function removeLeftovers(root: string): Promise<void> {
  for (const name of listFolder(root).filter((n) => n.startsWith(".partial-"))) {
    await Deno.remove(join(root, name), { recursive: true });
  }
}
