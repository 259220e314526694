// Kernels that run at the same time, on the threads that libtorch's own loops run on: GOMP_parallel calls a function
// on each. A thread takes the next part until there is none, so fewer threads than parts do all the work, too.
import { R11, RAX, RCX, RDI, RDX, RSI } from "./assembler.ts";
import { type Printer, TABLE } from "./printer.ts";

/** Prints a call of all parts; the calling thread works, too, and goes on when all are done. */
export function printParallel(printer: Printer, threads: number, parts: readonly (() => void)[]): void {
  const { asm } = printer;
  const region = printer.later(() => {
    const next = asm.label(), done = asm.label();
    asm.bind(next);
    asm.load(R11, printer.scratchSlot());
    asm.moveNumber(RAX, 1);
    asm.fetchAdd({ base: R11 }, RAX);
    parts.forEach((part, i) => {
      const other = asm.label();
      asm.compare(RAX, i);
      asm.jump("notZero", other);
      printer.asPart(i, part);
      asm.jump("always", next);
      asm.bind(other);
    });
    asm.bind(done);
  });
  // The number of the next part stands at the scratch memory's begin.
  asm.load(R11, printer.scratchSlot());
  asm.storeNumber({ base: R11 }, 0);
  asm.addressOf(RDI, region);
  asm.move(RSI, TABLE);
  asm.moveNumber(RDX, threads);
  asm.moveNumber(RCX, 0);
  asm.clearUpper();
  asm.call(printer.symbol("GOMP_parallel"));
}
