// Shares this node's usable cores out among ranks. May import cpus, format.
import { formatPlural } from "../../format.ts";
import { allowedCores } from "../cpus.ts";

export interface Shares {
  /** Each local rank's cores; null leaves them to the system. */
  readonly cores: readonly (readonly number[])[] | null;
  /** In a sentence. */
  readonly said: string;
}

/**
 * Neighbours in the list share caches and memory, so each rank gets a stretch of it. With one core a rank nothing is
 * bound: a rank has a thread for communication too, and the system knows better which of them can run.
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
    said: `${each} cores to each rank of ${usable.length} (rank 0: ${listed(cores[0])}${
      over ? `; ${over} left over` : ""
    })`,
  };
}

/** The cores that this process may use, those of one package and the two halves of one core side by side. */
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

/** "0-3,8" -> 0, 1, 2, 3, 8. Where Linux tells nobody: as many as there are. */
export function expandCores(list: string): number[] {
  if (list === "") return Array.from({ length: navigator.hardwareConcurrency }, (_, i) => i);
  return list.split(",").flatMap((part) => {
    const [first, last = first] = part.split("-").map(Number);
    return Array.from({ length: last - first + 1 }, (_, i) => first + i);
  });
}

/** 0, 1, 2, 3, 8 -> "0-3,8". */
export function listed(cores: readonly number[]): string {
  const sorted = [...cores].sort((a, b) => a - b);
  const runs: [number, number][] = [];
  for (const core of sorted) {
    const last = runs.at(-1);
    if (last && core === last[1] + 1) last[1] = core;
    else runs.push([core, core]);
  }
  return runs.map(([a, b]) => a === b ? `${a}` : `${a}-${b}`).join(",");
}
