// The collectives of ranks, and the choice of the engine that does them. They are numbered in the order of the program, which is
// the same on every rank: no collective depends on anything that differs between ranks.
import { type Device, scope, type Tensor } from "../../ffi/tensor.ts";
import { UserError } from "../base/errors.ts";
import type { SettingChoice } from "../settings/values.ts";
import { type CpuBackend, openOnCpus, type OutOfBand } from "./cpu/backends.ts";
import { type CollectiveName, COLLECTIVES } from "../../ffi/ranks/ring.ts";
import { type FlightRecorder, openFlightRecorder } from "./flight_recorder.ts";
import { gpuEngine, type GpuNeeds } from "./engines.ts";
import type { RankContext } from "./context.ts";
import { copy_, view } from "../../ffi/ops.ts";
import { tensor, toDevice, toNumbers, zeros } from "../../ffi/make.ts";
import { formatBytes } from "../base/format.ts";

/** The engine that moves data between ranks; `alone` is a single rank. */
export type Backend = "mpi" | "shm" | "tcp" | "nccl" | "alone";

export const BACKEND_NAMES: Readonly<Record<Backend, string>> = {
  mpi: "MPI",
  shm: "shared memory",
  tcp: "TCP",
  nccl: "NCCL",
  alone: "itself",
};

/** How numbers of all ranks become one. */
export type ReduceOp = "sum" | "max" | "min";

/** Collectives are numbered from 1 on in the order of the program, which is the same on every rank. */
export type Ticket = number;

/** The collectives of ranks. Every rank calls the same methods in the same order. */
export interface Collectives {
  /** The engine that does them. */
  readonly backend: Backend;
  /** This one's number. */
  readonly rank: number;
  /** How many ranks there are. */
  readonly world: number;
  /**
   * Works in place, over contiguous memory. Returns at once: the tensor must live until it is done. `phase`
   * is one of a few fixed texts for people.
   */
  allReduce(t: Tensor, op: ReduceOp, phase: string): Ticket;
  /** `t` becomes that of rank `root` on every rank, in place. */
  broadcast(t: Tensor, root: number, phase: string): Ticket;
  /** `into` gets every rank's `own`, in order of ranks. */
  allGather(into: Tensor, own: Tensor, phase: string): Ticket;
  /** `own` gets this rank's part of the sum of every rank's `from`. */
  reduceScatter(own: Tensor, from: Tensor, phase: string): Ticket;
  /** It ends when every rank has called it. */
  barrier(phase: string): Ticket;
  /**
   * From here on this rank's all-reduces and barriers, and nothing else, are among the ranks that gave the
   * same part; -1 is all ranks again. Every rank calls it. An engine without it needs another engine for a
   * part.
   */
  split?(part: number, phase: string): Ticket;
  /**
   * Gives f32 zeros in memory that the ranks of one host share, where sums are fastest; null on several
   * hosts. Every rank calls it, once.
   */
  shared?(elements: number): Tensor | null;
  /**
   * The collectives that `make` queues become part of the graph that it captures; `wait` is to be called for the last of
   * them at least. The graph refers to the communicator, which waits for its end: it is freed before this rank leaves the
   * others, in whatever way. An engine without it can't be captured.
   */
  capture?<G extends { free(): void }>(make: () => G): G;
  /** Runs such a graph as one collective, so that ranks that never end it are seen. */
  replay?(run: () => void, phase: string): void;
  /** True when it has ended. Does not wait. */
  done(ticket: Ticket): boolean;
  /** Lets what is computed next see the result: on a CPU the host waits, on a GPU the stream does. */
  wait(ticket: Ticket): void;
  /** Seconds spent in `wait` so far: the host's on a CPU, the computing stream's on a GPU. It is cheap. */
  waited(): number;
  /** Seconds in `wait`, and seconds that the engine was busy. */
  times(): { readonly waited: number; readonly busy: number };
  /**
   * Every later call throws this reason. The caller then ends the process, and its launcher ends the others.
   */
  abort(reason: string): void;
  /** Leaves the other ranks. */
  close(): Promise<void>;
}

export interface OpenedCollectives {
  readonly collectives: Collectives;
  readonly notes: readonly string[];
}

export interface CollectivesOptions {
  readonly where: RankContext;
  readonly device: Device;
  readonly backend: CpuBackend | "nccl";
  /** Who chose the backend. */
  readonly requested: SettingChoice;
  readonly env: Record<string, string>;
  readonly flight?: FlightRecorder;
  readonly timeout: number;
  readonly nccl?: GpuNeeds;
  readonly meeting?: OutOfBand;
  /** The control plane knows another rank's failure: a rank that waits for that one then ends. */
  readonly failed?: () => UserError | null;
}

/** Every rank calls it; it returns when all have. */
export async function openCollectives(
  {
    where,
    device,
    backend,
    requested,
    env,
    flight = openFlightRecorder(),
    timeout,
    nccl,
    meeting,
    failed = () => null,
  }: CollectivesOptions,
): Promise<OpenedCollectives> {
  if (where.world === 1) {
    return { collectives: aloneCollectives(), notes: ["One rank: there is nothing to communicate."] };
  }
  if (device === "cpu") {
    if (backend === "nccl") {
      throw new UserError(
        "usage",
        `${requested.by} is for ranks on GPUs, and this one computes on its CPU: ${requested.undo} to have MPI, shared memory or TCP.`,
      );
    }
    return await openOnCpus({ where, backend, requested, env, flight, timeout, meeting, failed });
  }
  if (backend !== "auto" && backend !== "nccl") {
    throw new UserError(
      "usage",
      `${requested.by} works on host memory, and this rank computes on ${device}: ${requested.undo} to have NCCL, or add --device cpu.`,
    );
  }
  if (!nccl) throw new Error("internal: NCCL has no way to share its id.");
  return await (await gpuEngine()).open({ where, device, env, flight, timeout, ...nccl });
}

export function aloneCollectives(): Collectives {
  let last = 0;
  const queue = () => ++last;
  const copy = (into: Tensor, from: Tensor) => {
    scope(() => void copy_(view(into, [-1]), view(from, [-1])));
    return queue();
  };
  return {
    backend: "alone",
    rank: 0,
    world: 1,
    allReduce: queue,
    broadcast: queue,
    allGather: copy,
    reduceScatter: copy,
    barrier: queue,
    done: () => true,
    wait() {},
    waited: () => 0,
    times: () => ({ waited: 0, busy: 0 }),
    abort() {},
    close: () => Promise.resolve(),
  };
}

const FIELDS = 3;

/**
 * Compares each collective between ranks before it begins, for `distributed.debug: detail`: slow, and the
 * host waits for each.
 */
export function checked(inner: Collectives, device: Device): Collectives {
  const { rank, world } = inner;
  const phases = new Map<number, string>();
  const onDevice = (t: Tensor) => device === "cpu" ? t : toDevice(t, device);
  const compare = (name: CollectiveName, t: Tensor | null, phase: string): void => {
    const mine = [COLLECTIVES.indexOf(name), t ? bytesOf(t) : 0, hashOf(phase)];
    phases.set(mine[2], phase);
    const rows = scope(() => {
      const all = onDevice(zeros([world * FIELDS], { dtype: "f64" }));
      inner.wait(
        inner.allGather(all, onDevice(tensor(Float64Array.from(mine))), "what ranks are about to do"),
      );
      return toNumbers(all);
    });
    for (let other = 0; other < world; other++) {
      const theirs = [...rows].slice(other * FIELDS, (other + 1) * FIELDS);
      if (theirs.every((value, i) => value === mine[i])) continue;
      throw new UserError(
        "communication",
        `Ranks are not at the same place of the program: rank ${rank} comes with ${
          named(mine)
        }, and rank ${other} with ${named(theirs)}. Their programs, data or settings differ.`,
      );
    }
  };
  const named = ([op, bytes, phase]: number[]) =>
    `${COLLECTIVES[op] ?? "an unknown collective"} of ${formatBytes(bytes)} (${
      phases.get(phase) ?? "another phase"
    })`;
  const { split, shared } = inner;
  return {
    ...inner,
    allReduce(t, op, phase) {
      compare("all-reduce", t, phase);
      return inner.allReduce(t, op, phase);
    },
    broadcast(t, root, phase) {
      compare("broadcast", t, phase);
      return inner.broadcast(t, root, phase);
    },
    allGather(into, own, phase) {
      compare("all-gather", own, phase);
      return inner.allGather(into, own, phase);
    },
    reduceScatter(own, from, phase) {
      compare("reduce-scatter", own, phase);
      return inner.reduceScatter(own, from, phase);
    },
    barrier(phase) {
      compare("barrier", null, phase);
      return inner.barrier(phase);
    },
    ...(split ? { split: (part: number, phase: string) => split.call(inner, part, phase) } : {}),
    ...(shared ? { shared: (elements: number) => shared.call(inner, elements) } : {}),
  };
}

const bytesOf = (t: Tensor): number => t.byteLength;

function hashOf(text: string): number {
  let hash = 0;
  for (let i = 0; i < text.length; i++) hash = (Math.imul(hash, 31) + text.charCodeAt(i)) >>> 0;
  return hash;
}
