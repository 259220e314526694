// Measurements of one rank and of all: matrix products of a device, the all-reduce of all ranks, and the skew of
// their clocks.
import { setCudaDevice, synchroniseCuda } from "../../../../ffi/cuda.ts";
import { readBytes, tensor, toDevice, zeros } from "../../../../ffi/make.ts";
import { matmul } from "../../../../ffi/ops.ts";
import { type Device, scope } from "../../../../ffi/tensor.ts";
import type { Team } from "../../../ranks/team.ts";
import type { AllResult } from "./judge.ts";

// How fast a device multiplies matrices, for a second or two, and whether it does so twice alike.

export interface Speed {
  readonly gflops: number;
  readonly same: boolean;
}

/** Large enough for a GPU to be busy, small enough for a slow core to come to its end. */
const MATRIX_SIDE = { cpu: 512, cuda: 4096 } as const;
/** Queued on a GPU before the host looks at the time. */
const BATCH = { cpu: 1, cuda: 8 } as const;

/** Parts of the time; the best one counts, so that a neighbour's short work is not taken for a slow device. */
const MATMUL_PARTS = 5;

/** By the clock on the wall: who is kept from computing all the time is slow, whatever the reason. */
export function matmulSpeed(device: Device, seconds: number): Speed {
  const kind = device === "cpu" ? "cpu" : "cuda", n = MATRIX_SIDE[kind];
  if (device !== "cpu") setCudaDevice(Number(device.slice("cuda:".length)));
  return scope(() => {
    const host = tensor(Float32Array.from({ length: n * n }, (_, i) => Math.sin(i % 1013)), [n, n]);
    const a = device === "cpu" ? host : toDevice(host, device);
    const product = () => scope(() => readBytes(matmul(a, a)));
    const first = product(); // brings libraries and memory in
    const part = (): number => {
      const began = performance.now();
      let count = 0, passed = 0;
      for (; passed < seconds / MATMUL_PARTS || count === 0; passed = (performance.now() - began) / 1000) {
        for (let i = 0; i < BATCH[kind]; i++, count++) scope(() => void matmul(a, a));
        synchroniseCuda();
      }
      return count * 2 * n ** 3 / passed / 1e9;
    };
    const gflops = Math.max(...Array.from({ length: MATMUL_PARTS }, part));
    return { gflops, same: sameBytes(first, product()) };
  });
}

function sameBytes(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && a.every((byte, i) => byte === b[i]);
}

// The all-reduce of all ranks, for as long as there is patience. `bench allreduce` measures it well; this says
// whether it works and about how fast.

/** From what a small gradient takes to a bucket of large ones; the next only where this one did not take long. */
const ALL_REDUCE_SIZES = [4096, 2 ** 16, 2 ** 20, 2 ** 24];
const TIMES = 5, PATIENCE = 1, LONG = 0.1;

export function measureAll(team: Team, device: Device): AllResult[] {
  const { collectives } = team;
  const settle = (ticket: number) => {
    collectives.wait(ticket);
    synchroniseCuda();
  };
  const measured: AllResult[] = [];
  for (const bytes of ALL_REDUCE_SIZES) {
    const seconds = scope(() => {
      const t = zeros([bytes / 4], { device });
      const once = () => {
        settle(collectives.barrier("doctor: all"));
        const began = performance.now();
        settle(collectives.allReduce(t, "sum", "doctor: all"));
        return team.reduce([(performance.now() - began) / 1000], "max", "doctor: all")[0];
      };
      const first = once(); // connects them: not counted where there is a second
      const times: number[] = [];
      // All ranks have the same times, so all stop at the same.
      for (let spent = first; times.length < TIMES && spent < PATIENCE; spent += times.at(-1)!) {
        times.push(once());
      }
      return times.length > 0 ? Math.min(...times) : first;
    });
    measured.push({ bytes, seconds });
    if (seconds > LONG) break;
  }
  return measured;
}

// How far the ranks' clocks are apart: all read theirs right after a barrier.

export interface Skew {
  /** Seconds ahead of rank 0, and how far that can be wrong. */
  readonly ahead: number;
  readonly unsure: number;
}

const CLOCK_ROUNDS = 5;

/** Each rank's; of a few rounds the one that all came out of soonest. */
export function measureSkew(team: Team): Skew[] {
  const rounds = Array.from({ length: CLOCK_ROUNDS }, () => {
    team.collectives.wait(team.collectives.barrier("doctor: clocks"));
    synchroniseCuda();
    const before = Date.now();
    team.collectives.wait(team.collectives.barrier("doctor: clocks"));
    synchroniseCuda();
    const after = Date.now();
    return team.gather({ before, after }, "doctor: clocks");
  });
  const length = (round: typeof rounds[number]) =>
    Math.max(...round.map(({ before, after }) => after - before));
  const best = rounds.toSorted((a, b) => length(a) - length(b))[0];
  const [zero] = best;
  return best.map(({ after }) => ({
    ahead: (after - zero.after) / 1000,
    unsure: (length(best) + 1) / 1000,
  }));
}
