// The cores that this process may use, and how cores are shared out among ranks and loader threads.
import { formatPlural } from "./format.ts";

export const cpusHere = (): number => navigator.hardwareConcurrency;

/**
 * A requested number counts, with a note where it is too high. The default takes what training leaves, and at
 * least half of the cores, since loading and training wait for each other.
 */
export function workersFor(
  asked: number,
  cpus: number,
  trainingThreads: number,
  mentioned: boolean,
): { workers: number; note: string | null } {
  const fitting = Math.max(cpus - trainingThreads, Math.ceil(cpus / 2));
  if (!mentioned || asked <= cpus) {
    return { workers: Math.min(asked, mentioned ? cpus : fitting), note: null };
  }
  const cpuset = allowedCores();
  const note =
    `Warning: ${asked} threads were asked to load data (--num-workers), but this process may use ` +
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

interface Shares {
  readonly cores: readonly (readonly number[])[] | null;
  readonly said: string;
}

/**
 * Neighbours in the list share caches, so each rank gets a stretch of it. With one core a rank nothing is
 * bound: a rank has a communication thread too, and the scheduler places both better.
 */
export function shareCores(usable: readonly number[], ranks: number): Shares {
  const each = Math.floor(usable.length / ranks);
  if (each < 2) {
    return {
      cores: null,
      said: `${formatPlural(usable.length, "core")} are shared by ${
        formatPlural(ranks, "rank")
      }, 1 thread each`,
    };
  }
  const cores = Array.from({ length: ranks }, (_, k) => usable.slice(k * each, (k + 1) * each));
  const over = usable.length - ranks * each;
  return {
    cores,
    said: `${each} cores to each rank of ${usable.length} (rank 0: ${coreList(cores[0])}${
      over ? `; ${over} left over` : ""
    })`,
  };
}

/** Cores of one package, and the two halves of one core, stand side by side. */
export function usableCores(): number[] {
  const place = (core: number, what: string) => {
    try {
      return Number(Deno.readTextFileSync(`/sys/devices/system/cpu/cpu${core}/topology/${what}`));
    } catch {
      return 0;
    }
  };
  return expandCores(allowedCores())
    .map((core) => ({ core, package: place(core, "physical_package_id"), id: place(core, "core_id") }))
    .sort((a, b) => a.package - b.package || a.id - b.id || a.core - b.core)
    .map(({ core }) => core);
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
