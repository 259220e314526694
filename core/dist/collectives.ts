// What ranks do together, whatever engine does it: NCCL on GPUs; MPI, shared memory or TCP on CPUs.
import type { Tensor } from "../../ffi/tensor.ts";

/** What moves data between ranks; alone is one rank by itself. */
export type Backend = "mpi" | "shm" | "tcp" | "nccl" | "alone";

/** What a person calls each. */
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

/** What ranks do together. Every rank calls the same methods in the same order. */
export interface Collectives {
  /** Which engine does it. */
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
  /** Whether it has come to its end, without waiting. */
  done(ticket: Ticket): boolean;
  /** What is computed after it sees the result: on a CPU the host waits, on a GPU the stream does. */
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
