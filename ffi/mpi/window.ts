// Memory that the ranks of one host see of each other, an MPI window: a sum in it takes one pass over memory where a
// message takes five, and who waits there sleeps, where MPI would spin and keep a core from training. May import abi,
// calls.
import type { Constants, Handle, MpiOp, MpiType } from "./abi.ts";
import type { Calls } from "./calls.ts";
import { openHostMemory } from "./host_memory.ts";

export interface Window {
  /** Where this rank's part begins that is for its caller. */
  readonly address: bigint;
  /** Whether these bytes are in that part, or so few that they can pass through the window. */
  takes(at: bigint, bytes: number): boolean;
  /** In place; what `takes` has accepted. Every rank gives the same place in its part. */
  allReduce(at: bigint, count: number, type: MpiType, op: MpiOp): void;
  barrier(): void;
}

/** What a window needs of an open MPI. */
export interface Host {
  readonly calls: Calls;
  readonly constants: Constants;
  /** The width of a handle. */
  readonly wide: boolean;
  readonly rank: number;
  readonly size: number;
  readonly check: (code: number, verb: string) => void;
  /** The least of all ranks' numbers. */
  readonly least: (value: number) => number;
}

export const BYTES: Readonly<Record<MpiType, number>> = { f32: 4, f64: 8, i32: 4, i64: 8, u8: 1 };

// A rank's part: its semaphores, two slots that what is not in the window passes through, and the caller's memory.
const SEMAPHORE = 64, ROUNDS = 16, PAGE = 4096;
const SLOT = 64 * 1024;
const SLOTS_AT = PAGE, DATA_AT = SLOTS_AT + 2 * SLOT;
/** Bytes that are summed and handed out while they are in the caches. */
const CHUNK = 64 * 1024;
/** Neighbouring ranks write no line of the cache together. */
const LINE = 64;

/** Every rank calls it; null on all where they are not all on one host, or its shared memory has no room for it. */
export function openWindow(host: Host, bytes: number): Window | null {
  const { calls, constants, wide, rank, size, check, least } = host;
  const own = DATA_AT + Math.ceil(bytes / PAGE) * PAGE;
  const memory = openHostMemory();
  if (least(memory !== null && memory.room(own * size) ? 1 : 0) === 0) return null;
  const word = () => wide ? new BigUint64Array(1) : new Int32Array(2);
  const node = word(), window = word(), count = new Int32Array(1);
  const { world, commShared, infoNull } = constants;
  check(calls.MPI_Comm_split_type(world, commShared, rank, infoNull, node), "Comm_split_type");
  const comm = node[0] as Handle;
  check(calls.MPI_Comm_size(comm, count), "Comm_size");
  if (least(count[0]) < size) return null;
  const at = new BigUint64Array(1);
  const failed = calls.MPI_Win_allocate_shared(BigInt(own), 1, infoNull, comm, at, window);
  if (least(failed === 0 ? 1 : 0) === 0) return null;
  const bases = Array.from({ length: size }, (_, of) => {
    const length = new BigInt64Array(1), unit = new Int32Array(1);
    check(calls.MPI_Win_shared_query(window[0] as Handle, of, length, unit, at), "Win_shared_query");
    return at[0];
  });
  for (let i = 0; i < ROUNDS; i++) memory!.prepare(bases[rank] + BigInt(i * SEMAPHORE));
  check(calls.MPI_Barrier(world), "Barrier");
  return sums(host, bases, own - DATA_AT, memory!);
}

function sums(
  { calls, constants: { types, ops }, rank, size, check }: Host,
  bases: readonly bigint[],
  bytes: number,
  memory: NonNullable<ReturnType<typeof openHostMemory>>,
): Window {
  const others = bases.map((_, of) => of).filter((of) => of !== rank);
  const mine = bases[rank], data = mine + BigInt(DATA_AT);
  const inside = (at: bigint, length: number) => at >= data && at + BigInt(length) <= data + BigInt(bytes);
  const combine = (from: bigint, into: bigint, count: number, type: MpiType, op: MpiOp) =>
    check(calls.MPI_Reduce_local(from, into, count, types[type], ops[op]), "Reduce_local");
  /** A semaphore counts, so that who is quicker may come to the next barrier while others leave this one. */
  const barrier = () => {
    for (let round = 0, far = 1; far < size; round++, far *= 2) {
      const place = BigInt(round * SEMAPHORE);
      memory.post(bases[(rank + far) % size] + place);
      memory.wait(mine + place);
    }
  };
  let turn = 0;
  /** Each adds up all for itself, in the order of ranks. Who comes to the slot again knows that all have left it. */
  const through = (at: bigint, count: number, type: MpiType, op: MpiOp) => {
    const slot = BigInt(SLOTS_AT + turn * SLOT), length = BigInt(count * BYTES[type]);
    turn = 1 - turn;
    memory.copy(mine + slot, at, length);
    barrier();
    memory.copy(at, bases[0] + slot, length);
    for (let of = 1; of < size; of++) combine(bases[of] + slot, at, count, type, op);
  };
  /** Each adds up one part of it, and writes that into all. */
  const inPlace = (at: bigint, count: number, type: MpiType, op: MpiOp) => {
    const step = CHUNK / BYTES[type], line = LINE / BYTES[type];
    const share = Math.ceil(count / size / line) * line;
    const end = Math.min((rank + 1) * share, count);
    const there = others.map((of) => bases[of] - mine);
    barrier();
    for (let from = rank * share; from < end; from += step) {
      const part = Math.min(step, end - from), length = BigInt(part * BYTES[type]);
      const place = at + BigInt(from * BYTES[type]);
      for (const away of there) combine(place + away, place, part, type, op);
      for (const away of there) memory.copy(place + away, place, length);
    }
    barrier();
  };
  return {
    address: data,
    takes: (at, length) => length <= SLOT || inside(at, length),
    allReduce: (at, count, type, op) => {
      if (count * BYTES[type] <= SLOT) through(at, count, type, op);
      else inPlace(at, count, type, op);
    },
    barrier,
  };
}
