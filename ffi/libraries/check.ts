// Decides whether a folder holds a libtorch that this program can load. Loads nothing. May import elf, types, path.

import { join, normalize } from "../../deps/path.ts";
import { type Elf, namesSymbols, readElf } from "./elf.ts";
import type { Env, Libtorch, Rejected } from "./types.ts";

export const OLDEST = [2, 10, 0] as const;

/** The libtorch in `dir`, or the reason why it can't be used. */
export function checkLibtorch(
  dir: string,
  from: string,
  env: Env = Deno.env.toObject(),
): Libtorch | Rejected {
  const reject = (reason: string): Rejected => ({ dir, from, reason });
  try {
    Deno.statSync(join(dir, "libtorch_cpu.so"));
  } catch (error) {
    if (error instanceof Deno.errors.PermissionDenied) return reject("it can't be read: permission denied");
    return reject(exists(dir) ? "there is no libtorch_cpu.so in it" : "there is no such folder");
  }
  const cpu = readElf(join(dir, "libtorch_cpu.so"));
  if (typeof cpu === "string") return reject(cpu);
  const c10 = readElf(join(dir, "libc10.so"));
  if (typeof c10 === "string") return reject(c10);
  const found = versionOf(dir, cpu);
  if (!found) {
    return reject("its version can't be told: there is no version.py, build-version or cmake file beside it");
  }
  if (older(found.version, OLDEST)) {
    return reject(`it is too old: version ${found.versionText}, and 2.10 or newer is needed`);
  }
  const search = searchFolders(env);
  const missing = [...missingNeeds(dir, cpu, search), ...missingNeeds(dir, c10, search)];
  if (missing.length > 0) {
    const places = [...originFolders(dir, cpu), "LD_LIBRARY_PATH", "the system's library folders"];
    return reject(`it needs ${missing.join(", ")}, which is not in ${places.join(", ")}`);
  }
  return { dir, ...found, cuda: hasCuda(dir, search), from };
}

export function isLibtorch(result: Libtorch | Rejected): result is Libtorch {
  return "version" in result;
}

function hasCuda(dir: string, search: Search): boolean {
  const cuda = readElf(join(dir, "libtorch_cuda.so"));
  return typeof cuda !== "string" && missingNeeds(dir, cuda, search).length === 0;
}

interface Version {
  version: readonly [number, number, number];
  versionText: string;
}

export function older(a: readonly number[], b: readonly number[]): boolean {
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

// The stable C ABI says at least which version it is as old as: enough to call it safely.
function versionFromSymbols(dir: string, cpu: Elf): Version | null {
  const symbols = ["torch_call_dispatcher", "torch_new_stable_ivalue"];
  const [since210, since213] = namesSymbols(join(dir, "libtorch_cpu.so"), cpu, symbols);
  if (since213) return { version: [2, 13, 0], versionText: "2.13 or newer" };
  return since210 ? { version: [2, 10, 0], versionText: "2.10 or newer" } : null;
}

interface Search {
  folders: string[];
  /** The loader's cache of the system's libraries, as text to search in. */
  cache: string;
}

function searchFolders(env: Env): Search {
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

// glibc's own parts are there or this program would not run, so they are not looked for.
const GLIBC = /^(ld-linux.*|lib(c|m|dl|rt|pthread|util)\.so\.\d+)$/;

function missingNeeds(dir: string, elf: Elf, search: Search): string[] {
  const folders = [...originFolders(dir, elf), ...search.folders];
  return elf.needed.filter((name) =>
    !GLIBC.test(name) && !search.cache.includes(`/${name}\0`) && !folders.some((f) => exists(join(f, name)))
  );
}

function exists(path: string): boolean {
  try {
    Deno.statSync(path);
    return true;
  } catch {
    return false;
  }
}

function readText(path: string, encoding = "utf-8"): string | null {
  try {
    return new TextDecoder(encoding).decode(Deno.readFileSync(path));
  } catch {
    return null;
  }
}
