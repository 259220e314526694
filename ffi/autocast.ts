// libtorch's own autocast: the list of which op runs in which type is the library's.
import { native } from "./abi.ts";
import { dtypeCode } from "./dtype.ts";
import { need } from "./library.ts";

const CPU = 0, CUDA = 1;

/** What autocast computes in. */
export type Half = "bf16" | "f16";

let now: Half | null = null;

/** Runs body with autocast to `dtype`; null runs it without. The cache of cast weights is cleared at the end. */
export function autocast<R>(dtype: Half | null, onGpu: boolean, body: () => R): R {
  if (dtype === now) return body();
  const before = now;
  switchTo(dtype, onGpu);
  try {
    return body();
  } finally {
    switchTo(before, onGpu);
    if (before === null) native.clearAutocastCache?.();
  }
}

function switchTo(dtype: Half | null, onGpu: boolean): void {
  const device = onGpu ? CUDA : CPU;
  if (dtype !== null) need("setAutocastDtype", "train in mixed precision")(device, dtypeCode(dtype));
  need("setAutocast", "train in mixed precision")(device, dtype !== null);
  now = dtype;
}
