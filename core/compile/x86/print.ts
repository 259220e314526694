// Kernels in order as one function.
import type { Code, Isa, Kernel } from "../kernel.ts";
import { printBlas, printVector } from "./blas.ts";
import { type Batch, inBatches } from "./batches.ts";
import { byBlas, prefersOwnGemm, printBatch, printGemm } from "./gemm.ts";
import { printGroup } from "./group.ts";
import { inNests, type Nest, printNest } from "./nests.ts";
import { printParallel } from "./parallel.ts";
import { Printer } from "./printer.ts";
import { split } from "./split.ts";

/** The kernels name the slots 0 to `slots` - 1. Large ones are divided among so many threads. */
export function printCode(kernels: readonly Kernel[], isa: Isa, slots: number, threads = 1): Code {
  const printer = new Printer(isa, slots);
  return printer.print(() => {
    for (const kernel of inNests(inBatches(kernels.flatMap((one) => better(one, isa))))) {
      const parts = split(kernel, threads).map((part) => () => printKernel(printer, part));
      if (parts.length > 1) printParallel(printer, threads, parts);
      else parts[0]();
    }
  });
}

function better(kernel: Kernel, isa: Isa): readonly Kernel[] {
  if (kernel.kernel !== "gemm" || prefersOwnGemm(isa, kernel.m, kernel.n, kernel.k)) return [kernel];
  return byBlas(kernel) ?? [kernel];
}

function printKernel(printer: Printer, kernel: Kernel | Batch | Nest): void {
  switch (kernel.kernel) {
    case "group":
      return printGroup(printer, kernel);
    case "gemm":
      return printGemm(printer, kernel);
    case "batch":
      return printBatch(printer, kernel);
    case "nest":
      return printNest(printer, kernel);
    case "blas":
      return printBlas(printer, kernel);
    case "vector":
      return printVector(printer, kernel);
  }
}
