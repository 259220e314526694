// Finds the libtorch to use, in a fixed order of places, and says why the others were not taken. Loads nothing.

import { dirname, join, resolve } from "../../deps/path.ts";
import { UserError } from "../../core/errors.ts";
import { checkLibtorch, isLibtorch } from "./check.ts";
import { choiceFile, holdsTorch, installedFolders, libraryFolder } from "./places.ts";
import type { Env, Found, Rejected } from "./types.ts";

export interface FindOptions {
  /** What --libtorch said. */
  explicit?: string;
  env?: Env;
  /** The executable's own folder. */
  exeDir?: string;
  /** Look at every place, as `hpctrain libtorch list` does, instead of stopping at the first that is usable. */
  all?: boolean;
}

interface Place {
  from: string;
  path: string;
  /** The user named it: if it can't be used, that is an error and no other is taken. */
  binding?: boolean;
  /** Only worth a word if there is a libtorch in it. */
  quiet?: boolean;
}

const MODULE_VARIABLES = [
  "LIBTORCH",
  "LIBTORCH_HOME",
  "LIBTORCH_ROOT",
  "LIBTORCH_DIR",
  "Torch_DIR",
  "Torch_ROOT",
  "EBROOTPYTORCH",
  "EBROOTLIBTORCH",
  "PYTORCH_ROOT",
  "PYTORCH_HOME",
  "PYTORCH_DIR",
];

export function findLibtorch(options: FindOptions = {}): Found {
  const env = options.env ?? Deno.env.toObject();
  const found: Found = { chosen: null, usable: [], rejected: [] };
  const seen = new Set<string>();
  let refused = false; // the user named one that can't be used: no other may take its place
  for (const place of places(options, env)) {
    const dir = libraryFolder(place.path);
    if (dir === null && place.quiet) continue;
    const id = realPath(dir ?? place.path);
    if (seen.has(id)) continue;
    seen.add(id);
    const result = checkLibtorch(dir ?? place.path, place.from, env);
    if (!isLibtorch(result)) {
      if (place.binding && !options.all) throw unusable(result);
      refused ||= place.binding ?? false;
      found.rejected.push(result);
      continue;
    }
    found.usable.push(result);
    if (!refused) found.chosen ??= result;
    if (!options.all) break;
  }
  return found;
}

/** Every place in order of preference; a generator, because asking python3 costs time and is often not needed. */
function* places(options: FindOptions, env: Env): Generator<Place> {
  if (options.explicit) yield { from: "--libtorch", path: resolve(options.explicit), binding: true };
  if (env.HPCTRAIN_LIBTORCH) {
    yield { from: "HPCTRAIN_LIBTORCH", path: resolve(env.HPCTRAIN_LIBTORCH), binding: !options.explicit };
  }
  const remembered = rememberedChoice(env);
  if (remembered) yield { from: "hpctrain libtorch use", path: remembered };
  const exeDir = options.exeDir ?? dirname(Deno.execPath());
  for (const folder of ["libtorch", "lib", "torch/lib"]) {
    yield { from: "beside the executable", path: join(exeDir, folder), quiet: true };
  }
  for (const name of ["VIRTUAL_ENV", "CONDA_PREFIX"]) {
    if (env[name]) yield { from: name, path: env[name] };
  }
  for (const path of (env.LD_LIBRARY_PATH ?? "").split(":").filter((p) => p && holdsTorch(p))) {
    yield { from: "LD_LIBRARY_PATH", path };
  }
  for (const name of MODULE_VARIABLES) {
    if (env[name]) yield { from: name, path: env[name] };
  }
  const package_ = pythonsTorch(env);
  if (package_) yield { from: "python3's torch", path: package_ };
  for (const path of installedFolders(env)) yield { from: "hpctrain libtorch install", path };
}

/** Remembers a folder for later runs. Refuses one that can't be used. */
export function chooseLibtorch(path: string, env: Env = Deno.env.toObject()): string {
  const dir = libraryFolder(resolve(path)) ?? resolve(path);
  const result = checkLibtorch(dir, "hpctrain libtorch use", env);
  if (!isLibtorch(result)) throw unusable(result);
  const file = choiceFile(env);
  try {
    Deno.mkdirSync(dirname(file), { recursive: true });
    Deno.writeTextFileSync(file, `${dir}\n`);
  } catch (error) {
    const why = (error as Error).message;
    throw new UserError(
      "environment",
      `The choice could not be written to ${file} (${why}). Set HPCTRAIN_LIBTORCH=${dir} instead.`,
    );
  }
  return file;
}

function rememberedChoice(env: Env): string | null {
  try {
    const file = choiceFile(env);
    // A named pipe would be waited for.
    return Deno.statSync(file).isFile ? Deno.readTextFileSync(file).trim() || null : null;
  } catch {
    return null;
  }
}

// find_spec gives the place without importing torch. The working folder is taken off the path: a folder of the
// user's that happens to be called torch is not PyTorch. `timeout` bounds a slow shared file system.
const ASK_PYTHON = "import sys; sys.path.pop(0); import importlib.util as u; " +
  "s = u.find_spec('torch'); print(s.origin if s and s.origin else '')";

function pythonsTorch(env: Env): string | null {
  if (!env.PATH) return null;
  try {
    const { success, stdout } = new Deno.Command("timeout", {
      args: ["5", "python3", "-c", ASK_PYTHON],
      clearEnv: true,
      env,
      stderr: "null",
    }).outputSync();
    const origin = success ? new TextDecoder().decode(stdout).trim() : "";
    return origin ? dirname(origin) : null;
  } catch {
    return null; // no `timeout` program, or no python3
  }
}

function unusable({ from, dir, reason }: Rejected): UserError {
  return new UserError(
    "environment",
    `The libtorch given by ${from} can't be used (${dir}): ${reason}. Give the folder that holds ` +
      `libtorch_cpu.so of PyTorch 2.10 or newer, or a folder above it such as a virtual environment; ` +
      "`hpctrain libtorch list` shows what else is on this machine.",
  );
}

/** What to say when nothing usable was found: each place with its reason, then what to do. */
export function noLibtorchSentence(rejected: Rejected[]): string {
  const looked = rejected.map(({ dir, from, reason }) => `\n  ${dir} (${from}): ${reason}`).join("");
  return (looked
    ? `No usable libtorch (PyTorch's library) was found:${looked}\n`
    : "No libtorch (PyTorch's library) was found on this machine.\n") +
    "To get one: `hpctrain libtorch install` downloads PyTorch's CPU library; `--libtorch DIR` or HPCTRAIN_LIBTORCH=DIR " +
    "names one that you have (2.10 or newer); loading your site's PyTorch module or activating its environment also works.";
}

function realPath(path: string): string {
  try {
    return Deno.realPathSync(path);
  } catch {
    return path;
  }
}
