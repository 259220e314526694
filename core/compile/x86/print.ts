// Kernels in order as functions.
import type { Code, Isa, Kernel } from "../kernel.ts";
import { type Item, type Likeness, likenessOf, withSpots } from "./alike.ts";
import { printBlas, printVector } from "./blas.ts";
import { inBatches } from "../batches.ts";
import { byBlas, prefersOwnGemm, printBatch, printGemm } from "./gemm.ts";
import { printGroup } from "./group.ts";
import { inNests, printNest } from "./nests.ts";
import { printParallel } from "./parallel.ts";
import { Printer, type Written } from "./printer.ts";
import { split } from "./split.ts";

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
    inNests(inBatches(kernels.flatMap((one) => better(one, isa)))).map((one) => split(one, threads))
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
  readonly #likeness = new Map<Item, Likeness>();
  readonly #count = new Map<string, number>();
  readonly #written = new Map<string, Written>();

  constructor(readonly printer: Printer) {}

  /** It will be printed. */
  expect(item: Item): void {
    const likeness = likenessOf(item);
    if (likeness === null) return;
    this.#likeness.set(item, likeness);
    this.#count.set(likeness.text, (this.#count.get(likeness.text) ?? 0) + 1);
  }

  print(item: Item): void {
    const likeness = this.#likeness.get(item), { printer } = this;
    if (likeness === undefined || this.#count.get(likeness.text) === 1) return printKernel(printer, item);
    const { text, places } = likeness, written = this.#written.get(text);
    if (written) return printer.copy(written, places);
    const marked = withSpots(item, places);
    this.#written.set(text, printer.write(places, () => printKernel(printer, marked)));
  }
}

/** As it is, at the places that it names. */
export function printKernel(printer: Printer, kernel: Item): void {
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
