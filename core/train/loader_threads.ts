// How many threads read data. May import config, dist.
import type { Resolved } from "../config/resolve.ts";
import { cpusHere, workersFor } from "../dist/cpus.ts";
import type { Device } from "../../ffi/tensor.ts";

/** Never more than this process has cores; who asked for more is told. */
export function loaderThreads(
  { config, origin }: Pick<Resolved, "config" | "origin">,
  device: Device,
): { loaders: number; notes: string[] } {
  const cpus = cpusHere();
  const training = device === "cpu" ? config.training.threads || cpus : 1;
  const mentioned = !/^(default|preset .*)$/.test(origin("data.num_workers"));
  const { workers, note } = workersFor(config.data.num_workers, cpus, training, mentioned);
  return { loaders: workers, notes: note ? [note] : [] };
}
