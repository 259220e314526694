// What libc has for memory that processes of one host share: copies, semaphores to sleep at, and how much room there is.
import { LibraryError } from "../errors.ts";

export interface HostMemory {
  /** Whether so many bytes leave half of what is free to others: one who writes beyond the room is killed. */
  room(bytes: number): boolean;
  copy(into: bigint, from: bigint, bytes: bigint): void;
  /** Makes a semaphore of processes, at zero. */
  prepare(semaphore: bigint): void;
  post(semaphore: bigint): void;
  /** Sleeps until it was posted. */
  wait(semaphore: bigint): void;
}

const plain = {
  memcpy: { parameters: ["usize", "usize", "usize"], result: "usize" },
  statvfs: { parameters: ["buffer", "buffer"], result: "i32" },
} as const satisfies Deno.ForeignLibraryInterface;
const semaphores = {
  sem_init: { parameters: ["usize", "i32", "u32"], result: "i32" },
  sem_post: { parameters: ["usize"], result: "i32" },
  sem_timedwait: { parameters: ["usize", "buffer"], result: "i32" },
  sem_clockwait: { parameters: ["usize", "i32", "buffer"], result: "i32", optional: true }, // from glibc 2.30
  clock_gettime: { parameters: ["i32", "buffer"], result: "i32" },
} as const satisfies Deno.ForeignLibraryInterface;

/** Where POSIX keeps shared memory on Linux. */
const PLACE = new TextEncoder().encode("/dev/shm\0");
// struct statvfs of 64-bit Linux: in words, the size of a block, and how many are to be had.
const BLOCK = 1, AVAILABLE = 4, WORDS = 32;
/** Slices, so that a thread that is to end does. */
const SLICE_NS = 200_000_000n, SECOND_NS = 1_000_000_000n;
const CLOCK_REALTIME = 0, CLOCK_MONOTONIC = 1;

/** Null where libc lacks a part of it. */
export function openHostMemory(): HostMemory | null {
  const found = open();
  if (found === null) return null;
  const { memcpy, statvfs, sem_init, sem_post, sem_timedwait, sem_clockwait, clock_gettime } = found;
  // The machine's time may be set meanwhile: then a slice by it lasts as long as it was set back.
  const clock = sem_clockwait ? CLOCK_MONOTONIC : CLOCK_REALTIME;
  const sleep = sem_clockwait
    ? (semaphore: bigint) => sem_clockwait(semaphore, clock, until)
    : (semaphore: bigint) => sem_timedwait(semaphore, until);
  const until = new BigInt64Array(new ArrayBuffer(16)); // struct timespec: seconds and nanoseconds
  return {
    room(bytes) {
      const about = new BigUint64Array(new ArrayBuffer(8 * WORDS));
      if (statvfs(PLACE, about) !== 0) return false;
      return 2 * bytes <= Number(about[BLOCK] * about[AVAILABLE]);
    },
    copy: (into, from, bytes) => void memcpy(into, from, bytes),
    prepare(semaphore) {
      if (sem_init(semaphore, 1, 0) !== 0) {
        throw new LibraryError("This machine's C library gives no semaphore between processes.");
      }
    },
    post: (semaphore) => void sem_post(semaphore),
    wait(semaphore) {
      do {
        clock_gettime(clock, until);
        const end = until[1] + SLICE_NS;
        until[0] += end / SECOND_NS;
        until[1] = end % SECOND_NS;
      } while (sleep(semaphore) !== 0);
    },
  };
}

let found: ReturnType<typeof load> | undefined;
const open = () => found === undefined ? found = load() : found;

function load() {
  try {
    const libc = Deno.dlopen("libc.so.6", plain).symbols;
    try {
      return { ...libc, ...Deno.dlopen("libc.so.6", semaphores).symbols };
    } catch { // before glibc 2.34
      return { ...libc, ...Deno.dlopen("libpthread.so.0", semaphores).symbols };
    }
  } catch {
    return null;
  }
}
