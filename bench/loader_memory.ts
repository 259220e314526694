// The memory of a program and all processes it started, each shared page counted once. May import its siblings.
import { startContestant } from "./contestant.ts";
import type { DataSet } from "./loader_sets.ts";
import { ours, pytorch, type Sides } from "./loader_sides.ts";

export interface Memory {
  readonly hpctrain: number;
  readonly pytorch: number;
}

/** Most bytes that each side held while it read two epochs with that many workers. */
export async function measureMemory(sides: Sides, set: DataSet, workers: number): Promise<Memory> {
  const peak = async (command: [string, string[]]) => {
    const contestant = await startContestant(...command);
    const done = contestant.round(2).then(() => true);
    let most = 0;
    do most = Math.max(most, memoryOf(contestant.pid)); while (!await Promise.race([done, later(100)]));
    await contestant.end();
    return most;
  };
  return {
    hpctrain: await peak(ours(sides, set, "rounds", workers)),
    pytorch: await peak(pytorch(sides, set, "rounds", workers)),
  };
}

const later = (ms: number) => new Promise<false>((resolve) => setTimeout(() => resolve(false), ms));

/** Bytes: the proportional set sizes (PSS) of a process and of what it started, added up. */
export function memoryOf(pid: number): number {
  const children = new Map<number, number[]>();
  for (const { name } of Deno.readDirSync("/proc")) {
    const parent = /^\d+$/.test(name)
      ? Number(/\nPPid:\s*(\d+)/.exec(read(`/proc/${name}/status`))?.[1])
      : NaN;
    if (!Number.isNaN(parent)) children.set(parent, [...children.get(parent) ?? [], Number(name)]);
  }
  const of = (pid: number): number => {
    const own = Number(/\nPss:\s*(\d+) kB/.exec(read(`/proc/${pid}/smaps_rollup`))?.[1] ?? 0) * 1024;
    return (children.get(pid) ?? []).reduce((sum, child) => sum + of(child), own);
  };
  return of(pid);
}

/** A process may end while it is looked at. */
function read(path: string): string {
  try {
    return Deno.readTextFileSync(path);
  } catch {
    return "";
  }
}
