import { readBytes, tensor, toDevice, toNumbers, writeBytes, zeros } from "../../ffi/make.ts";
import { contiguous, copy_ } from "../../ffi/ops.ts";
import { type Device, scope, type Tensor } from "../../ffi/tensor.ts";
import type { Collectives, ReduceOp } from "./collectives.ts";
import { clock, type FlightRecorder } from "./flight_recorder.ts";
import { synchroniseCuda } from "../../ffi/cuda.ts";

/** The ranks that train as one, and what they exchange. */
export interface Team {
  /** This one's number. */
  readonly rank: number;
  /** How many ranks there are. */
  readonly world: number;
  /** How they add up, share and gather tensors. */
  readonly collectives: Collectives;
  /** This rank's last collectives, where they are kept. */
  readonly flight: FlightRecorder | null;
  /** Reduces all ranks' numbers at each place. */
  reduce(values: readonly number[], op: ReduceOp, phase: string): number[];
  /** Gathers each rank's value, in their order. */
  gather<T>(value: T, phase: string): T[];
  /** Waits until this tensor is rank 0's on every rank. */
  broadcast(t: Tensor, phase: string): void;
}

export function openTeam(
  collectives: Collectives,
  device: Device,
  flight: FlightRecorder | null = null,
): Team {
  const { rank, world } = collectives;
  const onDevice = (t: Tensor) => device === "cpu" ? t : toDevice(t, device);
  const reduce = (values: readonly number[], op: ReduceOp, phase: string): number[] => {
    if (world === 1 || values.length === 0) return [...values];
    return scope(() => {
      const all = onDevice(tensor(Float64Array.from(values)));
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
    gather<T>(value: T, phase: string): T[] {
      if (world === 1) return [value];
      const text = new TextEncoder().encode(JSON.stringify(value ?? null));
      const [longest] = reduce([text.length], "max", phase);
      return scope(() => {
        const own = zeros([longest + 4], { dtype: "u8" });
        writeBytes(own, new Uint8Array(new Uint32Array([text.length]).buffer));
        writeBytes(own, text, 4);
        const all = zeros([world * (longest + 4)], { dtype: "u8", device });
        collectives.wait(collectives.allGather(all, onDevice(own), phase));
        const bytes = readBytes(all);
        return Array.from({ length: world }, (_, from) => {
          const at = from * (longest + 4);
          const length = new DataView(bytes.buffer, at).getUint32(0, true);
          return JSON.parse(new TextDecoder().decode(bytes.subarray(at + 4, at + 4 + length)));
        });
      });
    },
    broadcast(t, phase) {
      if (world === 1) return;
      scope(() => {
        const dense = t.contiguous ? t : contiguous(t);
        const moved = dense.device === device ? dense : toDevice(dense, device); // NCCL reaches a GPU's memory alone
        collectives.wait(collectives.broadcast(moved, 0, phase));
        if (moved !== t) copy_(t, moved);
      });
    },
  };
}

const CLOCK_ROUNDS = 9;

/**
 * Milliseconds that each rank's `clock` is ahead of rank 0's, measured when they come out of a reduction; 0
 * on the same host, which has one clock. Every rank calls it.
 */
export function clockOffsets(team: Team): number[] {
  const times = Array.from({ length: CLOCK_ROUNDS }, () => {
    team.reduce([0], "max", "clocks");
    return clock();
  });
  const all = team.gather({ host: Deno.hostname(), times }, "clocks");
  return all.map(({ host, times }) =>
    host === all[0].host ? 0 : median(times.map((at, i) => at - all[0].times[i]))
  );
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[values.length >> 1];
}

export interface AllReduceTiming {
  readonly bytes: number;
  /**
   * The time of one all-reduce, when several are queued one behind another: the median of rounds, of the
   * slowest rank in each.
   */
  readonly seconds: number;
  readonly algorithm: number;
  /**
   * Bytes a second that each rank's link carries at the least: an all-reduce moves 2 (n - 1) / n of its bytes
   * through it. It is comparable between numbers of ranks, and with the link's nominal speed.
   */
  readonly bus: number;
}

export const ALL_REDUCE_SIZES: readonly number[] = Array.from({ length: 9 }, (_, i) => 4096 * 4 ** i);

const TIMED_ROUNDS = 5, MOST = 200;
const ROUND_SECONDS = 0.2;

/** Every rank calls it. Sizes are in bytes. */
export function measureAllReduce(
  team: Team,
  device: Device,
  sizes: readonly number[],
  each: (measured: AllReduceTiming) => void = () => {},
): AllReduceTiming[] {
  return sizes.map((size) =>
    scope(() => {
      const t = zeros([Math.max(1, Math.round(size / 4))], { device });
      round(team, t, 2); // the first connects the ranks, and brings memory in
      const once = slowest(team, round(team, t, 1));
      const times = Math.max(1, Math.min(MOST, Math.round(ROUND_SECONDS / once)));
      const rounds = Array.from({ length: TIMED_ROUNDS }, () => slowest(team, round(team, t, times)) / times);
      const seconds = rounds.sort((a, b) => a - b)[TIMED_ROUNDS >> 1];
      const bytes = t.byteLength, algorithm = bytes / seconds;
      const measured = { bytes, seconds, algorithm, bus: algorithm * 2 * (team.world - 1) / team.world };
      each(measured);
      return measured;
    })
  );
}

/** Seconds from when all ranks are here until this one has all its sums. */
function round({ collectives }: Team, t: Tensor, times: number): number {
  const settle = (ticket: number) => {
    collectives.wait(ticket);
    synchroniseCuda();
  };
  settle(collectives.barrier("bench: begin"));
  const began = performance.now();
  let last = 0;
  for (let i = 0; i < times; i++) last = collectives.allReduce(t, "sum", "bench");
  settle(last);
  return (performance.now() - began) / 1000;
}

const slowest = (team: Team, seconds: number): number => team.reduce([seconds], "max", "bench: times")[0];
