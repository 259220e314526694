// Builds the CUDA stand-in for the libtorch of the Python peer, under CUDA's names or HIP's, and gives the environment of a
// run on it.
import { fromFileUrl, join } from "paths";
import { existsSync } from "node:fs";
import { createHash } from "node:crypto";
import { cacheFolder } from "../../ffi/libraries/find.ts";
import type { GpuKind } from "../../ffi/gpu/backends.ts";
import { COMPILER } from "../native/double.ts";
import { importsOf, type NvidiaLibrary, output } from "./imports.ts";
import { copyRenamed, fileInHip, symbolInHip, symbolOfProgram } from "./renamed.ts";

const HERE = fromFileUrl(new URL("./", import.meta.url));
/** Compiles CUDA C for this host. */
const HOST = fromFileUrl(new URL("../core/compile/cuda/host.sh", import.meta.url));
const source = (name: string) => join(HERE, name);

/** The sources of each library that answers; what else libtorch imports gets stubs. */
const SOURCES: Readonly<Record<string, readonly string[]>> = {
  libcudart: ["runtime.c", "memory.c", "streams.c", "graphs.c", "kernels.c"],
  libcuda: ["driver.c"],
  "libnvidia-ml": ["nvml.c"],
  libnccl: ["nccl.c"],
  libcublas: ["cublas.c"],
  libcublasLt: ["cublas.c"],
  libcudnn: ["cudnn.c"],
  libcupti: ["tools.c"],
  libnvrtc: ["tools.c"],
};
/** HIP's runtime has the driver's functions, too. */
const SOURCES_IN_HIP: typeof SOURCES = {
  ...SOURCES,
  libcudart: [...SOURCES.libcudart, "driver.c", "hip.c"],
  "libnvidia-ml": ["rocm_smi.c"],
};
/** Halves of libtorch that are opened by CUDA's names, and that nothing here computes with. */
const LEFT_OUT_IN_HIP = /^libcaffe2_nvrtc|^libtorch_cuda_linalg/;
const NUMBERS = ["numbers.cpp", "fused.cpp"];

/** CUDA 13's wheels share a folder, CUDA 12's have one each; `crt` comes with a compiler's. */
const HEADERS = [
  ...["nvidia/cu13/include", "triton/backends/nvidia/include"],
  ...["nvidia/cuda_runtime/include", "nvidia/cuda_nvcc/include"],
];

interface Wheel {
  /** torch/lib */
  readonly lib: string;
  readonly include: string;
  /** CUDA's headers, of the same major version, and the folder that holds `crt`. */
  readonly headers: readonly string[];
  readonly version: string;
}

/** PyTorch's wheel with CUDA, in the folder of CUDA_STANDIN_WHEEL or the peer's environment; or why there is none. */
function wheelOf(): Wheel | string {
  if (Deno.build.arch !== "x86_64") return "PyTorch's wheel with CUDA is pinned for x86_64 only";
  const python = Deno.env.get("HPCTRAIN_PYTHON"), named = Deno.env.get("CUDA_STANDIN_WHEEL");
  if (!named && !python) return "HPCTRAIN_PYTHON names no Python with PyTorch";
  const site = named ?? packagesOf(python!);
  if (!site) return `${python} has no PyTorch`;
  if (!existsSync(join(site, "torch/lib/libtorch_cuda.so"))) return `the PyTorch of ${site} has no CUDA`;
  const headers = HEADERS.map((path) => join(site, path)).filter((path) => existsSync(path));
  for (const name of ["cuda_runtime_api.h", "crt/host_defines.h"]) {
    if (!headers.some((path) => existsSync(join(path, name)))) return `there is no ${name} in ${site}`;
  }
  const version = Deno.readTextFileSync(join(site, "torch/version.py"));
  return { lib: join(site, "torch/lib"), include: join(site, "torch/include"), headers, version };
}

function packagesOf(python: string): string | undefined {
  const lib = join(python, "../../lib");
  return [...Deno.readDirSync(lib)].filter(({ name }) => /^python3/.test(name))
    .map(({ name }) => join(lib, name, "site-packages")).find((path) => existsSync(join(path, "torch/lib")));
}

/** Null where the stand-in can be built. */
export const whyNoStandin: string | null = (() => {
  if (COMPILER === null) return "there is no C compiler";
  for (const tool of ["g++", "nm", "readelf"]) {
    try {
      new Deno.Command(tool, { args: ["--version"], stdout: "null", stderr: "null" }).outputSync();
    } catch {
      return `there is no ${tool}`;
    }
  }
  const wheel = wheelOf();
  return typeof wheel === "string" ? wheel : null;
})();

/** A test that is skipped where there can be no stand-in, with the reason in its name. */
export function onStandin(name: string, fn: (t: Deno.TestContext) => Promise<void>): void {
  const why = whyNoStandin;
  Deno.test({ name: why === null ? name : `${name} (skipped: ${why})`, ignore: why !== null, fn });
}

/** The names that the tests run under: ./scripts/test-hip has HIP's. */
export const KIND: GpuKind = Deno.env.get("CUDA_STANDIN_KIND") === "hip" ? "hip" : "cuda";

/** Its folder: a libtorch with the stand-in for NVIDIA's libraries beside it. Built once for all runs. */
export async function standin(kind = KIND): Promise<string> {
  const wheel = wheelOf();
  if (typeof wheel === "string") throw new Error(wheel);
  const own = /\.([ch]|cpp)$|^(standin|imports|renamed)\.ts$/;
  return await once(`${kind}-stand-in-${hashOf(wheel, own)}`, (folder) => build(wheel, folder, kind));
}

/** libtorch's libraries under HIP's names: 450 MB, so not for each change of the stand-in. */
const renamedOf = (wheel: Wheel): Promise<string> =>
  once(`hip-libtorch-${hashOf(wheel, /^renamed\.ts$/)}`, (folder) => {
    for (const name of librariesIn(wheel.lib)) {
      if (!LEFT_OUT_IN_HIP.test(name)) copyRenamed(join(wheel.lib, name), join(folder, fileInHip(name)));
    }
    return Promise.resolve();
  });

const librariesIn = (folder: string): string[] =>
  [...Deno.readDirSync(folder)].map(({ name }) => name).filter((name) => /\.so(\.|$)/.test(name));

/** The operators' numbers take most of the time, and change least: a folder of their own. */
const numbersOf = (wheel: Wheel): Promise<string> =>
  once(
    `cuda-numbers-${hashOf(wheel, /\.cpp$|^(numbers|standin)\.h$/)}`,
    (folder) => buildNumbers(wheel, folder),
  );

/** A folder of the cache; the first process that needs it makes it. */
async function once(name: string, make: (folder: string) => Promise<void>): Promise<string> {
  const folder = join(cacheFolder(Deno.env.toObject()), name);
  if (existsSync(folder)) return folder;
  Deno.mkdirSync(join(folder, ".."), { recursive: true });
  const making = Deno.makeTempDirSync({ dir: join(folder, ".."), prefix: "cuda-stand-in-making-" });
  try {
    await make(making);
    Deno.chmodSync(making, 0o755);
    Deno.renameSync(making, folder);
  } catch (error) {
    if (!existsSync(folder)) throw error; // else another process was first
  } finally {
    if (existsSync(making)) Deno.removeSync(making, { recursive: true });
  }
  return folder;
}

/** Of the wheel, and of the sources with these names. */
function hashOf({ version, lib }: Wheel, names: RegExp): string {
  const hash = createHash("sha256").update(version).update(lib);
  const all = [...Deno.readDirSync(HERE)].map(({ name }) => name).filter((name) => names.test(name));
  for (const name of all.sort()) hash.update(name).update(Deno.readFileSync(source(name)));
  return hash.digest("hex").slice(0, 12);
}

async function build(wheel: Wheel, folder: string, kind: GpuKind): Promise<void> {
  const libtorch = kind === "hip" ? await renamedOf(wheel) : wheel.lib;
  for (const name of librariesIn(libtorch)) Deno.symlinkSync(join(libtorch, name), join(folder, name));
  Deno.writeTextFileSync(join(folder, "version.py"), wheel.version);
  const numbers = numbersOf(wheel); // the longest: beside the rest
  const libraries = (await importsOf(wheel.lib)).map((one) => kind === "hip" ? inHip(one) : one);
  const runtime = libraries.find(({ name }) => name === "libcudart")!;
  await link(wheel, folder, runtime, [], kind);
  const others = libraries.filter((library) => library !== runtime);
  for (const library of others) await link(wheel, folder, library, [join(folder, runtime.soname)], kind);
  const computing = join(await numbers, "libnumbers.so");
  if (kind === "hip") copyRenamed(computing, join(folder, "libnumbers.so"));
  else Deno.symlinkSync(computing, join(folder, "libnumbers.so"));
}

const inHip = ({ name, soname, symbols }: NvidiaLibrary): NvidiaLibrary => ({
  name,
  soname: fileInHip(soname),
  symbols: new Map([...symbols].map(([symbol, version]) => [symbolInHip(symbol), fileInHip(version)])),
});

/** What it calls of the stand-in comes with libtorch_cuda.so. */
async function buildNumbers(wheel: Wheel, folder: string): Promise<void> {
  const objects = await Promise.all(NUMBERS.map((name) => compileNumbers(wheel, folder, name)));
  const libraries = ["-ltorch_cpu", "-ltorch_cuda", "-lc10", "-lc10_cuda", "-Wl,--allow-shlib-undefined"];
  await output("g++", [
    ...["-shared", "-o", join(folder, "libnumbers.so"), ...objects, `-L${wheel.lib}`, ...libraries],
  ]);
  for (const path of objects) Deno.removeSync(path);
}

async function compileNumbers({ include, headers }: Wheel, folder: string, name: string): Promise<string> {
  const object = join(folder, name.replace(".cpp", ".o"));
  await output("g++", [
    ...["-c", "-std=c++20", "-O1", "-fPIC", "-DC10_CUDA_NO_CMAKE_CONFIGURE_FILE", source(name), "-o", object],
    ...[include, join(include, "torch/csrc/api/include"), ...headers].map((path) => `-I${path}`),
  ]);
  return object;
}

/** Its own sources, and stubs for the imported symbols that they lack. */
async function link(
  wheel: Wheel,
  folder: string,
  library: NvidiaLibrary,
  needs: string[],
  kind: GpuKind,
): Promise<void> {
  const { name, soname, symbols } = library, objects: string[] = [];
  const sources = kind === "hip" ? SOURCES_IN_HIP : SOURCES;
  for (const file of sources[name] ?? []) {
    const object = join(folder, `${name}-${file}.o`);
    const warnings = ["-Wall", "-Wextra", "-Wno-empty-body", "-Werror"];
    const headers = wheel.headers.map((path) => `-I${path}`);
    const define = [`-DSTANDIN_${name.replaceAll("-", "_")}`, ...(kind === "hip" ? ["-DSTANDIN_HIP"] : [])];
    await output(COMPILER!, [
      ...["-c", "-O2", "-fPIC", ...warnings, ...define, ...headers, source(file), "-o", object],
    ]);
    objects.push(object);
    if (kind === "hip" && name !== "libcuda") objects.push(...await renameFunctions(object, folder));
  }
  const stubs = join(folder, `${name}-stubs.c`), map = join(folder, `${name}.map`);
  const defined = objects.length > 0 ? await output("nm", ["--defined-only", "-g", ...objects]) : "";
  const there = new Set(defined.split("\n").map((line) => line.split(" ").at(-1)));
  const missing = [...symbols.keys()].filter((symbol) => !there.has(symbol)).sort();
  const lines = missing.map((symbol) =>
    `int ${symbol}(void) { return standin_stub("${name}", "${symbol}"); }`
  );
  const declared = "int standin_stub(const char *library, const char *name);";
  Deno.writeTextFileSync(stubs, [declared, ...lines, ""].join("\n"));
  const version = [...symbols.values()].find((v) => v !== "") ?? soname.replaceAll(/[^\w.]/g, "_");
  Deno.writeTextFileSync(map, `${version} { global: *; };\n`);
  await output(COMPILER!, [
    ...["-shared", "-fPIC", `-Wl,-soname,${soname}`, `-Wl,--version-script=${map}`, "-Wl,-rpath,$ORIGIN"],
    ...[stubs, ...objects, ...needs, "-o", join(folder, soname), "-lpthread", "-ldl", "-lrt"],
  ]);
  for (const path of [stubs, map, ...objects]) Deno.removeSync(path);
}

/**
 * An object's functions of CUDA get HIP's names. libtorch asks for the compiler's under CUDA's, which are shorter, so these
 * are there twice. Where the runtime and the driver have one name in HIP, it is the runtime's function.
 */
async function renameFunctions(object: string, folder: string): Promise<string[]> {
  const names = (await output("nm", ["-g", object])).split("\n").map((line) => line.split(" ").at(-1)!);
  const changed = names.map((name) => [name, symbolOfProgram(name)]).filter(([from, to]) => from !== to);
  if (changed.length === 0) return [];
  const list = join(folder, "functions"), twice = changed.some(([from]) => from.startsWith("nvrtc"));
  Deno.writeTextFileSync(list, changed.map((pair) => pair.join(" ")).join("\n") + "\n");
  const to = twice ? object.replace(/\.o$/, "-hip.o") : object;
  const weak = object.endsWith("driver.c.o") ? ["--weaken"] : [];
  await output("objcopy", [...weak, `--redefine-syms=${list}`, object, to]);
  Deno.removeSync(list);
  return twice ? [to] : [];
}

export interface StandinOptions {
  /** Whose names; KIND where left out. */
  readonly kind?: GpuKind;
  /** Work runs when somebody waits for it, or after so many milliseconds; 0: only then. */
  readonly lateMs?: number | null;
  /** Operators compute; else kernels are counted and do nothing. */
  readonly numbers?: boolean;
  readonly more?: Record<string, string>;
}

/** The stand-in's libcudart: libcudart.so.12 or .13; or libamdhip64.so. */
export function runtimeOf(folder: string): string {
  const [name] = librariesIn(folder).filter((name) => /^lib(cudart|amdhip64)\.so/.test(name));
  return join(folder, name);
}

/** The environment of a run on the stand-in. */
export function standinEnv(folder: string, { lateMs = null, numbers = true, more }: StandinOptions = {}) {
  return {
    HPCTRAIN_LIBTORCH: folder,
    HPCTRAIN_NCCL: join(folder, librariesIn(folder).find((name) => /^lib[nr]ccl\.so/.test(name))!),
    LD_LIBRARY_PATH: folder,
    CUDA_STANDIN_HOST: HOST,
    CUDA_STANDIN_NUMBERS: numbers ? join(folder, "libnumbers.so") : "",
    ...(lateMs === null ? {} : { CUDA_STANDIN_LATE: "1", CUDA_STANDIN_TICK_MS: String(lateMs) }),
    OMP_NUM_THREADS: "1",
    ...more,
  };
}
