// Finds a libtorch in a fixed order of places, and decides whether this program can load it. Loads nothing.
import { basename, dirname, join, normalize, resolve } from "../../deps/path.ts";
import { architectureOf, type Elf, exists, namesSymbols, readElf } from "./elf.ts";
import { ownPython } from "./python.ts";
import { messageOf, UserError } from "../../core/base/errors.ts";
import { BACKENDS, type GpuKind } from "../gpu/backends.ts";

/** A libtorch that this program can load. */
export interface Libtorch {
  /** The folder that holds libtorch_cpu.so. */
  dir: string;
  /** Major, minor, patch. */
  version: readonly [number, number, number];
  /** As the library's own files spell it, e.g. "2.15.0+cu132". */
  versionText: string;
  /** Its half for GPUs is there and finds what it needs; the driver is not checked here. */
  gpu: GpuKind | null;
  /** A clause: it has a half for GPUs, which can't be used. */
  gpuLacks?: string;
  /** The user's name for the place: "HPCTRAIN_LIBTORCH", "the active virtual environment", ... */
  from: string;
}

/** A library without a half for GPUs may be a part of a wheel for some: "2.15.0+cu132" would say what it can't do. */
export const versionOfUse = ({ versionText, gpu }: Pick<Libtorch, "versionText" | "gpu">): string =>
  gpu === null ? versionText.replace(/\+.*$/, "") : versionText;

/** The reason is a clause: "it is too old: ...". */
export interface Rejected {
  dir: string;
  from: string;
  reason: string;
  /** It is set where the library is for other machines than this one. */
  architecture?: string;
}

export interface FoundLibtorch {
  chosen: Libtorch | null;
  usable: Libtorch[];
  rejected: Rejected[];
}

export type Env = Record<string, string>;

/** The set-up scripts share this cache; it is safe to delete. */
export function cacheFolder(env: Env): string {
  return env.HPCTRAIN_CACHE || join(env.XDG_CACHE_HOME || join(env.HOME || "/tmp", ".cache"), "hpctrain");
}

function choiceFile(env: Env): string {
  return join(env.XDG_CONFIG_HOME || join(env.HOME || "/tmp", ".config"), "hpctrain", "libtorch");
}

/** Accepts a library folder, torch package, site-packages, environment or libtorch_cpu.so. */
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

const INSTALLED = /^(\d+\.\d+\.\d+-(cpu|cuda))(?:-(aarch64))?$/;

/** A home that machines of both architectures share has a folder for each: "2.15.0-cpu", "2.15.0-cpu-aarch64". */
export const installedName = (name: string, architecture: string): string =>
  architecture === "x86_64" ? name : `${name}-${architecture}`;

export function readInstalledName(folder: string) {
  const [, name, kind, architecture = "x86_64"] = INSTALLED.exec(folder) ?? [];
  return name === undefined ? null : { name, kind, architecture };
}

/** Those for machines of this architecture come first. */
export function installedFolders(env: Env, architecture: string = Deno.build.arch): string[] {
  const root = join(cacheFolder(env), "libtorch");
  const driver = NVIDIA_DRIVER.some(exists) ? "cuda" : "cpu";
  const newestFirst = listFolder(root)
    .flatMap((folder) => {
      const found = readInstalledName(folder);
      return found ? [{ folder, ...found }] : [];
    })
    .sort((a, b) => b.folder.localeCompare(a.folder, "en", { numeric: true }));
  const fits = [
    newestFirst.filter((found) => found.architecture === architecture && found.kind === driver),
    newestFirst.filter((found) => found.architecture === architecture),
    newestFirst,
  ];
  return [...new Set(fits.flat())].map(({ folder, kind }) =>
    join(root, folder, kind === "cuda" ? "torch/lib" : "lib")
  );
}

const NVIDIA_DRIVER = ["/proc/driver/nvidia/version", "/dev/nvidiactl"];

export function listFolder(path: string): string[] {
  try {
    return [...Deno.readDirSync(path)].map((entry) => entry.name);
  } catch {
    return [];
  }
}

function holdsTorch(dir: string): boolean {
  try {
    Deno.statSync(join(dir, "libtorch_cpu.so"));
    return true;
  } catch (error) {
    // An unreadable folder is reported later, rather than as holding nothing.
    return error instanceof Deno.errors.PermissionDenied;
  }
}

const OLDEST_LIBTORCH = [2, 10, 0] as const;
/** The first whose C interface calls an operator by its name, though only one that takes no list. */
const FIRST_CALL = [2, 8, 0] as const;

/** Verbs of the C interface that came with 2.10; builds from before its release may not have them yet. */
const SINCE_210 = ["torch_call_dispatcher", "torch_new_list_reserve_size", "torch_new_string_handle"];

const NO_CALL = "can't call an operator by its name from outside C++",
  NO_LISTS = "can't be given lists from outside C++ (shapes, strides, the parameters of an optimizer)";

/** A clause, or null where it has all that is needed. */
function whatItLacks(dir: string, cpu: Elf, { version, versionText }: Version): string | null {
  if (older(version, FIRST_CALL)) return NO_CALL;
  if (older(version, OLDEST_LIBTORCH)) return NO_LISTS;
  if (!/^2\.10\.0(a|b|rc|\.dev)/.test(versionText)) return null;
  return namesSymbols(join(dir, "libtorch_cpu.so"), cpu, SINCE_210).includes(false) ? NO_LISTS : null;
}

export function checkLibtorch(
  dir: string,
  from: string,
  env: Env = Deno.env.toObject(),
  architecture: string = Deno.build.arch,
): Libtorch | Rejected {
  const reject = (reason: string): Rejected => ({ dir, from, reason });
  const unreadable = (name: string, reason: string): Rejected => {
    const theirs = architectureOf(join(dir, name));
    return {
      ...reject(reason),
      ...(theirs !== null && theirs !== architecture ? { architecture: theirs } : {}),
    };
  };
  try {
    Deno.statSync(join(dir, "libtorch_cpu.so"));
  } catch (error) {
    if (error instanceof Deno.errors.PermissionDenied) return reject("it can't be read: permission denied");
    return reject(exists(dir) ? "there is no libtorch_cpu.so in it" : "there is no such folder");
  }
  const cpu = readElf(join(dir, "libtorch_cpu.so"), architecture);
  if (typeof cpu === "string") return unreadable("libtorch_cpu.so", cpu);
  const c10 = readElf(join(dir, "libc10.so"), architecture);
  if (typeof c10 === "string") return unreadable("libc10.so", c10);
  const found = versionOf(dir, cpu);
  if (!found) {
    return reject("its version can't be told: there is no version.py, build-version or cmake file beside it");
  }
  const lacks = whatItLacks(dir, cpu, found);
  if (lacks) {
    return reject(`it is too old: version ${found.versionText} ${lacks}, and 2.10 or newer is needed`);
  }
  const search = searchFolders(env, architecture);
  const missing = [...missingNeeds(dir, cpu, search), ...missingNeeds(dir, c10, search)];
  if (missing.length > 0) {
    const places = [...originFolders(dir, cpu), "LD_LIBRARY_PATH", "the system's library folders"];
    return reject(`it needs ${missing.join(", ")}, which is not in ${places.join(", ")}`);
  }
  const gpu = gpuOf(dir, search, architecture), gpuLacks = gpu && tooOldFor(gpu, dir, found);
  return gpuLacks ? { dir, ...found, gpu: null, gpuLacks, from } : { dir, ...found, gpu, from };
}

export function isLibtorch(result: Libtorch | Rejected): result is Libtorch {
  return "version" in result;
}

/** The libraries that this one needs and this machine does not have. */
export function missingOf(path: string, env: Env): string[] {
  const elf = readElf(path);
  return typeof elf === "string" ? [elf] : missingNeeds(dirname(path), elf, searchFolders(env));
}

function gpuOf(dir: string, search: Search, architecture: string): GpuKind | null {
  const usable = Object.values(BACKENDS).find(({ torch }) => {
    const elf = readElf(join(dir, torch), architecture);
    return typeof elf !== "string" && missingNeeds(dir, elf, search).length === 0;
  });
  return usable?.kind ?? null;
}

/** A clause, or null. The rest of such a libtorch serves for training on CPUs. */
function tooOldFor(gpu: GpuKind, dir: string, { version, versionText }: Version): string | null {
  const { oldestLibtorch, words: { platform } } = BACKENDS[gpu];
  if (!older(version, oldestLibtorch)) return null;
  const [major, minor] = oldestLibtorch;
  return `the libtorch in ${dir} is ${versionText}, built for ${platform}, whose names this program knows since ` +
    `PyTorch ${major}.${minor}: ${major}.${minor} or newer is needed for ${
      BACKENDS[gpu].words.vendor
    }'s GPUs`;
}

interface Version {
  version: readonly [number, number, number];
  versionText: string;
}

function older(a: readonly number[], b: readonly number[]): boolean {
  const i = a.findIndex((part, at) => part !== b[at]);
  return i >= 0 && a[i] < b[i];
}

// The wheels carry version.py, the libtorch zip build-version, distributions only the cmake file.
function versionOf(dir: string, cpu: Elf): Version | null {
  const sources: [path: string, pattern: RegExp][] = [
    ["version.py", /^__version__\s*=\s*['"]([^'"]+)/m],
    ["../version.py", /^__version__\s*=\s*['"]([^'"]+)/m],
    ["../build-version", /^(\S+)/],
    ["../share/cmake/Torch/TorchConfigVersion.cmake", /PACKAGE_VERSION "([^"]+)"/],
    ["../../share/cmake/Torch/TorchConfigVersion.cmake", /PACKAGE_VERSION "([^"]+)"/],
  ];
  for (const [path, pattern] of sources) {
    const text = readText(join(dir, path));
    const versionText = text && pattern.exec(text)?.[1];
    const parts = versionText && /^(\d+)\.(\d+)(?:\.(\d+))?/.exec(versionText);
    if (parts) {
      return { version: [Number(parts[1]), Number(parts[2]), Number(parts[3] ?? 0)], versionText };
    }
  }
  return versionFromSymbols(dir, cpu);
}

// The stable C ABI shows the least version: enough to call it safely.
function versionFromSymbols(dir: string, cpu: Elf): Version | null {
  const symbols = [SINCE_210[0], "torch_new_stable_ivalue"];
  const [since210, since213] = namesSymbols(join(dir, "libtorch_cpu.so"), cpu, symbols);
  if (since213) return { version: [2, 13, 0], versionText: "2.13 or newer" };
  return since210 ? { version: [2, 10, 0], versionText: "2.10 or newer" } : null;
}

/** Null for another architecture's library, whose machine is not this one. */
type Search = { folders: string[]; cache: string } | null;

function searchFolders(env: Env, architecture: string = Deno.build.arch): Search {
  if (architecture !== Deno.build.arch) return null;
  const triple = `${Deno.build.arch}-linux-gnu`;
  const system = ["/lib64", "/usr/lib64", `/lib/${triple}`, `/usr/lib/${triple}`, "/lib", "/usr/lib"];
  return {
    folders: [...(env.LD_LIBRARY_PATH ?? "").split(":").filter(Boolean), ...system],
    cache: readText("/etc/ld.so.cache", "latin1") ?? "",
  };
}

function originFolders(dir: string, elf: Elf): string[] {
  const folders = elf.searchPath.map((p) => normalize(p.replace(/\$\{?ORIGIN\}?/, dir)));
  return [...new Set([dir, ...folders])];
}

// Without glibc's own parts this program would not run.
const GLIBC = /^(ld-linux.*|lib(c|m|dl|rt|pthread|util)\.so\.\d+)$/;

function missingNeeds(dir: string, elf: Elf, search: Search): string[] {
  if (search === null) return [];
  const folders = [...originFolders(dir, elf), ...search.folders];
  return elf.needed.filter((name) =>
    !GLIBC.test(name) && !search.cache.includes(`/${name}\0`) && !folders.some((f) => exists(join(f, name)))
  );
}

function readText(path: string, encoding = "utf-8"): string | null {
  try {
    return new TextDecoder(encoding).decode(Deno.readFileSync(path));
  } catch {
    return null;
  }
}

interface FindOptions {
  explicit?: string;
  env?: Env;
  exeDir?: string;
  /** `hpctrain libtorch list` looks at every place instead of stopping at the first that is usable. */
  all?: boolean;
}

interface Place {
  from: string;
  path: string;
  /** The user named it: if it can't be used, that is an error and no other is taken. */
  binding?: boolean;
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

export function findLibtorch(options: FindOptions = {}): FoundLibtorch {
  const env = options.env ?? Deno.env.toObject();
  const found: FoundLibtorch = { chosen: null, usable: [], rejected: [] };
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

/** A generator, because asking python3 costs time and is often not needed. */
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

export function chooseLibtorch(path: string, env: Env = Deno.env.toObject()): string {
  const dir = libraryFolder(resolve(path)) ?? resolve(path);
  const result = checkLibtorch(dir, "hpctrain libtorch use", env);
  if (!isLibtorch(result)) throw unusable(result);
  const file = choiceFile(env);
  try {
    Deno.mkdirSync(dirname(file), { recursive: true });
    Deno.writeTextFileSync(file, `${dir}\n`);
  } catch (error) {
    const why = messageOf(error);
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
    // Reading a named pipe would wait.
    return Deno.statSync(file).isFile ? Deno.readTextFileSync(file).trim() || null : null;
  } catch {
    return null;
  }
}

// find_spec gives the place without importing torch. `timeout` bounds a slow shared file system.
const ASK_PYTHON =
  "import importlib.util as u; s = u.find_spec('torch'); print(s.origin if s and s.origin else '')";

function pythonsTorch(env: Env): string | null {
  if (!env.PATH) return null;
  try {
    using python = ownPython(["-c", ASK_PYTHON], env, ["timeout", "5"]);
    const { success, stdout } = python.command.outputSync();
    const origin = success ? new TextDecoder().decode(stdout).trim() : "";
    return origin ? dirname(origin) : null;
  } catch {
    return null; // no `timeout` program, or no python3
  }
}

const forThisMachine =
  `\`hpctrain libtorch install\`, run here or elsewhere with --arch ${Deno.build.arch}, ` +
  `downloads one for ${Deno.build.arch}; both lie beside each other, and each machine takes its own`;

function unusable({ from, dir, reason, architecture }: Rejected): UserError {
  if (architecture !== undefined) {
    return new UserError(
      "environment",
      `The libtorch given by ${from} can't be used (${dir}): ${reason}. Leave it out: ${forThisMachine}.`,
    );
  }
  return new UserError(
    "environment",
    `The libtorch given by ${from} can't be used (${dir}): ${reason}. Give the folder that holds ` +
      `libtorch_cpu.so of PyTorch 2.10 or newer, or a folder above it such as a virtual environment; ` +
      "`hpctrain libtorch list` shows what else is on this machine, and `hpctrain libtorch install` downloads one.",
  );
}

export function noLibtorchSentence(rejected: Rejected[]): string {
  const looked = rejected.map(({ dir, from, reason }) => `\n  ${dir} (${from}): ${reason}`).join("");
  return (looked
    ? `No usable libtorch (PyTorch's library) was found:${looked}\n`
    : "No libtorch (PyTorch's library) was found on this machine.\n") +
    (rejected.some(({ architecture }) => architecture !== undefined)
      ? `For another machine's: ${forThisMachine}.\n`
      : "") +
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
