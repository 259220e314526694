// Puts PyTorch's CPU library into our cache from its pinned wheels. May import its siblings, errors.

import { join } from "../../deps/path.ts";
import { UserError } from "../../core/errors.ts";
import { checkLibtorch, isLibtorch } from "./check.ts";
import { NEWEST, type Release, RELEASES } from "./pins.ts";
import { cacheFolder } from "./places.ts";
import type { Env, Libtorch } from "./types.ts";
import { installWheels } from "./wheels.ts";

export interface InstallOptions {
  version?: string;
  env?: Env;
  /** Gets one line at a time. */
  say?: (line: string) => void;
}

/** Installs unless it is there already; several may ask at once. */
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

// Everything that libtorch_cpu.so may need; not the CUDA halves, which are most of the size, nor Python's.
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
