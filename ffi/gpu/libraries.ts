// The libraries of CUDA that compute for libtorch's half for GPUs: which of several the loader took, by this process's memory.
import { libraryNamed } from "../libraries/elf.ts";
import { openNvrtc } from "../nvrtc.ts";

export interface GpuLibrary {
  readonly name: "cuDNN" | "cuBLAS" | "NVRTC";
  /** It is null where none is loaded. */
  readonly path: string | null;
  /** It is null where the library does not tell it. */
  readonly version: string | null;
}

const CUDNN = "libcudnn.so", CUBLAS = "libcublas.so";

/** Call it after libtorch was opened. */
export function gpuLibraries(): GpuLibrary[] {
  const nvrtc = openNvrtc();
  return [
    { name: "cuDNN", path: loaded(CUDNN), version: cudnnVersion() },
    { name: "cuBLAS", path: loaded(CUBLAS), version: cublasVersion() },
    { name: "NVRTC", path: nvrtc?.path ?? null, version: nvrtc?.version ?? null },
  ];
}

/** "9.26.0"; null where libtorch has loaded none. */
export function cudnnVersion(): string | null {
  return ask(CUDNN, { cudnnGetVersion: { parameters: [], result: "usize" } }, ({ cudnnGetVersion }) => {
    const version = Number(cudnnGetVersion()), major = version >= 90000 ? 10000 : 1000;
    return [Math.floor(version / major), Math.floor(version % major / 100), version % 100].join(".");
  });
}

/** "13.4.1" */
function cublasVersion(): string | null {
  const property = { cublasGetProperty: { parameters: ["i32", "buffer"], result: "i32" } } as const;
  return ask(CUBLAS, property, ({ cublasGetProperty }) => {
    const number = new Int32Array(1), part = new Uint8Array(number.buffer);
    const parts = [0, 1, 2].map((which) => cublasGetProperty(which, part) === 0 ? number[0] : null);
    return parts.includes(null) ? null : parts.join(".");
  });
}

function loaded(name: string): string | null {
  const path = libraryNamed(name);
  return path === name ? null : path;
}

function ask<const I extends Deno.ForeignLibraryInterface>(
  name: string,
  functions: I,
  question: (symbols: Deno.DynamicLibrary<I>["symbols"]) => string | null,
): string | null {
  const path = loaded(name);
  if (path === null) return null;
  try {
    const library = Deno.dlopen(path, functions);
    try {
      return question(library.symbols);
    } finally {
      library.close();
    }
  } catch {
    return null;
  }
}
