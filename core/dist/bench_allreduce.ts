// How fast the ranks add up tensors of several sizes. May import ffi, team.
import { synchroniseCuda } from "../../ffi/cuda.ts";
import { zeros } from "../../ffi/make.ts";
import { type Device, scope, type Tensor } from "../../ffi/tensor.ts";
import type { Team } from "./team.ts";

export interface Measured {
  readonly bytes: number;
  /** Of one all-reduce, when several are queued one behind another: the median of rounds, of the slowest rank in each. */
  readonly seconds: number;
  /** Bytes a second, as the caller sees it. */
  readonly algorithm: number;
  /**
   * Bytes a second that each rank's link carries at the least: an all-reduce moves 2 (n - 1) / n of its bytes through it.
   * What can be compared between numbers of ranks, and with what the link promises.
   */
  readonly bus: number;
}

/** 4 KiB to 256 MiB. */
export const SIZES: readonly number[] = Array.from({ length: 9 }, (_, i) => 4096 * 4 ** i);

const ROUNDS = 5, MOST = 200;
/** What a round shall take, at most and about. */
const ROUND_SECONDS = 0.2;

/** Every rank calls it. Sizes in bytes; `each` hears of one when it is done. */
export function measureAllReduce(
  team: Team,
  device: Device,
  sizes: readonly number[],
  each: (measured: Measured) => void = () => {},
): Measured[] {
  return sizes.map((size) =>
    scope(() => {
      const t = zeros([Math.max(1, Math.round(size / 4))], { device });
      round(team, t, 2); // the first connects the ranks, and brings memory in
      const once = slowest(team, round(team, t, 1));
      const times = Math.max(1, Math.min(MOST, Math.round(ROUND_SECONDS / once)));
      const rounds = Array.from({ length: ROUNDS }, () => slowest(team, round(team, t, times)) / times);
      const seconds = rounds.sort((a, b) => a - b)[ROUNDS >> 1];
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
