// Puts MPICH, library and launcher, into our cache from its pinned wheel, for machines without MPI. May import its
// siblings, errors.

import { join } from "../../deps/path.ts";
import { UserError } from "../../core/errors.ts";
import { readElf } from "./elf.ts";
import { MPICH, MPICH_VERSION } from "./pins.ts";
import { cacheFolder } from "./places.ts";
import { installWheels } from "./wheels.ts";

/** The folder with bin/mpiexec and lib/libmpi.so.12. */
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
    { called, release, target, unpack: UNPACK, check: mustWork, instead: INSTEAD },
    env,
    say,
  );
  mustWork(target);
  return target;
}

function mustWork(folder: string): void {
  const library = readElf(join(folder, "lib/libmpi.so.12")), launcher = readElf(join(folder, "bin/mpiexec"));
  const reason = [library, launcher].find((result) => typeof result === "string");
  if (reason === undefined) return;
  throw new UserError(
    "environment",
    `MPICH ${MPICH_VERSION} was downloaded but can't be used here: ${reason}. If ${folder} was damaged, remove it to ` +
      "have it installed afresh.",
  );
}

const INSTEAD =
  "If this machine has no network, install on one that has and copy the cache folder (~/.cache/hpctrain), or load your " +
  "site's MPI module.";

// Library and launcher, not what programs in C are built with. Python's unpacking leaves out which files are programs.
const UNPACK = `
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
