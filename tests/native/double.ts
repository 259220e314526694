// Builds the stand-ins for NVIDIA's libraries with this machine's C compiler.
import { fromFileUrl } from "paths";

/** The machine's compiler, or null: tests that need the double are skipped then, and fail where CI=true. */
export const COMPILER: string | null = ["cc", "gcc", "clang"].find((name) => {
  try {
    return new Deno.Command(name, { args: ["--version"], stdout: "null", stderr: "null" }).outputSync()
      .success;
  } catch {
    return false;
  }
}) ?? null;

/** Into the folder, under NCCL's own name; gives its path. Bound to itself: libtorch may have brought CUDA's own events. */
export const buildDouble = (folder: string): string => build("nccl_double.c", `${folder}/libnccl.so.2`);

/** The same of the library that tells of a GPU's state. */
export const buildNvmlDouble = (folder: string): string =>
  build("nvml_double.c", `${folder}/libnvidia-ml.so.1`);

/** CUDA's libraries that compute, under the names that libtorch loads them by; gives their paths. */
export const buildGpuLibraries = (folder: string): string[] =>
  ["libcudnn.so.9", "libcublas.so.12", "libnvrtc.so.12"].map((name) =>
    build("gpu_libraries_double.c", `${folder}/${name}`)
  );

const built = new Map<string, Uint8Array<ArrayBuffer>>();

/** A library out of one file of this folder, which is compiled once; gives its path. */
export function build(source: string, path: string): string {
  const before = built.get(source);
  if (before) {
    Deno.writeFileSync(path, before);
    return path;
  }
  const { success, stderr } = new Deno.Command(COMPILER!, {
    args: [
      "-O1",
      "-Wall",
      "-Wextra",
      "-Werror",
      "-shared",
      "-fPIC",
      "-Wl,-Bsymbolic",
      "-o",
      path,
      fromFileUrl(new URL(source, import.meta.url)),
      "-lpthread",
      "-ldl",
    ],
    stdout: "null",
  }).outputSync();
  if (!success) throw new Error(`the double of ${path} can't be built:\n${new TextDecoder().decode(stderr)}`);
  built.set(source, Deno.readFileSync(path));
  return path;
}
