// How many threads read data. May import config, dist.
import type { Resolved } from "../config/resolve.ts";
import { cpusHere, workersFor } from "../dist/cpus.ts";
import type { Device } from "../../ffi/tensor.ts";

/** Never more than this process has cores; who asked for more is told. `sharing`: ranks that use the same cores. */
export function loaderThreads(
  { config, layer }: Pick<Resolved, "config" | "layer">,
  device: Device,
  sharing = 1,
): { loaders: number; notes: string[] } {
  const cpus = Math.max(1, Math.floor(cpusHere() / sharing));
  const training = device === "cpu" ? config.training.threads || cpus : 1;
  const mentioned = !["default", "preset"].includes(layer("data.num_workers"));
  const { workers, note } = workersFor(config.data.num_workers, cpus, training, mentioned);
  return { loaders: workers, notes: note ? [note] : [] };
}
