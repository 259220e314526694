// Machine code in pages of memory that are writable first and executable after, never both; and the table of
// addresses that the code is given.
import { check, native, out, outAt } from "./abi.ts";
import { openedLibtorch } from "./library.ts";
import { alive, type Tensor } from "./tensor.ts";

const symbols = {
  mmap: { parameters: ["u64", "usize", "i32", "i32", "i32", "i64"], result: "u64" },
  mprotect: { parameters: ["u64", "usize", "i32"], result: "i32" },
  munmap: { parameters: ["u64", "usize"], result: "i32" },
  memfd_create: { parameters: ["buffer", "u32"], result: "i32" },
  ftruncate: { parameters: ["i32", "i64"], result: "i32" },
  close: { parameters: ["i32"], result: "i32" },
  dlopen: { parameters: ["buffer", "i32"], result: "u64" },
  dlsym: { parameters: ["u64", "buffer"], result: "u64" },
  /**
   * Calls the function that it is given, once for an array of one element. A call through a symbol that was bound
   * when its library was opened takes 0.3 us, one through Deno.UnsafeFnPointer 1 to 3 us.
   */
  bsearch: { parameters: ["u64", "u64", "usize", "usize", "u64"], result: "u64" },
} as const satisfies Deno.ForeignLibraryInterface;

const READ = 1, WRITE = 2, EXECUTE = 4;
const SHARED = 1, PRIVATE = 2, ANONYMOUS = 0x20;
const FAILED = 0xffff_ffff_ffff_ffffn;
const PAGE = 4096;
const RTLD_NOW = 2;
const CLOSE_ON_EXEC = 1;

let opened: Deno.DynamicLibrary<typeof symbols>["symbols"] | undefined;
const libc = () => opened ??= Deno.dlopen("libc.so.6", symbols).symbols;

const text = (value: string) => new TextEncoder().encode(`${value}\0`);
const wholePages = (bytes: number): number => Math.max(1, Math.ceil(bytes / PAGE)) * PAGE;
const viewOf = (address: bigint, bytes: number): Uint8Array =>
  new Uint8Array(Deno.UnsafePointerView.getArrayBuffer(Deno.UnsafePointer.create(address)!, bytes));

/** The code and what it reads: core/compile/kernel.ts has it as Code. */
export interface CodeToLoad {
  readonly bytes: Uint8Array;
  readonly entries: readonly number[];
  readonly constants: Uint8Array;
  readonly constantsSlot: number;
  readonly scratchBytes: number;
  readonly symbols: readonly string[];
}

export interface MachineCode {
  /** The slot's memory is the tensor's, from this byte on. The tensor must outlive the code or be set anew. */
  setSlot(slot: number, tensor: Tensor, byteOffset?: number): void;
  /** The function of this number. */
  run(entry?: number): void;
  free(): void;
}

/** Why there is no code: this machine refuses executable memory, or libtorch lacks a function. */
interface NoCode {
  readonly refused: "memory" | "symbol";
  readonly name: string;
}

/** `pages` gives executable ones: by default those of this process, else of a file in memory, as the machine allows. */
export function loadCode(
  code: CodeToLoad,
  pages: (bytes: Uint8Array) => bigint | null = (bytes) => pagesOfProcess(bytes) ?? pagesOfFile(bytes),
): MachineCode | NoCode {
  const addresses: bigint[] = [];
  for (const name of code.symbols) {
    const address = symbolOf(name);
    if (address === 0n) return { refused: "symbol", name };
    addresses.push(address);
  }
  const at = pages(code.bytes);
  if (at === null) return { refused: "memory", name: "mprotect" };
  const { mmap, munmap, bsearch } = libc();
  const tableBytes = 8 * (code.constantsSlot + 2 + addresses.length);
  const constantsAt = Math.ceil(tableBytes / 64) * 64;
  const scratchAt = constantsAt + Math.ceil(code.constants.length / 64) * 64;
  const bytes = wholePages(scratchAt + code.scratchBytes);
  const memory = mmap(0n, BigInt(bytes), READ | WRITE, PRIVATE | ANONYMOUS, -1, 0n);
  if (memory === FAILED) {
    munmap(at, BigInt(wholePages(code.bytes.length)));
    return { refused: "memory", name: "mmap" };
  }
  const view = viewOf(memory, bytes);
  view.set(code.constants, constantsAt);
  const table = new BigUint64Array(view.buffer, 0, tableBytes / 8);
  table[code.constantsSlot] = memory + BigInt(constantsAt);
  table[code.constantsSlot + 1] = memory + BigInt(scratchAt);
  addresses.forEach((address, i) => table[code.constantsSlot + 2 + i] = address);
  let freed = false;
  const entries = code.entries.map((entry) => at + BigInt(entry));
  return {
    setSlot(slot, tensor, byteOffset = 0) {
      if (slot < 0 || slot >= code.constantsSlot) throw new Error(`internal: code has no slot ${slot}.`);
      const known = tensor.kept ? tensor.host : null; // an address that is known needs no call
      if (known === null) check(native.dataPointer(alive(tensor, "setSlot"), outAt), "setSlot");
      const begin = known === null ? out[0] : known.at;
      table[slot] = byteOffset === 0 ? begin : begin + BigInt(byteOffset);
    },
    run(entry = 0) {
      if (freed) throw new Error("internal: freed machine code is run.");
      bsearch(memory, memory, 1n, 8n, entries[entry]);
    },
    free() {
      if (freed) return;
      freed = true;
      munmap(at, BigInt(wholePages(code.bytes.length)));
      munmap(memory, BigInt(bytes));
    },
  };
}

/** Pages with these bytes that can be executed; null where the machine has none to give. */
export function pagesOfProcess(bytes: Uint8Array): bigint | null {
  const { mmap, mprotect, munmap } = libc();
  const size = BigInt(wholePages(bytes.length));
  const at = mmap(0n, size, READ | WRITE, PRIVATE | ANONYMOUS, -1, 0n);
  if (at === FAILED) return null;
  viewOf(at, bytes.length).set(bytes);
  if (mprotect(at, size, READ | EXECUTE) === 0 && readAnew(at, size)) return at;
  munmap(at, size);
  return null;
}

/** Pages full of zeros; null where the machine has none to give. */
export function dataPages(bytes: number): bigint | null {
  const at = libc().mmap(0n, BigInt(wholePages(bytes)), READ | WRITE, PRIVATE | ANONYMOUS, -1, 0n);
  return at === FAILED ? null : at;
}

const compilers = {
  __clear_cache: { parameters: ["u64", "u64"], result: "void", optional: true },
} as const satisfies Deno.ForeignLibraryInterface;
let libgcc: Deno.DynamicLibrary<typeof compilers>["symbols"] | undefined;

/** An x86-64 processor sees by itself that instructions were written; aarch64's are told. */
function readAnew(at: bigint, size: bigint): boolean {
  if (Deno.build.arch === "x86_64") return true;
  libgcc ??= Deno.dlopen("libgcc_s.so.1", compilers).symbols;
  libgcc.__clear_cache?.(at, at + size);
  return libgcc.__clear_cache !== null;
}

/** Some systems refuse that written pages become executable, but map a file of memory; these the kernel makes anew. */
export function pagesOfFile(bytes: Uint8Array): bigint | null {
  const { mmap, munmap, memfd_create, ftruncate, close } = libc();
  const size = BigInt(wholePages(bytes.length));
  const file = memfd_create(text("hpctrain-code"), CLOSE_ON_EXEC);
  if (file < 0) return null;
  try {
    if (ftruncate(file, size) !== 0) return null;
    const writable = mmap(0n, size, READ | WRITE, SHARED, file, 0n);
    if (writable === FAILED) return null;
    viewOf(writable, bytes.length).set(bytes);
    munmap(writable, size);
    const at = mmap(0n, size, READ | EXECUTE, PRIVATE, file, 0n);
    return at === FAILED ? null : at;
  } finally {
    close(file);
  }
}

const found = new Map<string, bigint>();

/** The address of a function of libtorch's; 0n where it has none of this name. */
export function symbolOf(name: string): bigint {
  let address = found.get(name);
  if (address === undefined) {
    const library = libc().dlopen(text(`${openedLibtorch().dir}/libtorch_cpu.so`), RTLD_NOW);
    address = library === 0n ? 0n : libc().dlsym(library, text(name));
    found.set(name, address);
  }
  return address;
}
