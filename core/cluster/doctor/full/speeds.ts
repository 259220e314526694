// Measures matrix products, the all-reduce of all ranks, and the skew of their clocks.
import { setCudaDevice, synchroniseCuda } from "../../../../ffi/cuda.ts";
import { readBytes, tensor, toDevice, zeros } from "../../../../ffi/make.ts";
import { matmul } from "../../../../ffi/ops.ts";
import { type Device, scope } from "../../../../ffi/tensor.ts";
import type { Team } from "../../../ranks/team.ts";
import type { AllResult } from "./judge.ts";

interface Speed {
  readonly gflops: number;
  readonly same: boolean;
}

/** A GPU is busy with it, and a slow core comes to its end. */
const MATRIX_SIDE = { cpu: 512, cuda: 4096 } as const;
/** The host queues these before it reads the time. */
const BATCH = { cpu: 1, cuda: 8 } as const;

/** The best part counts, so that a neighbour's short work does not look like a slow device. */
const MATMUL_PARTS = 5;

/** Wall-clock time counts: a rank kept from computing is slow, whatever the reason. */
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

/** These range from a small gradient to a bucket of large ones; a slow size is the last one. */
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
      const first = once(); // this one connects the ranks, so it counts only if it is the only one
      const times: number[] = [];
      // All ranks have the same times, so all stop at the same.
      for (let spent = first; times.length < TIMES && spent < PATIENCE;) {
        const took = once();
        times.push(took);
        spent += took;
      }
      return times.length > 0 ? Math.min(...times) : first;
    });
    measured.push({ bytes, seconds });
    if (seconds > LONG) break;
  }
  return measured;
}

interface Skew {
  /** The clock is ahead of rank 0's by these seconds, with this uncertainty. */
  readonly ahead: number;
  readonly unsure: number;
}

const CLOCK_ROUNDS = 5;

/** All ranks read their clocks after a barrier; the round that ended soonest counts. */
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
