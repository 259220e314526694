// Collectives on tensors in host memory: the training thread queues them here, and a communication thread does them.
import { memoryBlockOf, tensorAt } from "../../../ffi/make.ts";
import { describe, type Tensor } from "../../../ffi/tensor.ts";
import { EXIT, UserError } from "../../base/errors.ts";
import type { Collectives, Ticket } from "../collectives.ts";
import { busy, type CollectiveName, COLLECTIVES, enter, type FlightRecorder } from "../flight_recorder.ts";
import {
  AWAITED,
  DONE,
  failure,
  OP,
  openRing,
  OPS,
  QUEUED,
  reached,
  slotOf,
  slotOffset,
  SLOTS,
  TYPES,
  VERB,
  WHAT,
} from "./ring.ts";
import type { CpuThreadAnswer, CpuThreadOptions } from "./thread.ts";
import type { TransportOptions } from "../../../ffi/ranks/open_transport.ts";

// Collectives on tensors in host memory: queued here, done by a thread, by whatever it was told to communicate by.

export interface EngineOrders {
  readonly transport: TransportOptions;
  readonly rank: number;
  readonly world: number;
  /** For this engine alone. */
  readonly flight: FlightRecorder;
  /** Seconds to wait for the other ranks to come. */
  readonly timeout: number;
  /** How many of TYPES it adds up. */
  readonly types?: number;
  /** Why no rank will come any more, or null. Asked often. */
  readonly failed: () => UserError | null;
}

export type OpenedTransport = Extract<CpuThreadAnswer, { readonly version: string }>;

export interface CpuCollectives extends Collectives {
  /** "Open MPI 5.0.11", "shared memory". */
  readonly version: string;
}

/** Comes to its end when every rank has come to it. `check` judges what came of opening; it throws what is wrong. */
export async function openCpuEngine(
  orders: EngineOrders,
  check: (answer: CpuThreadAnswer) => OpenedTransport,
): Promise<CpuCollectives> {
  const { transport, rank, world, flight, types = TYPES.length } = orders;
  const queue = openCommandQueue(flight, orders.failed);
  const thread = new Worker(new URL("./thread.ts", import.meta.url), { type: "module", name: transport.by });
  const unguard = guardExit();
  thread.postMessage(
    { transport, rank, world, ring: queue.shared, flight: flight.shared } satisfies CpuThreadOptions,
  );
  let version: string;
  try {
    version = check(await inTime(answerOf(thread), orders)).version;
  } catch (error) {
    unguard();
    thread.terminate();
    throw error;
  }
  let waited = 0, closed = false;
  return {
    ...verbs(queue, world, types),
    shared: (elements) => shared(queue, elements),
    backend: transport.by,
    rank,
    world,
    version,
    done: queue.done,
    wait(ticket) {
      if (queue.done(ticket)) return;
      const before = performance.now();
      queue.until(ticket);
      waited += (performance.now() - before) / 1000;
    },
    waited: () => waited,
    times: () => ({ waited, busy: busy(flight) }),
    abort: queue.stop,
    async close() {
      if (closed) return;
      closed = true;
      if (queue.stopped() === null) {
        queue.put("close", "the end", 0, 0, 0n, 0n);
        const answer = await answerOf(thread);
        if ("failed" in answer) throw new UserError("communication", answer.failed);
        unguard();
        queue.stop("internal: a collective after communication was closed.");
      }
      thread.terminate();
    },
  };
}

function verbs(
  { put }: CommandQueue,
  world: number,
  types: number,
): Pick<Collectives, "allReduce" | "broadcast" | "allGather" | "reduceScatter" | "barrier" | "split"> {
  return {
    allReduce(t, op, phase) {
      const { address, bytes } = memoryBlockOf(t);
      return put("all-reduce", phase, bytes, t.numel, address, 0n, typeOf(t, types), OPS.indexOf(op));
    },
    broadcast(t, root, phase) {
      const { address, bytes } = memoryBlockOf(t);
      return put("broadcast", phase, bytes, bytes, address, 0n, root);
    },
    allGather(into, own, phase) {
      sizesFit(into, own, world);
      const { address, bytes } = memoryBlockOf(own);
      return put("all-gather", phase, bytes, bytes, memoryBlockOf(into).address, address);
    },
    reduceScatter(own, from, phase) {
      sizesFit(from, own, world);
      const { address, bytes } = memoryBlockOf(from);
      return put(
        "reduce-scatter",
        phase,
        bytes,
        own.numel,
        memoryBlockOf(own).address,
        address,
        typeOf(own, types),
      );
    },
    barrier: (phase) => put("barrier", phase, 0, 0, 0n, 0n),
    split: (part, phase) => put("split", phase, 0, 0, 0n, 0n, part),
  };
}

/** Memory that all ranks see. It is the process's until it ends. */
function shared({ put, until, answer }: CommandQueue, elements: number): Tensor | null {
  const ticket = put("share", "memory of this host", 4 * elements, 4 * elements, 0n, 0n);
  until(ticket);
  const address = answer(ticket);
  return address === 0n ? null : tensorAt(address, elements);
}

const answerOf = (thread: Worker): Promise<CpuThreadAnswer> =>
  new Promise((resolve, reject) => {
    thread.onmessage = ({ data }: MessageEvent<CpuThreadAnswer>) => resolve(data);
    thread.onerror = (event) => {
      event.preventDefault();
      reject(new Error(`internal: the thread that communicates ended: ${event.message}`));
    };
  });

/**
 * MPI waits for ever for a rank that ended before it came: MPICH's launcher takes no notice of one that has not yet
 * spoken to it, whatever its code.
 */
async function inTime(
  answer: Promise<CpuThreadAnswer>,
  { timeout, rank, world }: EngineOrders,
): Promise<CpuThreadAnswer> {
  let timer: number | undefined;
  const late = new Promise<never>((_, reject) => {
    const sentence =
      `Rank ${rank} of ${world} has waited ${timeout} s for the others to open MPI (--timeout): one of ` +
      "them ended before, or never began. What it said is in its own output.";
    timer = setTimeout(() => reject(new UserError("communication", sentence)), 1000 * timeout);
  });
  try {
    return await Promise.race([answer, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** As a number of TYPES. */
function typeOf(t: Tensor, known: number): number {
  const type = (TYPES as readonly string[]).indexOf(t.dtype);
  if (type < 0 || type >= known) {
    const names = TYPES.slice(0, known).join(", ");
    throw new Error(`internal: ranks can't add up ${describe(t)} here: it must be ${names}.`);
  }
  return type;
}

function sizesFit(all: Tensor, own: Tensor, world: number): void {
  if (all.numel === world * own.numel && all.dtype === own.dtype) return;
  throw new Error(`internal: ${describe(all)} is not ${world} times ${describe(own)}.`);
}

/**
 * A rank that ends without closing it has failed, whatever it thinks. MPICH's launcher would kill the others without a
 * word and report code 0.
 */
function guardExit(): () => void {
  const onUnload = () => {
    if (Deno.exitCode !== 0) return;
    console.error("hpctrain: internal: this rank ends before its communication with the others was closed.");
    Deno.exitCode = EXIT.communication;
  };
  addEventListener("unload", onUnload);
  return () => removeEventListener("unload", onUnload);
}

// The training thread's end of the ring: commands go in, and it sleeps until they are done.

interface CommandQueue {
  /** For the thread that communicates. */
  readonly shared: SharedArrayBuffer;
  /** `what`: the type's number, or the rank that a broadcast comes from. */
  put(
    verb: CollectiveName,
    phase: string,
    bytes: number,
    count: number,
    into: bigint,
    from: bigint,
    what?: number,
    op?: number,
  ): Ticket;
  done(ticket: Ticket): boolean;
  until(ticket: Ticket): void;
  /** The address that it has answered a command with that is done, and the last. */
  answer(ticket: Ticket): bigint;
  /** Every later call but `done` throws this reason. */
  stop(reason: string): void;
  /** Why it stopped, or the thread did. */
  stopped(): UserError | null;
}

/** `failed`: why no rank will come any more, as somebody else knows who watches them. */
function openCommandQueue(flight: FlightRecorder, failed: () => UserError | null): CommandQueue {
  const ring = openRing();
  const { words, counts, addresses } = ring;
  let reason: string | null = null;
  const stopped = (): UserError | null => {
    const why = reason ?? failure(ring);
    return why === null ? failed() : new UserError("communication", why);
  };
  const check = () => {
    const why = stopped();
    if (why !== null) throw why;
  };
  /** Sleeps at once: looking for a moment first is slower, as it keeps a core from the threads that are waited for. */
  const until = (ticket: Ticket) => {
    Atomics.store(words, AWAITED, 1);
    while (!reached(ring, DONE, ticket)) {
      check();
      const done = Atomics.load(words, DONE);
      // In slices: a failure may come between the check and the wait.
      if (((done - ticket) | 0) < 0) Atomics.wait(words, DONE, done, 100);
    }
    Atomics.store(words, AWAITED, 0);
  };
  return {
    shared: ring.shared,
    put(verb, phase, bytes, count, into, from, what = 0, op = 0) {
      check();
      const number = COLLECTIVES.indexOf(verb);
      const ticket = enter(flight, number, bytes, phase);
      if (ticket > SLOTS) until(ticket - SLOTS);
      const slot = slotOf(ticket), at = slotOffset(slot);
      words[at + VERB] = number;
      words[at + WHAT] = what;
      words[at + OP] = op;
      counts[slot] = count;
      addresses[2 * slot] = into;
      addresses[2 * slot + 1] = from;
      Atomics.store(words, QUEUED, ticket | 0);
      Atomics.notify(words, QUEUED);
      return ticket;
    },
    done: (ticket) => reached(ring, DONE, ticket),
    until,
    answer: (ticket) => addresses[2 * slotOf(ticket)],
    stop(why) {
      reason ??= why;
    },
    stopped,
  };
}
