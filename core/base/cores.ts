// The cores that this process may use, and the threads that load data on them.
import { formatPlural } from "./format.ts";

export const cpuCount = (): number => navigator.hardwareConcurrency;

/**
 * A requested number counts, with a note where it is too high. The default takes what training leaves, and at
 * least half of the cores, since loading and training wait for each other.
 */
export function workersFor(
  wanted: number,
  cpus: number,
  trainingThreads: number,
  mentioned: boolean,
): { workers: number; note: string | null } {
  const fitting = Math.max(cpus - trainingThreads, Math.ceil(cpus / 2));
  if (!mentioned || wanted <= cpus) {
    return { workers: Math.min(wanted, mentioned ? cpus : fitting), note: null };
  }
  const cpuset = allowedCores();
  const note =
    `Warning: ${wanted} threads were asked to load data (--num-workers), but this process may use ` +
    `${formatPlural(cpus, "core")}${cpuset && ` (its cpuset is ${cpuset})`}, so ${cpus} will. ` +
    "Ask the scheduler for more cores: --cpus-per-task in SLURM, ncpus in PBS, --bind-to none with mpirun.";
  return { workers: cpus, note };
}

/** The list is as Linux writes it ("0-3,8"), and empty on other systems. */
export function allowedCores(): string {
  try {
    return Deno.readTextFileSync("/proc/self/status").match(/^Cpus_allowed_list:\s*(\S+)/m)?.[1] ?? "";
  } catch {
    return "";
  }
}

/** "0-3,8" becomes 0, 1, 2, 3, 8. Without a list from Linux it is all cores. */
export function expandCores(list: string): number[] {
  if (list === "") return Array.from({ length: navigator.hardwareConcurrency }, (_, i) => i);
  return list.split(",").flatMap((part) => {
    const [first, last = first] = part.split("-").map(Number);
    return Array.from({ length: last - first + 1 }, (_, i) => first + i);
  });
}

/** 0, 1, 2, 3, 8 -> "0-3,8". */
export function coreList(cores: readonly number[]): string {
  const sorted = [...cores].sort((a, b) => a - b);
  const runs: [number, number][] = [];
  for (const core of sorted) {
    const last = runs.at(-1);
    if (last && core === last[1] + 1) last[1] = core;
    else runs.push([core, core]);
  }
  return runs.map(([a, b]) => a === b ? `${a}` : `${a}-${b}`).join(",");
}
