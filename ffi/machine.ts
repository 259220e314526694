export function glibcVersion(): string | null {
  return ask("libc.so.6", { gnu_get_libc_version: { parameters: [], result: "pointer" } }, (libc) => {
    const text = libc.gnu_get_libc_version();
    return text && new Deno.UnsafePointerView(text).getCString();
  });
}

/** The processor's abilities in Linux's words: "avx2", "avx512f". Empty where nothing tells. */
function cpuFlags(): ReadonlySet<string> {
  try {
    const line = Deno.readTextFileSync("/proc/cpuinfo").match(/^flags\s*:(.*)$/m);
    return new Set(line?.[1].trim().split(/\s+/));
  } catch {
    return new Set();
  }
}

/** The vector instructions of compiled steps. */
export type Isa = "avx512" | "avx2";

const AVX2 = ["avx2", "fma"];
const AVX512 = [...AVX2, "avx512f", "avx512dq", "avx512vl"];

/**
 * Null where neither set is whole. libtorch's own ATEN_CPU_CAPABILITY ("avx2", "default") holds here too, so that
 * both compute with the same width.
 */
export function isaOf(flags: ReadonlySet<string>, capability: string | undefined): Isa | null {
  const has = (wanted: readonly string[]) => wanted.every((flag) => flags.has(flag));
  if (capability === "default" || !has(AVX2)) return null;
  return has(AVX512) && capability !== "avx2" ? "avx512" : "avx2";
}

export function machineIsa(): Isa | null {
  if (Deno.build.arch !== "x86_64" || Deno.build.os !== "linux") return null;
  return isaOf(cpuFlags(), Deno.env.get("ATEN_CPU_CAPABILITY")?.toLowerCase());
}

/** The reason, where machineIsa gives null. */
export const noIsa = (): string =>
  Deno.build.arch === "x86_64"
    ? "this processor has no AVX2"
    : `compiled steps are code for x86-64, and this processor is ${Deno.build.arch}`;

/** The newest CUDA that the driver serves, "13.2"; null without a driver. */
export function driversCuda(): string | null {
  const symbols = { cuDriverGetVersion: { parameters: ["buffer"], result: "i32" } } as const;
  return ask("libcuda.so.1", symbols, (cu) => {
    const version = new Int32Array(1);
    if (cu.cuDriverGetVersion(version) !== 0 || version[0] === 0) return null;
    return `${Math.floor(version[0] / 1000)}.${Math.floor(version[0] % 1000 / 10)}`;
  });
}

function ask<I extends Deno.ForeignLibraryInterface, R>(
  name: string,
  symbols: I,
  use: (library: Deno.DynamicLibrary<I>["symbols"]) => R,
): R | null {
  try {
    const library = Deno.dlopen(name, symbols);
    try {
      return use(library.symbols);
    } finally {
      library.close();
    }
  } catch {
    return null;
  }
}
