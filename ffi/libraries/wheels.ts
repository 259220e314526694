// Puts what is needed of pinned wheels into our cache, whole or not at all. May import pins, places, errors.

import { dirname, join } from "../../deps/path.ts";
import { statfsSync } from "node:fs";
import { UserError } from "../../core/errors.ts";
import type { Release } from "./pins.ts";
import { listFolder } from "./places.ts";
import type { Env } from "./types.ts";

export interface Installation {
  /** "PyTorch 2.15.0's CPU library". */
  readonly called: string;
  readonly release: Release;
  /** The folder it becomes, beside those of other versions. */
  readonly target: string;
  /** Program in Python: takes the wheels out of a folder and puts what is needed into another. */
  readonly unpack: string;
  /** Throws where what is in a folder can't be used. */
  readonly check: (folder: string) => void;
  /** What else a person can do. */
  readonly instead: string;
}

/** Installs unless it is there already; several may ask at once. Nothing half-made is ever seen under its name. */
export async function installWheels(
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
