// What ranks tell each other: a few numbers, or plain data. For what happens now and then, not in a step.
// May import ffi, collectives.
import { readBytes, tensor, toDevice, toNumbers, writeBytes, zeros } from "../../ffi/make.ts";
import { copy_ } from "../../ffi/ops.ts";
import { type Device, scope, type Tensor } from "../../ffi/tensor.ts";
import type { Collectives, ReduceOp } from "./collectives.ts";
import type { Flight } from "./flight.ts";

/** The ranks that train together, and what they say to each other. */
export interface Team {
  /** This one's number. */
  readonly rank: number;
  /** How many ranks there are. */
  readonly world: number;
  /** How they add up, share and gather tensors. */
  readonly collectives: Collectives;
  /** This rank's last collectives, where they are kept. */
  readonly flight: Flight | null;
  /** Of all ranks' numbers at each place. */
  reduce(values: readonly number[], op: ReduceOp, phase: string): number[];
  /** What each rank says, in their order. */
  hear<T>(value: T, phase: string): T[];
  /** Waits until this tensor is rank 0's on every rank. */
  copyFromFirst(t: Tensor, phase: string): void;
}

export function openTeam(collectives: Collectives, device: Device, flight: Flight | null = null): Team {
  const { rank, world } = collectives;
  const here = (t: Tensor) => device === "cpu" ? t : toDevice(t, device);
  const reduce = (values: readonly number[], op: ReduceOp, phase: string): number[] => {
    if (world === 1 || values.length === 0) return [...values];
    return scope(() => {
      const all = here(tensor(Float64Array.from(values)));
      collectives.wait(collectives.allReduce(all, op, phase));
      return [...toNumbers(all)];
    });
  };
  return {
    rank,
    world,
    collectives,
    flight,
    reduce,
    hear<T>(value: T, phase: string): T[] {
      if (world === 1) return [value];
      const said = new TextEncoder().encode(JSON.stringify(value ?? null));
      const [room] = reduce([said.length], "max", phase);
      return scope(() => {
        const own = zeros([room + 4], { dtype: "u8" });
        writeBytes(own, new Uint8Array(new Uint32Array([said.length]).buffer));
        writeBytes(own, said, 4);
        const all = zeros([world * (room + 4)], { dtype: "u8", device });
        collectives.wait(collectives.allGather(all, here(own), phase));
        const bytes = readBytes(all);
        return Array.from({ length: world }, (_, from) => {
          const at = from * (room + 4);
          const length = new DataView(bytes.buffer, at).getUint32(0, true);
          return JSON.parse(new TextDecoder().decode(bytes.subarray(at + 4, at + 4 + length)));
        });
      });
    },
    copyFromFirst(t, phase) {
      if (world === 1) return;
      scope(() => {
        const there = t.device === device ? t : toDevice(t, device); // NCCL reaches a GPU's memory alone
        collectives.wait(collectives.broadcast(there, 0, phase));
        if (there !== t) copy_(t, there);
      });
    },
  };
}
