// Seeds libtorch's default generators. May import abi, cuda, library.
import { native } from "./abi.ts";
import { seedCuda } from "./cuda.ts";
import { need } from "./library.ts";

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
