// Collectives by NCCL on tensors of a GPU: queued on a stream of their own behind what is computed so far,
// beside what is computed next. Only the training thread calls this; another thread watches.
import {
  type Comm,
  type CudaEvents,
  inProgress,
  type Nccl,
  openCudaEvents,
  openNccl,
} from "../../../ffi/nccl/nccl.ts";
import type { GpuRuntime } from "../../../ffi/gpu/backends.ts";
import type { Stream } from "../../../ffi/cuda.ts";
import { type NcclCall, type NcclVerbs, ncclVerbs } from "../../../ffi/nccl/verbs.ts";
import { describe, type Tensor } from "../../../ffi/tensor.ts";
import { UserError } from "../../base/errors.ts";
import { reached, startThread, type Thread } from "../../base/threads.ts";
import type { Collectives, Ticket } from "../collectives.ts";
import { type CollectiveName, COLLECTIVES } from "../../../ffi/ranks/ring.ts";
import { beginCollective, busy, enter, type FlightRecorder, progress } from "../flight_recorder.ts";
import {
  ABORT,
  BEGUN,
  DONE,
  eventOf,
  FAILED,
  hold,
  MEASURED,
  type NcclShared,
  openNcclShared,
  pairOf,
  PAIRS,
  QUEUED,
  READY,
  release,
  REQUEST,
  SLOTS,
  STOP,
  WAITS,
} from "../../../ffi/nccl/shared.ts";
import type { NcclThreadOptions } from "./watch_thread.ts";

interface NcclEngineOptions extends Streams {
  readonly path: string;
  readonly runtime: GpuRuntime;
  readonly device: number;
  readonly rank: number;
  readonly world: number;
  readonly flight: FlightRecorder;
  readonly timeout: number;
  readonly share: (bytes?: Uint8Array) => Uint8Array;
  /** One element in the device's memory, for barriers. */
  readonly one: Tensor;
}

export interface NcclCollectives extends Collectives {
  readonly version: string;
  readonly against: string | null;
}

export async function openNcclEngine(options: NcclEngineOptions): Promise<NcclCollectives> {
  const { path, runtime, rank, world, flight, one } = options;
  const nccl = openNccl(path, runtime.kind), events = openCudaEvents(runtime);
  const comm = await meet(nccl, options);
  const shared = openNcclShared();
  for (let i = 0; i < shared.events.length; i++) shared.events[i] = events.create(i % 3 !== READY);
  for (let i = 0; i < shared.pairs.length; i++) shared.pairs[i] = events.create(true);
  const { device } = options;
  const watcher = openWatcher({
    nccl: path,
    runtime,
    device,
    comm,
    shared: shared.shared,
    flight: flight.shared,
  });
  const queue = openNcclQueue({ ...options, nccl, comm, events, shared });
  let closed = false;
  return {
    ...verbs(ncclVerbs(nccl, comm, options.stream, one.device), queue.put, world, one),
    backend: "nccl",
    rank,
    world,
    version: nccl.version,
    against: nccl.against,
    ...{ done: queue.done, wait: queue.wait, capture: queue.capture, replay: queue.replay },
    waited: () => shared.waited[0],
    times: () => ({ waited: shared.waited[0], busy: busy(flight) }),
    abort(why) {
      queue.stop(why);
      watcher.request(ABORT);
      queue.freeGraphs();
    },
    async close() {
      if (closed) return;
      closed = true;
      if (queue.hasThrown()) queue.freeGraphs();
      else {
        queue.drain();
        queue.freeGraphs();
        watcher.request(STOP);
        await watcher.ended;
        await finish(nccl, comm, options.timeout);
        queue.stop("internal: a collective after communication was closed.");
      }
      watcher.end();
    },
  };
}

function verbs(
  nccl: NcclVerbs,
  put: Put,
  world: number,
  one: Tensor,
): Pick<Collectives, "allReduce" | "broadcast" | "allGather" | "reduceScatter" | "barrier"> {
  return {
    allReduce: (t, op, phase) => put("all-reduce", phase, t.byteLength, nccl.allReduce(t, op)),
    broadcast: (t, root, phase) => put("broadcast", phase, t.byteLength, nccl.broadcast(t, root)),
    allGather(into, own, phase) {
      sizesFit(into, own, world);
      return put("all-gather", phase, own.byteLength, nccl.allGather(into, own));
    },
    reduceScatter(own, from, phase) {
      sizesFit(from, own, world);
      return put("reduce-scatter", phase, from.byteLength, nccl.reduceScatter(own, from));
    },
    barrier: (phase) => put("barrier", phase, one.byteLength, nccl.allReduce(one, "max")),
  };
}

async function meet(nccl: Nccl, { share, rank, world, timeout }: NcclEngineOptions): Promise<Comm> {
  const id = share(rank === 0 ? nccl.newId() : undefined);
  const began = nccl.begin(world, id, rank);
  const deadline = performance.now() + 1000 * timeout;
  let code = began.code;
  for (; inProgress(code); code = nccl.state(began.comm)) {
    if (performance.now() > deadline) {
      nccl.abort(began.comm);
      throw new UserError(
        "communication",
        `Rank ${rank} of ${world} has waited ${timeout} s for the others to open NCCL (--timeout): one of them ended ` +
          "before, never began, or can't be reached. What it said is in its own output; NCCL_DEBUG=INFO tells more.",
      );
    }
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  if (code === 0) return began.comm;
  throw new UserError(
    "communication",
    `Rank ${rank} of ${world} can't open NCCL: ${
      nccl.text(code, began.comm)
    } (${nccl.version}). NCCL_DEBUG=INFO tells ` +
      "more; hpctrain doctor shows the GPUs and the network.",
  );
}

async function finish(nccl: Nccl, comm: Comm, timeout: number): Promise<void> {
  const deadline = performance.now() + 1000 * timeout;
  let code = nccl.finalize(comm);
  for (; inProgress(code) && performance.now() < deadline; code = nccl.state(comm)) {
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  if (code === 0) code = nccl.destroy(comm);
  if (code === 0) return;
  const why = inProgress(code) ? `another rank did not come in ${timeout} s` : nccl.text(code, comm);
  throw new UserError(
    "communication",
    `Communication between ranks could not be closed: ${why} (${nccl.version}).`,
  );
}

function sizesFit(all: Tensor, own: Tensor, world: number): void {
  if (all.numel === world * own.numel && all.dtype === own.dtype) return;
  throw new Error(`internal: ${describe(all)} is not ${world} times ${describe(own)}.`);
}

interface Streams {
  readonly stream: Stream;
  readonly computing: () => Stream;
}

interface Parts extends Streams {
  readonly nccl: Nccl;
  readonly comm: Comm;
  readonly events: CudaEvents;
  readonly shared: NcclShared;
  readonly flight: FlightRecorder;
  readonly timeout: number;
}

type Put = (
  verb: CollectiveName,
  phase: string,
  bytes: number,
  call: NcclCall,
) => Ticket;

interface NcclQueue extends Required<Pick<Collectives, "capture" | "replay">> {
  readonly put: Put;
  done(ticket: Ticket): boolean;
  /** The stream waits, not the host. */
  wait(ticket: Ticket): void;
  /** The host waits, for all. */
  drain(): void;
  stop(reason: string): void;
  /** NCCL ends no communicator, and aborts none, while a graph that captured its collectives is there. */
  freeGraphs(): void;
  /** True when a caller has got the reason why it stopped. */
  hasThrown(): boolean;
}

function openNcclQueue(parts: Parts): NcclQueue {
  const { events, shared, flight, stream, computing } = parts;
  let reason: string | null = null, thrown = false, waits = 0;
  const check = () => {
    const why = reason ?? shared.failure.read();
    if (why === null) return;
    thrown = true;
    throw new UserError("communication", why);
  };
  const done = (ticket: Ticket) =>
    ticket <= progress(flight).ended || events.done(eventOf(shared, ticket, DONE));
  const until = (ticket: Ticket) => {
    while (progress(flight).ended < ticket) {
      check();
      pause(shared);
    }
  };
  const enterNext = (verb: CollectiveName, phase: string, bytes: number): Ticket => {
    check();
    until(progress(flight).queued + 1 - SLOTS); // whose slot it takes
    return enter(flight, COLLECTIVES.indexOf(verb), bytes, phase);
  };
  const queued = (ticket: Ticket, on: Stream) => {
    beginCollective(flight, ticket);
    events.record(eventOf(shared, ticket, DONE), on);
    Atomics.store(shared.words, QUEUED, ticket | 0);
    Atomics.notify(shared.words, QUEUED);
  };
  /** Null unless a graph is captured: then the events of its collectives, whose tickets count down from -1. */
  let captured: bigint[] | null = null;
  const graphs: { free(): void }[] = [];
  const putCaptured = (dones: bigint[], call: NcclCall, what: string): Ticket => {
    const ready = events.create(false), end = events.create(false);
    events.record(ready, computing());
    events.wait(stream, ready);
    accept(parts, call, what, check);
    events.record(end, stream);
    return -dones.push(end);
  };
  return {
    put(verb, phase, bytes, call) {
      if (captured) return putCaptured(captured, call, `${verb} (${phase}, captured)`);
      const ticket = enterNext(verb, phase, bytes);
      const ready = eventOf(shared, ticket, READY);
      events.record(ready, computing());
      events.wait(stream, ready);
      events.record(eventOf(shared, ticket, BEGUN), stream);
      if (bytes > 0) accept(parts, call, `${verb} ${ticket} (${phase})`, check);
      queued(ticket, stream);
      return ticket;
    },
    capture(make) {
      captured = [];
      try {
        const graph = make();
        graphs.push(graph);
        return graph;
      } finally {
        captured = null;
      }
    },
    replay(run, phase) {
      const ticket = enterNext("all-reduce", phase, 0);
      events.record(eventOf(shared, ticket, BEGUN), computing());
      run();
      queued(ticket, computing());
    },
    done,
    wait(ticket) {
      if (captured) return events.wait(computing(), captured[-ticket - 1]);
      check();
      if (done(ticket)) return;
      // Waits beyond the pairs are not measured.
      const measured = reached(shared.words, MEASURED, waits + 1 - PAIRS) ? ++waits : 0;
      const at = computing();
      if (measured) events.record(pairOf(shared, measured, 0), at);
      events.wait(at, eventOf(shared, ticket, DONE));
      if (!measured) return;
      events.record(pairOf(shared, measured, 1), at);
      Atomics.store(shared.words, WAITS, measured | 0);
    },
    drain() {
      check(); // a stream does not throw: it may have failed since the last call
      until(progress(flight).queued);
    },
    stop(why) {
      reason ??= why;
    },
    freeGraphs() {
      for (const graph of graphs.splice(0)) {
        try {
          graph.free();
        } catch {
          // A device that has failed frees nothing; why the run ends is known by then.
        }
      }
    },
    hasThrown: () => thrown || reason !== null,
  };
}

/**
 * NCCL may go on with a call in a thread of its own (the first one connects the ranks): it is not
 * interrupted.
 */
function accept(
  { nccl, comm, shared, timeout }: Parts,
  call: NcclCall,
  what: string,
  check: () => void,
): void {
  const began = performance.now();
  const fail = (why: string) =>
    shared.failure.write(`Communication between ranks failed in ${what}: ${why}.`);
  let code = alone(shared, call, check);
  while (inProgress(code)) {
    const waited = performance.now() - began;
    if (waited > 1000 * timeout) fail(`NCCL did not begin it in ${timeout} s (--timeout)`);
    check();
    if (waited > SHORT_MS) pause(shared);
    code = alone(shared, () => nccl.state(comm), check);
  }
  if (code !== 0) fail(`${nccl.text(code, comm)} (${nccl.version})`); // unless the watching thread was first
  check();
}

/** Most calls go on for some microseconds, which are not slept away. */
const SHORT_MS = 0.2;

/** Makes the call while the watching thread makes none. It keeps the communicator once it has aborted it. */
function alone(shared: NcclShared, call: NcclCall, check: () => void): number {
  while (!hold(shared)) {
    check();
    pause(shared);
  }
  try {
    return call();
  } finally {
    release(shared);
  }
}

const pause = ({ words }: NcclShared): void => void Atomics.wait(words, FAILED, 0, 1);

interface Watcher {
  request(what: number): void;
  readonly ended: Promise<unknown>;
  end(): void;
}

function openWatcher(options: NcclThreadOptions): Watcher {
  const thread: Thread<null> = startThread(new URL("./watch_thread.ts", import.meta.url), "nccl", options);
  const { words } = openNcclShared(options.shared);
  return {
    request(what) {
      Atomics.store(words, REQUEST, what);
      for (const word of [REQUEST, QUEUED]) Atomics.notify(words, word);
    },
    ended: thread.next().catch((error: Error) =>
      console.error(`hpctrain: internal: the thread that watches NCCL ended: ${error.message}`)
    ),
    end: thread.end,
  };
}
