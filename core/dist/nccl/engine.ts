// Collectives by NCCL, on tensors of a GPU: queued on a stream of their own, beside what is computed. Called from the
// training thread alone; another one watches. May import ffi, its siblings, collectives, flight, errors.
import { openCudaEvents } from "../../../ffi/cuda_events.ts";
import { addressOf } from "../../../ffi/make.ts";
import { type Comm, inProgress, type Nccl, openNccl } from "../../../ffi/nccl/nccl.ts";
import { type NcclType, TYPES } from "../../../ffi/nccl/symbols.ts";
import { describe, type Tensor } from "../../../ffi/tensor.ts";
import { UserError } from "../../errors.ts";
import type { Collectives, ReduceOp } from "../collectives.ts";
import { busy, type CollectiveName, type Flight } from "../flight.ts";
import * as desk from "./desk.ts";
import { openQueue, type Put, type Streams } from "./queue.ts";
import { openWatcher } from "./watcher.ts";

export interface NcclOrders extends Streams {
  /** The library to load, and libcudart. */
  readonly path: string;
  readonly cudart: string;
  readonly device: number;
  readonly rank: number;
  readonly world: number;
  /** For this engine alone. */
  readonly flight: Flight;
  /** Seconds to wait for the other ranks. */
  readonly timeout: number;
  /** Rank 0's bytes, on every rank. */
  readonly share: (bytes?: Uint8Array) => Uint8Array;
  /** One element in the device's memory, for barriers. */
  readonly one: Tensor;
}

export interface NcclCollectives extends Collectives {
  /** "NCCL 2.30.7". */
  readonly version: string;
  /** What is known against this version. */
  readonly against: string | null;
}

/** Comes to its end when every rank has come to it. */
export async function openNcclEngine(orders: NcclOrders): Promise<NcclCollectives> {
  const { path, cudart, rank, world, flight, one } = orders;
  const nccl = openNccl(path), events = openCudaEvents(cudart);
  const comm = await meet(nccl, orders);
  const here = desk.openDesk();
  for (let i = 0; i < here.events.length; i++) here.events[i] = events.create(i % 3 !== desk.READY);
  for (let i = 0; i < here.pairs.length; i++) here.pairs[i] = events.create(true);
  const watcher = openWatcher({ ...orders, nccl: path, comm, desk: here.shared, flight: flight.shared });
  const queue = openQueue({ ...orders, nccl, comm, events, here });
  let closed = false;
  return {
    ...verbs(nccl, comm, queue.put, world, one),
    backend: "nccl",
    rank,
    world,
    version: nccl.version,
    against: nccl.against,
    done: queue.done,
    wait: queue.wait,
    waited: () => here.waited[0],
    times: () => ({ waited: here.waited[0], busy: busy(flight) }),
    abort(why) {
      queue.stop(why);
      watcher.tell(desk.ABORT);
    },
    async close() {
      if (closed) return;
      closed = true;
      if (!queue.told()) {
        queue.drain();
        watcher.tell(desk.STOP);
        await watcher.ended;
        await finish(nccl, comm, orders.timeout);
        queue.stop("internal: a collective after communication was closed.");
      }
      watcher.end();
    },
  };
}

function verbs(
  nccl: Nccl,
  comm: Comm,
  put: Put,
  world: number,
  one: Tensor,
): Pick<Collectives, "allReduce" | "broadcast" | "allGather" | "reduceScatter" | "barrier"> {
  const { device } = one;
  const at = (t: Tensor): bigint => {
    if (t.device !== device) throw new Error(`internal: NCCL can't reach ${describe(t)} from ${device}.`);
    return addressOf(t);
  };
  const reduced = (verb: CollectiveName, t: Tensor, op: ReduceOp, phase: string) => {
    const to = at(t), { numel, byteLength } = t, type = typeOf(t);
    return put(verb, phase, byteLength, (stream) => nccl.allReduce(to, numel, type, op, comm, stream));
  };
  return {
    allReduce: (t, op, phase) => reduced("all-reduce", t, op, phase),
    broadcast(t, root, phase) {
      const to = at(t), bytes = t.byteLength;
      return put("broadcast", phase, bytes, (stream) => nccl.broadcast(to, bytes, "u8", root, comm, stream));
    },
    allGather(into, own, phase) {
      sizesFit(into, own, world);
      const from = at(own), to = at(into), bytes = own.byteLength;
      return put("all-gather", phase, bytes, (stream) => nccl.allGather(from, to, bytes, "u8", comm, stream));
    },
    reduceScatter(own, from, phase) {
      sizesFit(from, own, world);
      const of = at(from), to = at(own), { numel } = own, type = typeOf(own), bytes = from.byteLength;
      const call = (stream: bigint) => nccl.reduceScatter(of, to, numel, type, comm, stream);
      return put("reduce-scatter", phase, bytes, call);
    },
    barrier: (phase) => reduced("barrier", one, "max", phase),
  };
}

/** Rank 0's id on every rank, and then a communicator of all. */
async function meet(nccl: Nccl, { share, rank, world, timeout }: NcclOrders): Promise<Comm> {
  const id = share(rank === 0 ? nccl.newId() : undefined);
  const began = nccl.begin(world, id, rank);
  const late = performance.now() + 1000 * timeout;
  let code = began.code;
  for (; inProgress(code); code = nccl.state(began.comm)) {
    if (performance.now() > late) {
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

/** All ranks come to it together. */
async function finish(nccl: Nccl, comm: Comm, timeout: number): Promise<void> {
  const late = performance.now() + 1000 * timeout;
  let code = nccl.finalize(comm);
  for (; inProgress(code) && performance.now() < late; code = nccl.state(comm)) {
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

function typeOf(t: Tensor): NcclType {
  if (t.dtype in TYPES) return t.dtype as NcclType;
  throw new Error(`internal: NCCL can't add up ${describe(t)}: it must be ${Object.keys(TYPES).join(", ")}.`);
}

function sizesFit(all: Tensor, own: Tensor, world: number): void {
  if (all.numel === world * own.numel && all.dtype === own.dtype) return;
  throw new Error(`internal: ${describe(all)} is not ${world} times ${describe(own)}.`);
}
