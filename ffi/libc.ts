// Calls of the C library. Each symbol is opened at its first use.

// pread and not mmap: a shortened file gives fewer bytes and so a sentence, where a missing mapped page ends
// the process.

const READ_SYMBOLS = {
  open: { parameters: ["buffer", "i32"], result: "i32" },
  fcntl: { parameters: ["i32", "i32", "i32"], result: "i32" },
  pread: { parameters: ["i32", "buffer", "usize", "i64"], result: "i64" },
  close: { parameters: ["i32"], result: "i32" },
  __errno_location: { parameters: [], result: "pointer" },
} as const;

const O_RDONLY_CLOEXEC = 0o2000000, EINTR = 4;
const O_NONBLOCK = 0o4000, F_SETFL = 4;

let libc: Deno.DynamicLibrary<typeof READ_SYMBOLS>["symbols"] | undefined;
const native = () => libc ??= Deno.dlopen("libc.so.6", READ_SYMBOLS).symbols;

/** To open a named pipe would wait for its writer; this does not, and pread then says that it is none to read by place. */
export function openForReading(path: string): number {
  const descriptor = native().open(
    new TextEncoder().encode(`${path}\0`),
    O_RDONLY_CLOEXEC | O_NONBLOCK,
  );
  if (descriptor < 0) return -errno();
  native().fcntl(descriptor, F_SETFL, 0); // some file systems answer "try again" while it is set
  return descriptor;
}

/**
 * Fills `into` from `offset` on, from any thread. Gives the number of bytes, fewer only at the end of the
 * file; or minus the error number.
 */
export function pread(descriptor: number, into: Uint8Array, offset: number): number {
  const bytes = into as Uint8Array<ArrayBuffer>;
  let done = 0;
  while (done < bytes.length) {
    const rest = done === 0 ? bytes : bytes.subarray(done);
    const count = Number(native().pread(descriptor, rest, BigInt(rest.length), BigInt(offset + done)));
    if (count > 0) done += count;
    else if (count === 0) break;
    else {
      const error = errno();
      if (error !== EINTR) return -error;
    }
  }
  return done;
}

export function closeFile(descriptor: number): void {
  native().close(descriptor);
}

const errno = (): number => new Deno.UnsafePointerView(native().__errno_location()!).getInt32();

const WRITE_BEHIND_SYMBOLS = {
  open: { parameters: ["buffer", "i32"], result: "i32" },
  fallocate: { parameters: ["i32", "i32", "i64", "i64"], result: "i32" },
  sync_file_range: { parameters: ["i32", "i64", "i64", "u32"], result: "i32" },
  close: { parameters: ["i32"], result: "i32" },
} as const;

const O_WRONLY_CLOEXEC = 0o2000001, KEEP_SIZE = 1, SYNC_FILE_RANGE_WRITE = 2;
/** Many small pieces would cost more than they give. */
const PIECE_BYTES = 16 << 20;

export interface WriteBehind {
  until(position: number): void;
  close(): void;
}

/**
 * The disk begins with a file while it is still being written, so that its fsync has little to wait for.
 * Reserving about so many bytes at once makes writing cheaper. Nothing here can fail: the writes and the
 * fsync report what a file system refuses.
 */
export function writeBehind(path: string, bytes: number): WriteBehind {
  const libc = Deno.dlopen("libc.so.6", WRITE_BEHIND_SYMBOLS);
  const { open, fallocate, sync_file_range, close } = libc.symbols;
  const descriptor = open(new TextEncoder().encode(`${path}\0`), O_WRONLY_CLOEXEC);
  fallocate(descriptor, KEEP_SIZE, 0n, BigInt(bytes));
  let begun = 0;
  return {
    until(position) {
      if (position - begun < PIECE_BYTES) return;
      sync_file_range(descriptor, BigInt(begun), BigInt(position - begun), SYNC_FILE_RANGE_WRITE);
      begun = position;
    },
    close() {
      close(descriptor);
      libc.close();
    },
  };
}

export interface MemoryBlock {
  readonly address: bigint;
  readonly bytes: number;
}

/** The bytes are valid as long as the tensor that owns the memory is kept. */
export function bytesAt({ address, bytes }: MemoryBlock): Uint8Array<ArrayBuffer> {
  if (bytes === 0) return new Uint8Array(0);
  return new Uint8Array(Deno.UnsafePointerView.getArrayBuffer(Deno.UnsafePointer.create(address)!, bytes));
}

export function copyMemory(from: MemoryBlock, to: MemoryBlock): void {
  bytesAt(to).set(bytesAt(from));
}

const COMPARE_SYMBOLS = {
  memcmp: { parameters: ["usize", "usize", "usize"], result: "i32" },
} as const;

/** True where both of each pair have the same bytes. */
export function sameMemory(pairs: readonly (readonly [MemoryBlock, MemoryBlock])[]): boolean {
  const libc = Deno.dlopen("libc.so.6", COMPARE_SYMBOLS);
  try {
    return pairs.every(([one, other]) =>
      one.bytes === other.bytes && libc.symbols.memcmp(one.address, other.address, BigInt(one.bytes)) === 0
    );
  } finally {
    libc.close();
  }
}

export function memoryParts({ address, bytes }: MemoryBlock, size: number): MemoryBlock[] {
  return Array.from({ length: Math.max(1, Math.ceil(bytes / size)) }, (_, i) => ({
    address: address + BigInt(i * size),
    bytes: Math.min(size, bytes - i * size),
  }));
}

const MADV_HUGEPAGE = 14;
const HUGE = 2n << 20n;

/**
 * A row in a large page is found without a walk through page tables. Call it before the memory is first
 * written; a machine without large pages changes nothing.
 */
export function askForHugePages({ address, bytes }: MemoryBlock): void {
  const from = (address + HUGE - 1n) / HUGE * HUGE, to = (address + BigInt(bytes)) / HUGE * HUGE;
  if (to <= from) return;
  const libc = Deno.dlopen("libc.so.6", {
    madvise: { parameters: ["usize", "usize", "i32"], result: "i32" },
  });
  try {
    libc.symbols.madvise(from, to - from, MADV_HUGEPAGE);
  } finally {
    libc.close();
  }
}

const MADV_POPULATE_WRITE = 23; // Linux 5.14; an older one refuses it, and the pages come when they are written
const PAGE = 4096n;

/**
 * Gives memory its pages before it is first written, from a thread that has time. It changes no byte, so the
 * memory may be in use.
 */
export function prefault({ address, bytes }: MemoryBlock): void {
  const from = (address + PAGE - 1n) / PAGE * PAGE, to = (address + BigInt(bytes)) / PAGE * PAGE;
  if (to <= from) return;
  const libc = Deno.dlopen("libc.so.6", {
    madvise: { parameters: ["usize", "usize", "i32"], result: "i32" },
  });
  try {
    libc.symbols.madvise(from, to - from, MADV_POPULATE_WRITE);
  } finally {
    libc.close();
  }
}

const MADV_DONTNEED = 4;

/**
 * Memory whose bytes nobody needs any more: its whole pages are the system's until they are written again, and full of
 * zeros if they are a process's own. False where the system refuses.
 */
export function forgetMemory({ address, bytes }: MemoryBlock): boolean {
  const from = (address + PAGE - 1n) / PAGE * PAGE, to = (address + BigInt(bytes)) / PAGE * PAGE;
  return to <= from || withPages(({ madvise }) => madvise(from, to - from, MADV_DONTNEED)) === 0;
}

/** Zeros that take no memory until they are written. Only for memory that no other process sees. */
export function zeroUntouched(block: MemoryBlock): boolean {
  if (block.bytes < 2 * Number(PAGE) || !forgetMemory(block)) return false;
  const bytes = bytesAt(block), edge = Number(PAGE);
  bytes.fill(0, 0, edge);
  bytes.fill(0, bytes.length - edge);
  return true;
}

/** Gives the system the pages of what was freed. */
export function returnFreedMemory(): void {
  withPages(({ malloc_trim }) => malloc_trim(0n));
}

const PAGE_SYMBOLS = {
  madvise: { parameters: ["usize", "usize", "i32"], result: "i32" },
  malloc_trim: { parameters: ["usize"], result: "i32" },
} as const;

function withPages<R>(use: (libc: Deno.DynamicLibrary<typeof PAGE_SYMBOLS>["symbols"]) => R): R {
  const libc = Deno.dlopen("libc.so.6", PAGE_SYMBOLS);
  try {
    return use(libc.symbols);
  } finally {
    libc.close();
  }
}

const PROCESS_SYMBOLS = {
  mkfifo: { parameters: ["buffer", "u32"], result: "i32" },
  open: { parameters: ["buffer", "i32"], result: "i32" },
  read: { parameters: ["i32", "buffer", "usize"], result: "isize" },
  poll: { parameters: ["buffer", "u64", "i32"], result: "i32" },
  fcntl: { parameters: ["i32", "i32", "i32"], result: "i32" },
  sched_setaffinity: { parameters: ["i32", "usize", "buffer"], result: "i32" },
  prlimit: { parameters: ["i32", "i32", "buffer", "buffer"], result: "i32" },
  setPolicy: { name: "syscall", parameters: ["i64", "i64", "buffer", "u64"], result: "i64" },
  getPolicy: {
    name: "syscall",
    parameters: ["i64", "buffer", "buffer", "u64", "u64", "u64"],
    result: "i64",
  },
} as const;

const O_RDWR = 2, O_CLOEXEC = 0o2000000, O_ASYNC = 0o20000;
const POLLIN = 1;
const F_SETOWN = 8, F_SETSIG = 10, SIGKILL = 9;

export const makePipe = (path: string): boolean =>
  withLibc(({ mkfifo }) => mkfifo(cString(path), 0o600)) === 0;

/** Gives a function that waits so many milliseconds for something to read in that pipe, and says whether there is. */
export function pipeWaiter(path: string): (milliseconds: number) => boolean {
  const pipe = withLibc(({ open }) => open(cString(path), O_RDWR | O_NONBLOCK | O_CLOEXEC));
  return (milliseconds) =>
    withLibc(({ poll }) => poll(new Int32Array([pipe, POLLIN]), 1n, milliseconds)) !== 0;
}

/**
 * From here on the system kills this process when no process holds the writing end of that pipe any more.
 * False if it is free now.
 */
export function endWithPipe(path: string): boolean {
  return withLibc(({ open, fcntl, read }) => {
    const pipe = open(cString(path), O_NONBLOCK | O_CLOEXEC);
    if (pipe < 0) return false;
    fcntl(pipe, F_SETOWN, Deno.pid);
    fcntl(pipe, F_SETSIG, SIGKILL);
    fcntl(pipe, F_SETFL, O_NONBLOCK | O_ASYNC);
    // The writer may have gone before: then the read sees an end instead of nothing yet.
    return read(pipe, new Uint8Array(1), 1n) !== 0n;
  });
}

export function runOnCores(cores: readonly number[]): void {
  const mask = new Uint8Array(8 * Math.ceil((Math.max(...cores) + 1) / 64));
  for (const core of cores) mask[core >> 3] |= 1 << (core & 7);
  withLibc(({ sched_setaffinity }) => {
    for (const { name } of Deno.readDirSync("/proc/self/task")) {
      sched_setaffinity(Number(name), BigInt(mask.length), mask);
    }
  });
}

/** The kernel's numbers of set_mempolicy and get_mempolicy: libnuma has these calls, and libc has not. */
const MEMORY_POLICY: Readonly<Record<string, { readonly set: bigint; readonly get: bigint }>> = {
  x86_64: { set: 238n, get: 239n },
  aarch64: { set: 237n, get: 236n },
};

const MPOL_DEFAULT = 0, MPOL_PREFERRED = 1;
const MOST_DOMAINS = 1024;

/**
 * Memory that this thread, and those that it starts from here on, touches first comes from this domain, and
 * from others when it is full. Null takes that back. False where the kernel refuses, as in many containers.
 */
export function preferMemoryOf(domain: number | null): boolean {
  const numbers = MEMORY_POLICY[Deno.build.arch];
  const mask = new BigUint64Array(MOST_DOMAINS / 64);
  if (domain !== null) mask[domain >> 6] = 1n << BigInt(domain & 63);
  const mode = BigInt(domain === null ? MPOL_DEFAULT : MPOL_PREFERRED);
  return numbers !== undefined && withLibc(({ setPolicy }) => {
    return setPolicy(numbers.set, mode, mask, BigInt(MOST_DOMAINS + 1)) === 0n;
  });
}

/** Gives what preferMemoryOf has set for this thread; null where memory comes from where it is touched. */
export function preferredMemory(): number | null {
  const numbers = MEMORY_POLICY[Deno.build.arch];
  const mode = new Int32Array(1), mask = new BigUint64Array(MOST_DOMAINS / 64);
  const policy = numbers !== undefined && withLibc(({ getPolicy }) => {
    return getPolicy(numbers.get, mode, mask, BigInt(MOST_DOMAINS + 1), 0n, 0n) === 0n;
  });
  if (!policy || mode[0] !== MPOL_PREFERRED) return null;
  const word = mask.findIndex((bits) => bits !== 0n);
  return word < 0 ? null : 64 * word + mask[word].toString(2).length - 1;
}

const RLIMIT_NOFILE = 7;

/**
 * Lets this process have so many open files at once, where its hard limit allows it. Gives how many it may
 * have now. Deno does it by itself for `deno run`, and not for an executable.
 */
export function allowOpenFiles(count: number): number {
  return withLibc(({ prlimit }) => {
    const limits = new BigUint64Array(2);
    prlimit(0, RLIMIT_NOFILE, null, limits);
    const [soft, hard] = limits;
    const wanted = BigInt(count);
    if (soft >= wanted) return Number(soft);
    limits[0] = wanted < hard ? wanted : hard;
    const raised = prlimit(0, RLIMIT_NOFILE, limits, null) === 0;
    return Number(raised ? limits[0] : soft);
  });
}

const cString = (text: string) => new TextEncoder().encode(`${text}\0`);

function withLibc<R>(use: (libc: Deno.DynamicLibrary<typeof PROCESS_SYMBOLS>["symbols"]) => R): R {
  const libc = Deno.dlopen("libc.so.6", PROCESS_SYMBOLS);
  try {
    return use(libc.symbols);
  } finally {
    libc.close();
  }
}

/**
 * Deno.exit ends only the worker it is called in. This ends the process from any thread, and cleans nothing
 * up.
 */
export function endProcess(code: number): never {
  const { symbols } = Deno.dlopen("libc.so.6", { _exit: { parameters: ["i32"], result: "void" } });
  symbols._exit(code);
  throw new Error("internal: _exit came back.");
}

const PRELOADS = ["LD_PRELOAD", "CUDA_INJECTION64_PATH"];

/**
 * At Deno.exit libtorch takes itself apart, which is 0.1 s of work for nothing. What was preloaded, such as a
 * profiler, may write its findings at such an end, and so keeps it. MPI's launchers kill the other ranks soon
 * after the first has ended, and a rank may still have to write how it ended: MPI keeps it, too.
 */
export function exitQuickly(code: number): never {
  const preloaded = PRELOADS.some((name) => Deno.env.get(name)) || textOf("/etc/ld.so.preload").trim() !== "";
  const quick = !preloaded && !textOf("/proc/self/maps").includes("/libmpi");
  if (quick) addEventListener("unload", () => endProcess(Deno.exitCode)); // the last listener
  Deno.exit(code);
}

function textOf(path: string): string {
  try {
    return Deno.readTextFileSync(path);
  } catch {
    return "";
  }
}
