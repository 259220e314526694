// A window of memory that the ranks of one node share, and how they take turns in it. A sum in it takes one
// pass over memory where a message takes five, and a waiting rank sleeps at a semaphore and keeps no core
// from training. The memory is an MPI window's (ffi/mpi/mpi.ts), or segments that ranks map of each other
// (shared.ts).
import { LibraryError } from "../errors.ts";
import { type Combine, type ElementType, type ReduceOp, TYPE_BYTES } from "./transport.ts";

interface HostMemory {
  /** True when so many bytes leave half of the free memory to others: a write beyond the room is killed. */
  hasFree(bytes: number): boolean;
  copy(into: bigint, from: bigint, bytes: bigint): void;
  prepare(semaphore: bigint): void;
  post(semaphore: bigint): void;
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

/** POSIX keeps shared memory there on Linux. */
const PLACE = new TextEncoder().encode("/dev/shm\0");
// struct statvfs of 64-bit Linux, in words: the size of a block, and the number of free ones.
const BLOCK = 1, AVAILABLE = 4, WORDS = 32;
/** Slices let a thread that must end do so. */
const SLICE_NS = 200_000_000n, SECOND_NS = 1_000_000_000n;
const CLOCK_REALTIME = 0, CLOCK_MONOTONIC = 1;

export function openHostMemory(): HostMemory | null {
  const found = open();
  if (found === null) return null;
  const { memcpy, statvfs, sem_init, sem_post, sem_timedwait, sem_clockwait, clock_gettime } = found;
  // A wait by the machine's time lasts longer when that is set back meanwhile.
  const clock = sem_clockwait ? CLOCK_MONOTONIC : CLOCK_REALTIME;
  const sleep = sem_clockwait
    ? (semaphore: bigint) => sem_clockwait(semaphore, clock, until)
    : (semaphore: bigint) => sem_timedwait(semaphore, until);
  const until = new BigInt64Array(new ArrayBuffer(16)); // struct timespec: seconds and nanoseconds
  return {
    hasFree(bytes) {
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

export interface Window {
  /**
   * Works in place, on any memory. Where it lies in all ranks' `data`, every rank gives the same place in it.
   */
  allReduce(at: bigint, count: number, type: ElementType, op: ReduceOp): void;
  /** True when these bytes are in this rank's `data`, or so few that they pass through in one piece. */
  takes(at: bigint, bytes: number): boolean;
  broadcast(at: bigint, bytes: number, root: number): void;
  allGather(into: bigint, own: bigint, bytes: number): void;
  reduceScatter(own: bigint, from: bigint, count: number, type: ElementType): void;
  barrier(): void;
}

interface Memory {
  readonly rank: number;
  /** Semaphores and two slots of each rank, HEAD bytes. */
  readonly heads: readonly bigint[];
  /** Each rank's memory for its caller, of so many bytes; empty until it is made. */
  readonly data: readonly bigint[];
  readonly bytes: number;
  readonly host: HostMemory;
  readonly combine: Combine;
  /** A part of the ranks has other semaphores than all of them. */
  readonly bank: 0 | 1;
}

const SEMAPHORE = 64, ROUNDS = 16, BANKS = 2, PAGE = 4096;
const SLOT = 256 * 1024;
/** Up to this size each rank adds up all for itself, which takes one meeting; of larger data, its part. */
const SMALL = 64 * 1024;
/** A rank offers this memory to the others, beside its caller's memory. */
export const HEAD_BYTES = PAGE + 2 * SLOT;
/** Neighbouring ranks write no line of the cache at once. */
const LINE = 64;

/** Each rank prepares its own head once, before any rank uses it. */
export function prepareHead(head: bigint, host: HostMemory): void {
  for (let i = 0; i < BANKS * ROUNDS; i++) host.prepare(head + BigInt(i * SEMAPHORE));
}

export function openWindow({ rank, heads, data, bytes: dataBytes, host, combine, bank }: Memory): Window {
  const size = heads.length;
  /** A semaphore counts, so that a quicker rank may come to the next barrier while others leave this one. */
  const barrier = () => {
    for (let round = 0, far = 1; far < size; round++, far *= 2) {
      const place = BigInt((bank * ROUNDS + round) * SEMAPHORE);
      host.post(heads[(rank + far) % size] + place);
      host.wait(heads[rank] + place);
    }
  };
  const first = heads.map((head) => head + BigInt(PAGE)), second = first.map((at) => at + BigInt(SLOT));
  let turn = 0;
  /** Slots take turns: a rank that comes to a slot again has met all others since it left the slot. */
  const slots = () => (turn = 1 - turn) === 1 ? first : second;
  const inside = (at: bigint, length: number) =>
    data.length > 0 && at >= data[rank] && at + BigInt(length) <= data[rank] + BigInt(dataBytes);
  const part = (count: number, type: ElementType): readonly [number, number] => {
    const line = LINE / TYPE_BYTES[type], share = Math.ceil(count / size / line) * line;
    const from = Math.min(rank * share, count);
    return [from, Math.min(share, count - from)];
  };
  const pieces = (bytes: number, most: number, each: (done: number, piece: number) => void) => {
    for (let done = 0; done < bytes; done += most) each(done, Math.min(most, bytes - done));
  };
  const through = (at: bigint, count: number, type: ElementType, op: ReduceOp) => {
    const slot = slots();
    host.copy(slot[rank], at, BigInt(count * TYPE_BYTES[type]));
    barrier();
    combine(slot, [at], count, type, op);
  };
  const byParts = (places: readonly bigint[], count: number, type: ElementType, op: ReduceOp) => {
    barrier();
    const [from, own] = part(count, type);
    const mine = places.map((place) => place + BigInt(from * TYPE_BYTES[type]));
    if (own > 0) combine(mine, mine, own, type, op);
    barrier();
  };
  return {
    barrier,
    takes: (at, length) => length <= SMALL || inside(at, length),
    allReduce(at, count, type, op) {
      const wide = TYPE_BYTES[type];
      if (count * wide <= SMALL) return through(at, count, type, op);
      if (inside(at, count * wide)) {
        return byParts(data.map((base) => base + (at - data[rank])), count, type, op);
      }
      pieces(count * wide, SLOT, (done, piece) => {
        const slot = slots(), place = at + BigInt(done);
        host.copy(slot[rank], place, BigInt(piece));
        byParts(slot, piece / wide, type, op);
        host.copy(place, slot[rank], BigInt(piece));
      });
    },
    broadcast: (at, bytes, root) =>
      pieces(bytes, SLOT, (done, piece) => {
        const slot = slots(), place = at + BigInt(done);
        if (rank === root) host.copy(slot[rank], place, BigInt(piece));
        barrier();
        if (rank !== root) host.copy(place, slot[root], BigInt(piece));
      }),
    allGather: (into, own, bytes) =>
      pieces(bytes, SLOT, (done, piece) => {
        const slot = slots();
        host.copy(slot[rank], own + BigInt(done), BigInt(piece));
        barrier();
        slot.forEach((from, of) => host.copy(into + BigInt(of * bytes + done), from, BigInt(piece)));
      }),
    reduceScatter(own, from, count, type) {
      const wide = TYPE_BYTES[type], all = count * wide;
      const most = Math.max(LINE, Math.floor(SLOT / size / LINE) * LINE);
      pieces(all, most, (done, piece) => {
        const slot = slots();
        for (let of = 0; of < size; of++) {
          host.copy(slot[rank] + BigInt(of * piece), from + BigInt(of * all + done), BigInt(piece));
        }
        barrier();
        const mine = slot.map((at) => at + BigInt(rank * piece));
        combine(mine, [own + BigInt(done)], piece / wide, type, "sum");
      });
    },
  };
}
