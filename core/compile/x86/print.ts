// Kernels in order as functions.
import type { Isa } from "../../../ffi/machine.ts";
import type { Code, Kernel } from "../kernel.ts";
import { type DeduplicationKey, deduplicationKey, type KernelItem, withSpots } from "./deduplicate.ts";
import { printBlas, printVector } from "./blas.ts";
import { inBatches } from "../batches.ts";
import { byBlas, prefersOwnGemm, printBatch, printGemm } from "./gemm.ts";
import { printX86Group } from "./group.ts";
import { printLoopNest, withFusedLoops } from "./loop_fusion.ts";
import { printParallel } from "./parallel.ts";
import { type PrintedCode, Printer } from "./printer.ts";
import { splitKernel } from "./split.ts";

/** One function. The kernels name the slots 0 to `slots` - 1. Large ones are divided among so many threads. */
export const printCode = (kernels: readonly Kernel[], isa: Isa, slots: number, threads = 1): Code =>
  printFunctions([kernels], isa, slots, threads);

/** A function for each of these. */
export function printFunctions(
  functions: readonly (readonly Kernel[])[],
  isa: Isa,
  slots: number,
  threads: number,
): Code {
  const printer = new Printer(isa, slots), kernels = new Kernels(printer);
  const divided = functions.map((kernels) =>
    withFusedLoops(inBatches(kernels.flatMap((one) => better(one, isa)))).map((one) =>
      splitKernel(one, threads)
    )
  );
  for (const parts of divided.flat()) parts.forEach((part) => kernels.expect(part));
  return printer.print(divided.map((all) => () => {
    for (const parts of all) {
      if (parts.length === 1) kernels.print(parts[0]);
      else printParallel(printer, threads, parts.map((part) => () => kernels.print(part)));
    }
  }));
}

function better(kernel: Kernel, isa: Isa): readonly Kernel[] {
  if (kernel.kernel !== "gemm" || prefersOwnGemm(isa, kernel.m, kernel.n, kernel.k)) return [kernel];
  return byBlas(kernel) ?? [kernel];
}

/** Writes the code of kernels that are alike once. */
class Kernels {
  readonly #keys = new Map<KernelItem, DeduplicationKey>();
  readonly #count = new Map<string, number>();
  readonly #written = new Map<string, PrintedCode>();

  constructor(readonly printer: Printer) {}

  /** It will be printed. */
  expect(item: KernelItem): void {
    const key = deduplicationKey(item);
    if (key === null) return;
    this.#keys.set(item, key);
    this.#count.set(key.text, (this.#count.get(key.text) ?? 0) + 1);
  }

  print(item: KernelItem): void {
    const key = this.#keys.get(item), { printer } = this;
    if (key === undefined || this.#count.get(key.text) === 1) return printKernel(printer, item);
    const { text, places } = key, written = this.#written.get(text);
    if (written) return printer.copy(written, places);
    const marked = withSpots(item, places);
    this.#written.set(text, printer.write(places, () => printKernel(printer, marked)));
  }
}

/** As it is, at the places that it names. */
export function printKernel(printer: Printer, kernel: KernelItem): void {
  switch (kernel.kernel) {
    case "group":
      return printX86Group(printer, kernel);
    case "gemm":
      return printGemm(printer, kernel);
    case "batch":
      return printBatch(printer, kernel);
    case "nest":
      return printLoopNest(printer, kernel);
    case "blas":
      return printBlas(printer, kernel);
    case "vector":
      return printVector(printer, kernel);
  }
}
