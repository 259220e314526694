// The training thread queues collectives on tensors in host memory here, and a communication thread does
// them.
import { describe, type Tensor } from "../../../ffi/tensor.ts";
import { enqueue, hostBytes, sharedTensor } from "../../../ffi/ranks/commands.ts";
import type { TransportOptions } from "../../../ffi/ranks/open_transport.ts";
import {
  AWAITED,
  type CollectiveName,
  COLLECTIVES,
  DONE,
  openRing,
  OPS,
  RING_TYPES,
  SLOTS,
} from "../../../ffi/ranks/ring.ts";
import { EXIT, UserError } from "../../base/errors.ts";
import { reached, startThread, type Thread } from "../../base/threads.ts";
import type { Collectives, Ticket } from "../collectives.ts";
import { busy, enter, type FlightRecorder } from "../flight_recorder.ts";
import type { CpuThreadAnswer, CpuThreadOptions } from "./thread.ts";

interface CpuEngineOptions {
  readonly transport: TransportOptions;
  readonly rank: number;
  readonly world: number;
  readonly flight: FlightRecorder;
  readonly timeout: number;
  readonly types?: number;
  /** The reason why no rank will come any more, or null. It is cheap. */
  readonly failed: () => UserError | null;
}

export type OpenedTransport = Extract<CpuThreadAnswer, { readonly version: string }>;

interface CpuCollectives extends Collectives {
  readonly version: string;
}

/** Returns when every rank has come. `check` throws where the opened transport is wrong. */
export async function openCpuEngine(
  engineOptions: CpuEngineOptions,
  check: (answer: CpuThreadAnswer) => OpenedTransport,
): Promise<CpuCollectives> {
  const { transport, rank, world, flight, types = RING_TYPES.length } = engineOptions;
  const queue = openCommandQueue(flight, engineOptions.failed);
  const options: CpuThreadOptions = {
    transport,
    rank,
    world,
    ring: queue.shared,
    flight: flight.shared,
  };
  const thread: Thread<CpuThreadAnswer> = startThread(
    new URL("./thread.ts", import.meta.url),
    transport.by,
    options,
  );
  const unguard = guardExit();
  let version: string;
  try {
    version = check(await inTime(answerOf(thread), engineOptions)).version;
  } catch (error) {
    unguard();
    thread.end();
    throw error;
  }
  let waited = 0, closed = false;
  return {
    ...verbs(queue, world, types),
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
        queue.put("close", "the end", 0, 0, null, null);
        const answer = await answerOf(thread);
        if ("failed" in answer) throw new UserError("communication", answer.failed);
        unguard();
        queue.stop("internal: a collective after communication was closed.");
      }
      thread.end();
    },
  };
}

function verbs(
  { put, until, memory }: CommandQueue,
  world: number,
  types: number,
): Pick<
  Collectives,
  "allReduce" | "broadcast" | "allGather" | "reduceScatter" | "barrier" | "split" | "shared"
> {
  return {
    allReduce(t, op, phase) {
      return put("all-reduce", phase, hostBytes(t), t.numel, t, null, typeOf(t, types), OPS.indexOf(op));
    },
    broadcast(t, root, phase) {
      const bytes = hostBytes(t);
      return put("broadcast", phase, bytes, bytes, t, null, root);
    },
    allGather(into, own, phase) {
      sizesFit(into, own, world);
      const bytes = hostBytes(own);
      return put("all-gather", phase, bytes, bytes, into, own);
    },
    reduceScatter(own, from, phase) {
      sizesFit(from, own, world);
      return put("reduce-scatter", phase, hostBytes(from), own.numel, own, from, typeOf(own, types));
    },
    barrier: (phase) => put("barrier", phase, 0, 0, null, null),
    split: (part, phase) => put("split", phase, 0, 0, null, null, part),
    /** All ranks see this memory, and the process keeps it until it ends. */
    shared(elements) {
      const ticket = put("share", "memory of this host", 4 * elements, 4 * elements, null, null);
      until(ticket);
      return memory(ticket, elements);
    },
  };
}

const answerOf = (thread: Thread<CpuThreadAnswer>): Promise<CpuThreadAnswer> =>
  thread.next().catch((error: Error) => {
    throw new Error(`internal: the thread that communicates ended: ${error.message}`);
  });

/**
 * MPI waits for ever for a rank that ended before it came: MPICH's launcher ignores one that has not yet
 * spoken to it, whatever its code.
 */
async function inTime(
  answer: Promise<CpuThreadAnswer>,
  { timeout, rank, world }: CpuEngineOptions,
): Promise<CpuThreadAnswer> {
  let timer: number | undefined;
  const timeOver = new Promise<never>((_, reject) => {
    const sentence =
      `Rank ${rank} of ${world} has waited ${timeout} s for the others to open MPI (--timeout): one of ` +
      "them ended before, or never began. What it said is in its own output.";
    timer = setTimeout(() => reject(new UserError("communication", sentence)), 1000 * timeout);
  });
  try {
    return await Promise.race([answer, timeOver]);
  } finally {
    clearTimeout(timer);
  }
}

function typeOf(t: Tensor, known: number): number {
  const type = (RING_TYPES as readonly string[]).indexOf(t.dtype);
  if (type < 0 || type >= known) {
    const names = RING_TYPES.slice(0, known).join(", ");
    throw new Error(`internal: ranks can't add up ${describe(t)} here: it must be ${names}.`);
  }
  return type;
}

function sizesFit(all: Tensor, own: Tensor, world: number): void {
  if (all.numel === world * own.numel && all.dtype === own.dtype) return;
  throw new Error(`internal: ${describe(all)} is not ${world} times ${describe(own)}.`);
}

/**
 * A rank that ends without closing it has failed. MPICH's launcher would kill the others silently and report
 * code 0.
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

interface CommandQueue {
  readonly shared: SharedArrayBuffer;
  /** `what` is the type's number, or the rank that a broadcast comes from. */
  put(
    verb: CollectiveName,
    phase: string,
    bytes: number,
    count: number,
    into: Tensor | null,
    from: Tensor | null,
    what?: number,
    op?: number,
  ): Ticket;
  done(ticket: Ticket): boolean;
  until(ticket: Ticket): void;
  /** The memory that the command "share" has made, which must be done and the last. */
  memory(ticket: Ticket, elements: number): Tensor | null;
  stop(reason: string): void;
  stopped(): UserError | null;
}

function openCommandQueue(flight: FlightRecorder, failed: () => UserError | null): CommandQueue {
  const ring = openRing();
  const { words, failure } = ring;
  let reason: string | null = null;
  const stopped = (): UserError | null => {
    const why = reason ?? failure.read();
    return why === null ? failed() : new UserError("communication", why);
  };
  const check = () => {
    const why = stopped();
    if (why !== null) throw why;
  };
  /** Sleeps at once: spinning first is slower, as it keeps a core from the threads that are waited for. */
  const until = (ticket: Ticket) => {
    Atomics.store(words, AWAITED, 1);
    while (!reached(words, DONE, ticket)) {
      check();
      const done = Atomics.load(words, DONE);
      // The wait is sliced: a failure may come between the check and the wait.
      if (((done - ticket) | 0) < 0) Atomics.wait(words, DONE, done, 100);
    }
    Atomics.store(words, AWAITED, 0);
  };
  return {
    shared: ring.shared,
    put(verb, phase, bytes, count, into, from, what = 0, op = 0) {
      check();
      const ticket = enter(flight, COLLECTIVES.indexOf(verb), bytes, phase);
      if (ticket > SLOTS) until(ticket - SLOTS);
      enqueue(ring, ticket, verb, count, into, from, what, op);
      return ticket;
    },
    done: (ticket) => reached(words, DONE, ticket),
    until,
    memory: (ticket, elements) => sharedTensor(ring, ticket, elements),
    stop(why) {
      reason ??= why;
    },
    stopped,
  };
}
