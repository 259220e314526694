// What ranks do together, whatever engine does it: NCCL on GPUs, MPI on CPUs. May import ffi (types).
import type { Tensor } from "../../ffi/tensor.ts";

export type ReduceOp = "sum" | "max" | "min";

/** Collectives are numbered from 1 on in the order of the program, which is the same on every rank. */
export type Ticket = number;

export interface Collectives {
  readonly backend: "mpi" | "nccl" | "alone";
  readonly rank: number;
  readonly world: number;
  /**
   * In place, over contiguous memory. Queued: returns at once, and the tensor must live until it is done. `phase` says
   * what it is for, to a person: a few fixed texts.
   */
  allReduce(t: Tensor, op: ReduceOp, phase: string): Ticket;
  broadcast(t: Tensor, root: number, phase: string): Ticket;
  /** `into` gets every rank's `own`, in order of ranks. */
  allGather(into: Tensor, own: Tensor, phase: string): Ticket;
  /** `own` gets this rank's part of the sum of every rank's `from`. */
  reduceScatter(own: Tensor, from: Tensor, phase: string): Ticket;
  barrier(phase: string): Ticket;
  /**
   * From here on this rank's all-reduces and barriers, and nothing else, are among those that gave the same part; -1 is all
   * ranks again. Every rank calls it. Left out where an engine can't: there another one is opened for a part.
   */
  split?(part: number, phase: string): Ticket;
  done(ticket: Ticket): boolean;
  /** What is computed after it sees the result: on a CPU the host waits, on a GPU the stream does. */
  wait(ticket: Ticket): void;
  /** Seconds spent in `wait`, and seconds that the engine was busy, so far. */
  times(): { readonly waited: number; readonly busy: number };
  /** Every later call throws this reason. Then end the process: its launcher ends the others. */
  abort(reason: string): void;
  close(): Promise<void>;
}
