// Ready configurations for programs that use hpctrain as a library. May import presets and resolve.
import { UserError } from "../errors.ts";
import { resolve } from "./resolve.ts";
import type { Config } from "./settings.ts";

/** Which preset a configuration began as: what it was given since then is the program's own. */
const presets = new WeakMap<Config, string>();

export const presetOf = (config: Config): string | null => presets.get(config) ?? null;

function fromPreset(preset: string, ranks?: number): Config {
  const { config } = resolve({ argv: [], env: {}, preset, ranks });
  presets.set(config, preset);
  return config;
}

/** A few seconds on any machine. */
export function getDebugConfig(): Config {
  return fromPreset("debug");
}

/** One GPU, with a preset's batch and precision. */
export function getSingleGpuConfig(): Config {
  return fromPreset("single-gpu");
}

/** One node; the batch of a rank shrinks as GPUs are added, so that 256 samples make a step. */
export function getMultiGpuConfig({ numGpus }: { numGpus: number }): Config {
  const config = fromPreset("multi-gpu", atLeast("numGpus", numGpus, 1));
  config.distributed.gpus_per_node = numGpus;
  return config;
}

/** As many GPUs on each of several nodes. */
export function getMultiNodeConfig(
  { numNodes, gpusPerNode }: { numNodes: number; gpusPerNode: number },
): Config {
  const ranks = atLeast("numNodes", numNodes, 1) * atLeast("gpusPerNode", gpusPerNode, 1);
  const config = fromPreset("multi-node", ranks);
  config.distributed.nodes = numNodes;
  config.distributed.gpus_per_node = gpusPerNode;
  return config;
}

function atLeast(name: string, count: number, least: number): number {
  if (Number.isSafeInteger(count) && count >= least) return count;
  throw new UserError("usage", `${name} must be a whole number from ${least}, but got ${count}.`);
}
