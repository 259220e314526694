import { messageOf } from "../../core/base/errors.ts";
import { fixedBytes, openArithmetic, type Transport } from "./transport.ts";
import { HEAD_BYTES, openHostMemory, openWindow, prepareHead, type Window } from "./window.ts";

// One process makes a segment and others of the same user and host map it. It has no name: it is found
// through its maker's own descriptor, so that nothing remains of it however its processes end, and the size
// of /dev/shm is no limit.

/** Another process finds the segment by this, and identifies it by the token. */
export interface SegmentHandle {
  readonly pid: number;
  readonly descriptor: number;
  readonly bytes: number;
  readonly token: string;
}

export interface SharedSegment {
  readonly address: bigint;
  readonly claim: SegmentHandle;
  seal(): void;
  free(): void;
}

/** The first bytes identify the segment; nobody else may use them. */
const PREFACE = 4096;
const TOKEN_AT = 2048, TOKEN_BYTES = 16;

const SYMBOLS = {
  memfd_create: { parameters: ["buffer", "u32"], result: "i32" },
  posix_fallocate: { parameters: ["i32", "i64", "i64"], result: "i32" },
  mmap: { parameters: ["usize", "usize", "i32", "i32", "i32", "i64"], result: "isize" },
  munmap: { parameters: ["usize", "usize"], result: "i32" },
  open: { parameters: ["buffer", "i32"], result: "i32" },
  close: { parameters: ["i32"], result: "i32" },
  copyTo: { name: "memcpy", parameters: ["usize", "buffer", "usize"], result: "usize" },
  takeThence: { name: "memcpy", parameters: ["buffer", "usize", "usize"], result: "usize" },
} as const;

const MFD_CLOEXEC = 1, PROT_READ_WRITE = 3, MAP_SHARED = 1;
const O_RDWR = 2, O_NONBLOCK = 0o4000, O_CLOEXEC = 0o2000000;

let libc: Deno.DynamicLibrary<typeof SYMBOLS>["symbols"] | undefined;
const native = () => libc ??= Deno.dlopen("libc.so.6", SYMBOLS).symbols;

/**
 * The segment is all zeros but for its preface, and there as a whole: no write to it is killed for want of
 * room. Else the reason.
 */
export function makeSegment(bytes: number): SharedSegment | string {
  try {
    const { memfd_create, posix_fallocate, close, copyTo } = native();
    const limit = fileLimit();
    if (bytes > limit) return `this process may make files of ${limit} bytes at most (ulimit -f)`;
    // The system would go on giving until nothing was free.
    if (bytes > memoryLeft()) return `this host has no ${bytes} bytes of memory left to share`;
    const descriptor = memfd_create(cString("hpctrain"), MFD_CLOEXEC);
    if (descriptor < 0) return "the system gives no memory to share (memfd_create)";
    const failed = posix_fallocate(descriptor, 0n, BigInt(bytes));
    const address = failed === 0 ? map(descriptor, bytes) : null;
    if (address === null) {
      close(descriptor);
      return `there is no room for ${bytes} bytes of shared memory (error ${failed || "of mmap"})`;
    }
    const token = crypto.getRandomValues(new Uint8Array(TOKEN_BYTES));
    copyTo(address + BigInt(TOKEN_AT), token, BigInt(TOKEN_BYTES));
    let open = true;
    const seal = () => {
      if (open) close(descriptor);
      open = false;
    };
    return {
      address,
      claim: { pid: Deno.pid, descriptor, bytes, token: hex(token) },
      seal,
      free() {
        seal();
        unmap(address, bytes);
      },
    };
  } catch (error) {
    return `the system gives no memory to share (${messageOf(error)})`; // an old libc
  }
}

export function mapSegment({ pid, descriptor, bytes, token }: SegmentHandle): bigint | null {
  const { open, close, takeThence } = native();
  // Does not wait: where process ids are of another container it may be a pipe.
  const opened = open(cString(`/proc/${pid}/fd/${descriptor}`), O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (opened < 0) return null;
  const address = sizeOf(opened) >= bytes ? map(opened, bytes) : null;
  close(opened);
  if (address === null) return null;
  const found = new Uint8Array(TOKEN_BYTES);
  takeThence(found, address + BigInt(TOKEN_AT), BigInt(TOKEN_BYTES));
  if (hex(found) === token) return address;
  unmap(address, bytes);
  return null;
}

function unmap(address: bigint, bytes: number): void {
  native().munmap(address, BigInt(bytes));
}

function map(descriptor: number, bytes: number): bigint | null {
  const at = BigInt(native().mmap(0n, BigInt(bytes), PROT_READ_WRITE, MAP_SHARED, descriptor, 0n));
  return at === -1n ? null : at;
}

/** Reading a mapping beyond a file's end would end the process. */
function sizeOf(descriptor: number): number {
  try {
    return Deno.statSync(`/proc/self/fd/${descriptor}`).size;
  } catch {
    return 0;
  }
}

function memoryLeft(): number {
  const [, kibibytes] = /^MemAvailable:\s+(\d+) kB/m.exec(Deno.readTextFileSync("/proc/meminfo")) ?? [];
  return kibibytes === undefined ? Infinity : 1024 * Number(kibibytes);
}

/** Beyond it the system would not refuse, but send a signal that ends the process. */
function fileLimit(): number {
  const [, soft] = /^Max file size\s+(\S+)/m.exec(Deno.readTextFileSync("/proc/self/limits")) ?? [];
  return soft === undefined || soft === "unlimited" ? Infinity : Number(soft);
}

const cString = (text: string) => new TextEncoder().encode(`${text}\0`);

const hex = (bytes: Uint8Array): string => [...bytes].map((b) => b.toString(16).padStart(2, "0")).join("");

/** Each rank's own memory, mapped in this process: numbers, so that another thread can use them. */
export interface SharedMemory {
  readonly rank: number;
  readonly heads: readonly bigint[];
}

export function offerMemory(): SharedSegment | string {
  const host = openHostMemory();
  if (host === null) return "the system's library has no semaphores";
  const segment = makeSegment(HEAD_BYTES);
  if (typeof segment === "string") return segment;
  prepareHead(segment.address, host);
  return segment;
}

/** Call it when each rank has made its offer. Null where one can't be mapped. */
export function acceptMemory(
  rank: number,
  own: SharedSegment,
  claims: readonly SegmentHandle[],
): SharedMemory | null {
  const heads = mapAll(rank, own, claims);
  return heads && { rank, heads };
}

export function openShared({ rank, heads }: SharedMemory): Transport {
  const size = heads.length;
  const host = openHostMemory()!, combine = openArithmetic();
  let window: Window = openWindow({ rank, heads, data: [], bytes: 0, host, combine, bank: 0 });
  let group: Window | null = null;
  const inGroup = () => group ?? window;
  return {
    version: "shared memory",
    rank,
    size,
    allReduce: (at, count, type, op) => inGroup().allReduce(at, count, type, op),
    barrier: () => inGroup().barrier(),
    broadcast: (at, bytes, root) => window.broadcast(at, bytes, root),
    allGather: (into, own, bytes) => window.allGather(into, own, bytes),
    reduceScatter: (own, from, count, type) => window.reduceScatter(own, from, count, type),
    split(colour) {
      group = null;
      window.barrier(); // nobody looks at a slot of the part before any more
      const colours = gather(window, size, String(colour)).map(Number);
      window.barrier();
      if (colour < 0) return;
      const members = colours.flatMap((of, rank) => of === colour ? [rank] : []);
      group = openWindow({
        rank: members.indexOf(rank),
        heads: members.map((of) => heads[of]),
        data: [],
        bytes: 0,
        host,
        combine,
        bank: 1,
      });
    },
    share(bytes) {
      const made = makeSegment(PREFACE + bytes);
      const own = typeof made === "string" ? null : made;
      const claims = gather(window, size, JSON.stringify(own?.claim ?? null)).map((text) => JSON.parse(text));
      const all = own && claims.every((claim) => claim !== null) ? mapAll(rank, own, claims) : null;
      const agreed = gather(window, size, all ? "mapped" : "not mapped").every((word) => word === "mapped");
      own?.seal();
      if (!agreed || !all) {
        all?.forEach((address, of) => of !== rank && unmap(address, claims[of].bytes));
        own?.free();
        return 0n;
      }
      const data = all.map((address) => address + BigInt(PREFACE));
      window = openWindow({ rank, heads, data, bytes, host, combine, bank: 0 });
      window.barrier(); // slots are used anew from the first
      return data[rank];
    },
    finalize: () => window.barrier(), // the memory is the process's until it ends
  };
}

function mapAll(rank: number, own: SharedSegment, claims: readonly SegmentHandle[]): bigint[] | null {
  const all: bigint[] = [];
  for (const [of, claim] of claims.entries()) {
    const address = of === rank ? own.address : mapSegment(claim);
    if (address === null) {
      all.forEach((other, of) => of !== rank && unmap(other, claims[of].bytes));
      return null;
    }
    all.push(address);
  }
  return all;
}

const WORD_BYTES = 1024;

function gather(window: Window, size: number, text: string): string[] {
  const { bytes: all, address: at } = fixedBytes(WORD_BYTES * size);
  new TextEncoder().encodeInto(text, all.subarray(0, WORD_BYTES - 1));
  window.allGather(at, at, WORD_BYTES); // one's own is read before anything is written
  return Array.from({ length: size }, (_, of) => {
    const word = all.subarray(of * WORD_BYTES, (of + 1) * WORD_BYTES);
    return new TextDecoder().decode(word.subarray(0, word.indexOf(0)));
  });
}
