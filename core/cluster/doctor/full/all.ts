// The all-reduce of all ranks, for as long as there is patience. `bench allreduce` measures it well; this says whether it
// works and about how fast. May import ffi, dist.
import { synchroniseCuda } from "../../../../ffi/cuda.ts";
import { zeros } from "../../../../ffi/make.ts";
import { type Device, scope } from "../../../../ffi/tensor.ts";
import type { Team } from "../../../dist/team.ts";
import type { AllResult } from "./results.ts";

/** From what a small gradient takes to a bucket of large ones; the next only where this one did not take long. */
const SIZES = [4096, 2 ** 16, 2 ** 20, 2 ** 24];
const TIMES = 5, PATIENCE = 1, LONG = 0.1;

export function measureAll(team: Team, device: Device): AllResult[] {
  const { collectives } = team;
  const settle = (ticket: number) => {
    collectives.wait(ticket);
    synchroniseCuda();
  };
  const measured: AllResult[] = [];
  for (const bytes of SIZES) {
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
