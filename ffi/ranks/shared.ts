// Ranks of one host that communicate by memory which they map of each other: what an MPI window is to MPI, without MPI.
import { openArithmetic, roomOf } from "./arithmetic.ts";
import { openHostMemory } from "./host_memory.ts";
import { type Claim, makeSegment, mapSegment, PREFACE, type Segment, unmap } from "./segment.ts";
import type { Transport } from "./transport.ts";
import { HEAD, openWindow, prepareHead, type Window } from "./window.ts";

/** Each rank's own memory, mapped in this process: numbers, so that another thread can be told of it. */
export interface SharedMemory {
  readonly rank: number;
  readonly heads: readonly bigint[];
}

/** What this rank has for the others to map; or why it can't have it. */
export function offerMemory(): Segment | string {
  const host = openHostMemory();
  if (host === null) return "the system's library has no semaphores";
  const segment = makeSegment(HEAD);
  if (typeof segment === "string") return segment;
  prepareHead(segment.address, host);
  return segment;
}

/** When each rank has made its offer. Null where one can't be mapped. */
export function acceptMemory(rank: number, own: Segment, claims: readonly Claim[]): SharedMemory | null {
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
      const agreed = gather(window, size, all ? "mapped" : "not mapped").every((said) => said === "mapped");
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

function mapAll(rank: number, own: Segment, claims: readonly Claim[]): bigint[] | null {
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

const ROOM = 1024;

/** What each rank says, in few words. */
function gather(window: Window, size: number, text: string): string[] {
  const { bytes: all, address: at } = roomOf(ROOM * size);
  new TextEncoder().encodeInto(text, all.subarray(0, ROOM - 1));
  window.allGather(at, at, ROOM); // one's own is read before anything is written
  return Array.from({ length: size }, (_, of) => {
    const said = all.subarray(of * ROOM, (of + 1) * ROOM);
    return new TextDecoder().decode(said.subarray(0, said.indexOf(0)));
  });
}
