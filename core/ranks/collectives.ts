// Collectives of ranks, and how the engine that does them is opened: NCCL on GPUs; MPI, shared memory or TCP on CPUs;
// nothing for one rank. For `distributed.debug: detail`, collectives that are compared between ranks before they
// begin.
import { type Device, scope, type Tensor } from "../../ffi/tensor.ts";
import { UserError } from "../base/errors.ts";
import { type CpuBackend, openOnCpus, type OutOfBand } from "./cpu/backends.ts";
import { type CollectiveName, COLLECTIVES } from "../../ffi/ranks/ring.ts";
import { type FlightRecorder, openFlightRecorder } from "./flight_recorder.ts";
import { type NcclNeeds, openNcclCollectives } from "./nccl/setup.ts";
import type { RankContext } from "./context.ts";
import { copy_, view } from "../../ffi/ops.ts";
import { tensor, toDevice, toNumbers, zeros } from "../../ffi/make.ts";
import { formatBytes } from "../base/format.ts";

/** The engine that moves data between ranks; `alone` is a single rank. */
export type Backend = "mpi" | "shm" | "tcp" | "nccl" | "alone";

/** The names of the engines in messages. */
export const BACKENDS: Readonly<Record<Backend, string>> = {
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
   * In place, over contiguous memory. Queued: returns at once, and the tensor must live until it is done. `phase` says
   * what it is for, to a person: a few fixed texts.
   */
  allReduce(t: Tensor, op: ReduceOp, phase: string): Ticket;
  /** `t` becomes that of rank `root` on every rank, in place. */
  broadcast(t: Tensor, root: number, phase: string): Ticket;
  /** `into` gets every rank's `own`, in order of ranks. */
  allGather(into: Tensor, own: Tensor, phase: string): Ticket;
  /** `own` gets this rank's part of the sum of every rank's `from`. */
  reduceScatter(own: Tensor, from: Tensor, phase: string): Ticket;
  /** Comes to its end when every rank has called it. */
  barrier(phase: string): Ticket;
  /**
   * From here on this rank's all-reduces and barriers, and nothing else, are among those that gave the same part; -1 is all
   * ranks again. Every rank calls it. Left out where an engine can't: there another one is opened for a part.
   */
  split?(part: number, phase: string): Ticket;
  /**
   * So many f32 zeros in memory that the ranks of one host see of each other: what is added up there is added up soonest.
   * Null where they are on several hosts. Every rank calls it, once. Left out where an engine has no use for it.
   */
  shared?(elements: number): Tensor | null;
  /** True when it has come to its end. Does not wait. */
  done(ticket: Ticket): boolean;
  /** Lets what is computed next see the result: on a CPU the host waits, on a GPU the stream does. */
  wait(ticket: Ticket): void;
  /** Seconds spent in `wait` so far: the host's on a CPU, those of the computing stream on a GPU. Asked for often. */
  waited(): number;
  /** The same, and seconds that the engine was busy. */
  times(): { readonly waited: number; readonly busy: number };
  /** Every later call throws this reason. Then end the process: its launcher ends the others. */
  abort(reason: string): void;
  /** Takes leave of the other ranks. */
  close(): Promise<void>;
}

// Opens what the ranks communicate by: NCCL on GPUs; MPI, shared memory or TCP on CPUs; nothing for one rank alone.

export interface OpenedCollectives {
  readonly collectives: Collectives;
  /** Lines about what was chosen. */
  readonly notes: readonly string[];
}

export interface CollectivesOptions {
  readonly where: RankContext;
  readonly device: Device;
  /** --distributed-backend. */
  readonly backend: CpuBackend | "nccl";
  readonly env: Record<string, string>;
  /** For these collectives alone; left out, nobody looks at it. */
  readonly flight?: FlightRecorder;
  /** Seconds to wait for the other ranks: --timeout. */
  readonly timeout: number;
  /** Needed on GPUs. */
  readonly nccl?: NcclNeeds;
  /** Needed on CPUs without MPI: the control plane. */
  readonly meeting?: OutOfBand;
  /** The failure of another rank, as the control plane knows it: a rank that waits for that one then ends. */
  readonly failed?: () => UserError | null;
}

/** Every rank calls it, and it comes to its end when all have. The notes say what was chosen. */
export async function openCollectives(
  { where, device, backend, env, flight = openFlightRecorder(), timeout, nccl, meeting, failed = () => null }:
    CollectivesOptions,
): Promise<OpenedCollectives> {
  if (where.world === 1) {
    return { collectives: aloneCollectives(), notes: ["One rank: there is nothing to communicate."] };
  }
  if (device === "cpu") {
    if (backend === "nccl") {
      throw new UserError(
        "usage",
        "--distributed-backend nccl is for ranks on GPUs, and this one computes on its CPU: leave it out to have MPI, shared " +
          "memory or TCP.",
      );
    }
    return await openOnCpus({ where, backend, env, flight, timeout, meeting, failed });
  }
  if (backend !== "auto" && backend !== "nccl") {
    throw new UserError(
      "usage",
      `--distributed-backend ${backend} works on host memory, and this rank computes on ${device}: leave it out to have ` +
        "NCCL, or add --device cpu.",
    );
  }
  if (!nccl) throw new Error("internal: NCCL has no way to share its id.");
  return await openNcclCollectives({ where, device, env, flight, timeout, ...nccl });
}

// A single rank has nothing to move.

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

// Collectives that are compared before they begin, for `distributed.debug: detail`: ranks that come with different
// ones are told of by name, where they would wait for each other or add up what does not belong together.

const FIELDS = 3;

/** The same collectives, each after one more that compares: slow, and the host waits for each. */
export function checked(inner: Collectives, device: Device): Collectives {
  const { rank, world } = inner;
  const phases = new Map<number, string>();
  const here = (t: Tensor) => device === "cpu" ? t : toDevice(t, device);
  const compare = (name: CollectiveName, t: Tensor | null, phase: string): void => {
    const mine = [COLLECTIVES.indexOf(name), t ? bytesOf(t) : 0, hashOf(phase)];
    phases.set(mine[2], phase);
    const rows = scope(() => {
      const all = here(zeros([world * FIELDS], { dtype: "f64" }));
      inner.wait(inner.allGather(all, here(tensor(Float64Array.from(mine))), "what ranks are about to do"));
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

/** 53 bits hold it whole. */
function hashOf(text: string): number {
  let hash = 0;
  for (let i = 0; i < text.length; i++) hash = (Math.imul(hash, 31) + text.charCodeAt(i)) >>> 0;
  return hash;
}
