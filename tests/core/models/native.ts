// Opens libtorch for a test file and runs the Python peer beside it. Test helper.
import { checkLibtorch } from "../../../ffi/libraries/check.ts";
import { openedLibtorch, openLibtorch } from "../../../ffi/library.ts";
import { readBytes } from "../../../ffi/make.ts";
import { setThreads } from "../../../ffi/random.ts";
import type { Tensor } from "../../../ffi/tensor.ts";

/** Opens the libtorch that HPCTRAIN_LIBTORCH names, with one thread: sums then have one order. */
export function open(): void {
  const dir = Deno.env.get("HPCTRAIN_LIBTORCH");
  if (!dir) throw new Error("set HPCTRAIN_LIBTORCH to a folder with libtorch: these tests compute with it");
  openLibtorch(checkLibtorch(dir, "env") as Parameters<typeof openLibtorch>[0]);
  setThreads(1);
}

/** The answers of tests/peers/models/<program> to the cases. HPCTRAIN_PYTHON names a Python that has torch. */
export async function peer<T>(program: string, cases: readonly unknown[]): Promise<T[]> {
  const python = Deno.env.get("HPCTRAIN_PYTHON");
  if (!python) throw new Error("set HPCTRAIN_PYTHON to a Python that has torch and torchvision");
  const path = new URL(`../../peers/models/${program}`, import.meta.url).pathname;
  const process = new Deno.Command(python, {
    args: ["-B", path],
    stdin: "piped",
    stdout: "piped",
    stderr: "piped",
  })
    .spawn();
  const writer = process.stdin.getWriter();
  await writer.write(new TextEncoder().encode(JSON.stringify(cases)));
  await writer.close();
  const { success, stdout, stderr } = await process.output();
  if (!success) throw new Error(`the Python peer failed:\n${new TextDecoder().decode(stderr)}`);
  const { torch, answers } = JSON.parse(new TextDecoder().decode(stdout));
  const ours = openedLibtorch().versionText;
  if (publicPart(torch) !== publicPart(ours)) {
    throw new Error(
      `bits are compared between equal versions: Python has torch ${torch}, and libtorch is ${ours}`,
    );
  }
  return answers;
}

/** "2.15.0+cu132" -> "2.15.0": a build without CUDA computes the same on the host. */
const publicPart = (version: string) => version.split("+")[0];

/** "f32[2, 3] 1f0c..": data type, shape and SHA-256 of a tensor's bytes. Two tensors with one print are equal. */
export async function print(t: Tensor): Promise<string> {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", readBytes(t)));
  return `${t.dtype}[${t.shape.join(", ")}] ${digest.toHex()}`;
}
