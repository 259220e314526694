// Kernels in order as one function.
import type { Code, Isa, Kernel } from "../kernel.ts";
import { printBlas, printVector } from "./blas.ts";
import { printGemm } from "./gemm.ts";
import { printGroup } from "./group.ts";
import { Printer } from "./printer.ts";

/** The kernels name the slots 0 to `slots` - 1. */
export function printCode(kernels: readonly Kernel[], isa: Isa, slots: number): Code {
  const printer = new Printer(isa, slots);
  return printer.print(() => {
    for (const kernel of kernels) {
      if (kernel.kernel === "group") printGroup(printer, kernel);
      else if (kernel.kernel === "gemm") printGemm(printer, kernel);
      else if (kernel.kernel === "blas") printBlas(printer, kernel);
      else printVector(printer, kernel);
    }
  });
}
