import { native } from "./abi.ts";
import { seedCuda } from "./cuda.ts";
import { need } from "./library.ts";
import { dtypeCode } from "./dtype.ts";

let cpuGenerator: bigint | undefined;

/** The same seed gives PyTorch's own numbers, bit for bit (torch.manual_seed). */
export function manualSeed(seed: bigint): void {
  // at::Generator is one pointer, to the generator's implementation.
  cpuGenerator ??= new Deno.UnsafePointerView(need("defaultGenerator", "seed random numbers")()!)
    .getBigUint64();
  need("seedCpuGenerator", "seed random numbers")(cpuGenerator, seed);
  seedCuda(seed);
}

export const threads = (): number => native.threads?.() ?? 1;
/** How many threads libtorch computes with on a CPU. */
export function setThreads(count: number): void {
  need("setThreads", "set the number of threads")(count);
}

const CPU = 0, CUDA = 1;

/** The types of 16 bits that autocast computes in. */
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
