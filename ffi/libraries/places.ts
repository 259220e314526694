// Where a libtorch may be: our own folders, and how a path that a person gives becomes a library folder.

import { basename, dirname, join } from "../../deps/path.ts";
import type { Env } from "./types.ts";

/** The cache that the set-up scripts share: ours alone, safe to delete. */
export function cacheFolder(env: Env): string {
  return env.HPCTRAIN_CACHE || join(env.XDG_CACHE_HOME || join(env.HOME || "/tmp", ".cache"), "hpctrain");
}

/** The file that remembers `hpctrain libtorch use DIR`. */
export function choiceFile(env: Env): string {
  return join(env.XDG_CONFIG_HOME || join(env.HOME || "/tmp", ".config"), "hpctrain", "libtorch");
}

/** A library folder, torch package, site-packages, environment or libtorch_cpu.so: the folder it means, or null. */
export function libraryFolder(path: string): string | null {
  if (basename(path) === "libtorch_cpu.so") return dirname(path);
  if (path.endsWith("/share/cmake/Torch")) return join(path, "../../../lib"); // what Torch_DIR names
  const fixed = [path, join(path, "lib"), join(path, "torch/lib"), join(path, "lib64")];
  return fixed.find(holdsTorch) ?? pythonFolders(path).find(holdsTorch) ?? null;
}

function pythonFolders(prefix: string): string[] {
  return ["lib", "lib64"].flatMap((lib) =>
    listFolder(join(prefix, lib))
      .filter((name) => name.startsWith("python3"))
      .flatMap((name) =>
        ["site-packages", "dist-packages"].map((p) => join(prefix, lib, name, p, "torch/lib"))
      )
  );
}

/** Versions that `hpctrain libtorch install` put into the cache, newest first. */
export function installedFolders(env: Env): string[] {
  const root = join(cacheFolder(env), "libtorch");
  return listFolder(root)
    .filter((name) => /^\d+\.\d+\.\d+-cpu$/.test(name))
    .sort((a, b) => b.localeCompare(a, "en", { numeric: true }))
    .map((name) => join(root, name, "lib"));
}

export function listFolder(path: string): string[] {
  try {
    return [...Deno.readDirSync(path)].map((entry) => entry.name);
  } catch {
    return [];
  }
}

export function holdsTorch(dir: string): boolean {
  try {
    Deno.statSync(join(dir, "libtorch_cpu.so"));
    return true;
  } catch (error) {
    // A folder we may not look into is reported as such later, rather than as holding nothing.
    return error instanceof Deno.errors.PermissionDenied;
  }
}
