// Kernels in order as functions.
import type { Isa } from "../../../ffi/machine.ts";
import type {
  BlasKernel,
  Code,
  GemmKernel,
  GroupKernel,
  Kernel,
  SlotPlace,
  Stage,
  StridedAccess,
  VectorKernel,
} from "../kernel.ts";
import { withAccesses } from "../strided_access.ts";
import { inBatches, type ProductBatch } from "../batches.ts";
import { byBlas, prefersOwnGemm, printBatch, printGemm } from "./gemm.ts";
import { printX86Group } from "./group.ts";
import { type LoopNest, printLoopNest, withFusedLoops } from "./loop_fusion.ts";
import { bitsOf, type PrintedCode, Printer, TABLE } from "./printer.ts";
import { splitKernel } from "./split.ts";
import { R11, R8, R9, RAX, RCX, RDI, RDX, RSI, RSP } from "./assembler.ts";
import { type MemoryOperand } from "./encodings.ts";

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

// Kernels that differ only in where their memory lies, as those of a model's equal blocks: their code is written once and
// copied, with other numbers where addresses are made.

export type KernelItem = Kernel | ProductBatch | LoopNest;

/** Kernels with the same text have the same code but for their places, in this order. */
interface DeduplicationKey {
  readonly text: string;
  readonly places: readonly SlotPlace[];
}

/** Elements that a number of four bytes reaches, whatever their type, and as many again. */
const FAR = 2 ** 27;

/** Null where an address does not fit into an instruction. */
export function deduplicationKey(item: KernelItem): DeduplicationKey | null {
  const reader = new Reader();
  reader.item(item);
  return reader.far ? null : reader;
}

class Reader implements DeduplicationKey {
  text = "";
  far = false;
  readonly places: SlotPlace[] = [];

  item(item: KernelItem): void {
    this.text += item.kernel;
    switch (item.kernel) {
      case "group":
        return this.#group(item);
      case "gemm":
        return this.#gemm(item);
      case "batch":
        this.#gemm(item.product);
        for (const { count, a, b, c } of item.repeats) this.text += `*${count},${a},${b},${c}`;
        return;
      case "nest":
        this.text += item.counts;
        for (const { kernel, starts } of item.bodies) {
          this.item(kernel);
          for (const { access, steps } of starts) {
            this.#access(access);
            this.text += `+${steps}`;
          }
        }
        return;
      case "blas": {
        const { transA, transB, m, n, k, a, lda, b, ldb, c, ldc, beta } = item;
        this.text += `${transA},${transB},${m},${n},${k},${lda},${ldb},${ldc},${beta}`;
        for (const place of [a, b, c]) this.#place(place);
        return;
      }
      case "vector":
        this.text += `${item.function}${item.elements}`;
        this.#place(item.from);
        this.#place(item.to);
    }
  }

  #group({ exact, sizes, stages }: GroupKernel): void {
    this.text += `${exact === true}${sizes}`;
    for (const stage of stages) this.#stage(stage);
  }
  #gemm({ m, n, k, a, b, c, add, epilogue, chain }: GemmKernel): void {
    this.text += `${m},${n},${k},${add},${chain}`;
    for (const access of [a, b, c]) this.#access(access);
    if (k * Math.max(a.strides[1], b.strides[0]) > FAR) this.far = true;
    if (epilogue) this.#stage(epilogue);
  }
  #stage({ instructions, stores, reductions }: Stage): void {
    this.text += "|";
    for (const one of instructions) {
      if ("from" in one) this.#access(one.from);
      else if ("value" in one) this.text += `=${Object.is(one.value, -0) ? "-0" : one.value}`;
      else if ("reduction" in one) this.text += `#${one.reduction}`;
      else this.text += ` ${one.op}${one.args}`;
    }
    for (const { value, to } of stores) {
      this.text += `>${value}`;
      this.#access(to);
    }
    for (const { op, over, value, to } of reductions) {
      this.text += ` ${op} ${over}${value}`;
      if (to) this.#access(to);
    }
  }
  #access(access: StridedAccess): void {
    this.#place(access);
    this.text += `${access.kind}${access.strides}`;
  }
  /** The number of the place, and for a new one that of another place in its slot: pointers may be shared. */
  #place({ slot, offset }: SlotPlace): void {
    if (slot < 0) { // no slot of the table: it is the same in all of them
      this.text += `[${slot},${offset}]`;
      return;
    }
    const { places } = this;
    let beside = -1;
    for (let i = 0; i < places.length; i++) {
      if (places[i].slot !== slot) continue;
      if (places[i].offset === offset) {
        this.text += `[${i}]`;
        return;
      }
      if (beside < 0) beside = i;
    }
    if (Math.abs(offset) > FAR) this.far = true;
    this.text += `[${places.push({ slot, offset }) - 1} ${beside}]`;
  }
}

/** The kernel with its places' numbers at each of them. */
export function withSpots<I extends KernelItem>(item: I, places: readonly SlotPlace[]): I;
export function withSpots(item: KernelItem, places: readonly SlotPlace[]): KernelItem {
  const at = <P extends SlotPlace>(place: P): P =>
    place.slot < 0 ? place : {
      ...place,
      spot: places.findIndex(({ slot, offset }) => slot === place.slot && offset === place.offset),
    };
  const stage = (one: Stage) => withAccesses(one, at);
  switch (item.kernel) {
    case "group":
      return { ...item, stages: item.stages.map(stage) };
    case "gemm":
      return {
        ...item,
        ...{ a: at(item.a), b: at(item.b), c: at(item.c) },
        epilogue: item.epilogue && stage(item.epilogue),
      };
    case "batch":
      return { ...item, product: withSpots(item.product, places) };
    case "nest":
      return {
        ...item,
        bodies: item.bodies.map((body) => ({
          ...body,
          starts: body.starts.map(({ access, steps }) => ({ access: at(access), steps })),
        })),
      };
    case "blas":
      return { ...item, a: at(item.a), b: at(item.b), c: at(item.c) };
    case "vector":
      return { ...item, from: at(item.from), to: at(item.to) };
  }
}

// Prints calls of MKL inside libtorch: sgemm_, whose arguments are all addresses, and functions of many numbers.

const REGISTERS = [RDI, RSI, RDX, RCX, R8, R9];

function printBlas(printer: Printer, kernel: BlasKernel): void {
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

function printVector(printer: Printer, kernel: VectorKernel): void {
  const { asm } = printer;
  asm.moveNumber(RDI, kernel.elements);
  printer.place(RSI, kernel.from, 4);
  printer.place(RDX, kernel.to, 4);
  asm.moveNumber(RCX, MODE);
  asm.clearUpper();
  asm.call(printer.symbol(MKL_NAMES[kernel.function]));
}

// Kernels that run at the same time, on the threads that libtorch's own loops run on: GOMP_parallel calls a function
// on each. A thread takes the next part until there is none, so fewer threads than parts do all the work, too.

/** Prints a call of all parts; the calling thread works, too, and goes on when all are done. */
function printParallel(printer: Printer, threads: number, parts: readonly (() => void)[]): void {
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
