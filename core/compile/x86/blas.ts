// Prints a call of libtorch's own sgemm_, whose arguments are all addresses.
import type { BlasKernel, Place } from "../kernel.ts";
import { type Memory, R11, R8, R9, RCX, RDI, RDX, RSI, RSP } from "./assembler.ts";
import { bitsOf, type Printer } from "./printer.ts";

const REGISTERS = [RDI, RSI, RDX, RCX, R8, R9];

export function printBlas(printer: Printer, kernel: BlasKernel): void {
  const { asm } = printer;
  const letter = (transposed: boolean): Memory => printer.words([(transposed ? "T" : "N").charCodeAt(0)]);
  const size = (value: number): Memory => printer.words([Math.max(1, value)]);
  const args: (Memory | Place)[] = [
    letter(kernel.transA),
    letter(kernel.transB),
    size(kernel.m),
    size(kernel.n),
    size(kernel.k),
    printer.words([bitsOf(1)]),
    kernel.a,
    size(kernel.lda),
    kernel.b,
    size(kernel.ldb),
    printer.words([bitsOf(kernel.beta)]),
    kernel.c,
    size(kernel.ldc),
  ];
  args.forEach((argument, i) => {
    const register = REGISTERS[i] ?? R11;
    if ("slot" in argument) {
      asm.load(register, printer.slot(argument.slot));
      asm.address(register, { base: register, disp: 4 * argument.offset });
    } else asm.address(register, argument);
    if (i >= REGISTERS.length) asm.store({ base: RSP, disp: 8 * (i - REGISTERS.length) }, register);
  });
  asm.clearUpper();
  asm.call(printer.symbol("sgemm_"));
}
