// Prints calls of MKL inside libtorch: sgemm_, whose arguments are all addresses, and functions of many numbers.
import type { BlasKernel, SlotPlace, VectorKernel } from "../kernel.ts";
import { R11, R8, R9, RCX, RDI, RDX, RSI, RSP } from "./assembler.ts";
import { type MemoryOperand } from "./encodings.ts";
import { bitsOf, type Printer } from "./printer.ts";

const REGISTERS = [RDI, RSI, RDX, RCX, R8, R9];

export function printBlas(printer: Printer, kernel: BlasKernel): void {
  const { asm } = printer;
  const letter = (transposed: boolean): MemoryOperand =>
    printer.words([(transposed ? "T" : "N").charCodeAt(0)]);
  const size = (value: number): MemoryOperand => printer.words([Math.max(1, value)]);
  const args: (MemoryOperand | SlotPlace)[] = [
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
    if ("slot" in argument) printer.place(register, argument, 4);
    else asm.address(register, argument);
    if (i >= REGISTERS.length) asm.store({ base: RSP, disp: 8 * (i - REGISTERS.length) }, register);
  });
  asm.clearUpper();
  asm.call(printer.symbol("sgemm_"));
}

const MKL_NAMES = {
  exp: "vmsExp",
  log: "vmsLn",
  tanh: "vmsTanh",
  erf: "vmsErf",
  sin: "vmsSin",
  cos: "vmsCos",
  sqrt: "vmsSqrt",
} as const satisfies Record<VectorKernel["function"], string>;

/** As libtorch asks: high accuracy, denormal numbers count, errors are not told. */
const MODE = 0x2 | 0x140000 | 0x100;

export function printVector(printer: Printer, kernel: VectorKernel): void {
  const { asm } = printer;
  asm.moveNumber(RDI, kernel.elements);
  printer.place(RSI, kernel.from, 4);
  printer.place(RDX, kernel.to, 4);
  asm.moveNumber(RCX, MODE);
  asm.clearUpper();
  asm.call(printer.symbol(MKL_NAMES[kernel.function]));
}
