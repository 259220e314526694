// libtorch's own autocast: the list of which op runs in which type is the library's. May import abi, dtype, library.
import { native } from "./abi.ts";
import { dtypeCode } from "./dtype.ts";
import { need } from "./library.ts";

const CPU = 0, CUDA = 1;

/** Runs body with autocast to `dtype`; null runs it as it is. The cache of cast weights is cleared at the end. */
export function autocast<R>(dtype: "bf16" | "f16" | null, onGpu: boolean, body: () => R): R {
  if (dtype === null) return body();
  const device = onGpu ? CUDA : CPU;
  const set = need("setAutocast", "train in mixed precision");
  need("setAutocastDtype", "train in mixed precision")(device, dtypeCode(dtype));
  set(device, true);
  try {
    return body();
  } finally {
    set(device, false);
    native.clearAutocastCache?.();
  }
}
