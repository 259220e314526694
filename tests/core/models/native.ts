// Opens libtorch for a test file and runs the Python peer beside it. Test helper.
import { openedLibtorch } from "../../../ffi/library.ts";
import { readBytes } from "../../../ffi/make.ts";
import { setThreads } from "../../../ffi/context.ts";
import type { Tensor } from "../../../ffi/tensor.ts";
import { useLibtorch } from "../../libtorch.ts";
import { askPeer } from "../../peer.ts";

/** One thread: sums then have one order. */
export function open(): void {
  useLibtorch();
  setThreads(1);
}

/** The answers of tests/peers/models/<program> to the cases. */
export async function peer<T>(program: string, cases: readonly unknown[]): Promise<T[]> {
  const { torch, answers } = await askPeer<{ torch: string; answers: T[] }>(`models/${program}`, cases);
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
