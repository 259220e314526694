// Builds the stand-in for NCCL with this machine's C compiler. Test helper; may import std/path.
import { fromFileUrl } from "@std/path";

const SOURCE = fromFileUrl(new URL("./nccl_double.c", import.meta.url));

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
export function buildDouble(folder: string): string {
  const path = `${folder}/libnccl.so.2`;
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
      SOURCE,
      "-lpthread",
    ],
    stdout: "null",
  }).outputSync();
  if (!success) throw new Error(`the double of NCCL can't be built:\n${new TextDecoder().decode(stderr)}`);
  return path;
}
