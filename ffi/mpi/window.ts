// An MPI window as the memory that the ranks of one host see of each other.
import { openHostMemory } from "../ranks/host_memory.ts";
import { BYTES, type Combine } from "../ranks/transport.ts";
import { HEAD, openWindow as openOn, prepareHead, type Window } from "../ranks/window.ts";
import type { Constants, Handle, MpiType } from "./abi.ts";
import type { Calls } from "./calls.ts";

export interface MpiWindow extends Pick<Window, "takes" | "allReduce" | "barrier"> {
  /** Where this rank's part begins that is for its caller. */
  readonly address: bigint;
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

const PAGE = 4096;
/** Bytes that are summed and handed out while they are in the caches. */
const CHUNK = 64 * 1024;

/** Every rank calls it; null on all where they are not all on one host, or its shared memory has no room for it. */
export function openWindow(host: Host, bytes: number): MpiWindow | null {
  const { calls, constants, wide, rank, size, check, least } = host;
  const own = HEAD + Math.ceil(bytes / PAGE) * PAGE;
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
  const heads = Array.from({ length: size }, (_, of) => {
    const length = new BigInt64Array(1), unit = new Int32Array(1);
    check(calls.MPI_Win_shared_query(window[0] as Handle, of, length, unit, at), "Win_shared_query");
    return at[0];
  });
  prepareHead(heads[rank], memory!);
  check(calls.MPI_Barrier(world), "Barrier");
  const data = heads.map((head) => head + BigInt(HEAD));
  const combine = combineBy(host, memory!.copy);
  return {
    ...openOn({ rank, heads, data, bytes: own - HEAD, host: memory!, combine, bank: 0 }),
    address: data[rank],
  };
}

/** By MPI's own reckoning, in the memory that the result is for. */
function combineBy(
  { calls, constants: { types, ops }, check }: Host,
  copy: (into: bigint, from: bigint, bytes: bigint) => void,
): Combine {
  return (sources, [into, ...copies], count, type, op) => {
    const wide = BYTES[type], step = CHUNK / wide;
    for (let from = 0; from < count; from += step) {
      const part = Math.min(step, count - from), at = BigInt(from * wide), bytes = BigInt(part * wide);
      if (into !== sources[0]) copy(into + at, sources[0] + at, bytes);
      for (let i = 1; i < sources.length; i++) {
        const code = calls.MPI_Reduce_local(
          sources[i] + at,
          into + at,
          part,
          types[type as MpiType],
          ops[op],
        );
        check(code, "Reduce_local");
      }
      for (const to of copies) copy(to + at, into + at, bytes);
    }
  };
}
