// What the system does for a process that supervises others, and for those: pipes with a name, an end that comes from
// outside, cores. Imports nothing.

const SYMBOLS = {
  mkfifo: { parameters: ["buffer", "u32"], result: "i32" },
  open: { parameters: ["buffer", "i32"], result: "i32" },
  read: { parameters: ["i32", "buffer", "usize"], result: "isize" },
  fcntl: { parameters: ["i32", "i32", "i32"], result: "i32" },
  sched_setaffinity: { parameters: ["i32", "usize", "buffer"], result: "i32" },
} as const;

const O_NONBLOCK = 0o4000, O_CLOEXEC = 0o2000000, O_ASYNC = 0o20000;
const F_SETFL = 4, F_SETOWN = 8, F_SETSIG = 10, SIGKILL = 9;

/** For this user alone. False where the file system refuses it. */
export const makePipe = (path: string): boolean =>
  withLibc(({ mkfifo }) => mkfifo(cString(path), 0o600)) === 0;

/**
 * From here on this process is killed when nobody holds the writing end of that pipe any more: by the system, whatever
 * this process is doing, and whoever its parent is. False if nobody holds it now.
 */
export function endWithPipe(path: string): boolean {
  return withLibc(({ open, fcntl, read }) => {
    const pipe = open(cString(path), O_NONBLOCK | O_CLOEXEC);
    if (pipe < 0) return false;
    fcntl(pipe, F_SETOWN, Deno.pid);
    fcntl(pipe, F_SETSIG, SIGKILL);
    fcntl(pipe, F_SETFL, O_NONBLOCK | O_ASYNC);
    // The writer may have gone before: then there is an end to read, where otherwise there is nothing yet.
    return read(pipe, new Uint8Array(1), 1n) !== 0n;
  });
}

/** All threads of this process, and those to come, run on these cores. Where the system refuses, nothing changes. */
export function runOnCores(cores: readonly number[]): void {
  const mask = new Uint8Array(8 * Math.ceil((Math.max(...cores) + 1) / 64));
  for (const core of cores) mask[core >> 3] |= 1 << (core & 7);
  withLibc(({ sched_setaffinity }) => {
    for (const { name } of Deno.readDirSync("/proc/self/task")) {
      sched_setaffinity(Number(name), BigInt(mask.length), mask);
    }
  });
}

const cString = (text: string) => new TextEncoder().encode(`${text}\0`);

function withLibc<R>(use: (libc: Deno.DynamicLibrary<typeof SYMBOLS>["symbols"]) => R): R {
  const libc = Deno.dlopen("libc.so.6", SYMBOLS);
  try {
    return use(libc.symbols);
  } finally {
    libc.close();
  }
}
