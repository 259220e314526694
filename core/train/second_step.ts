// What waits for a run's first step to be over: what would delay it, and what only it can tell. May import ffi, data/room,
// run.
import { keepAllFreedMemory } from "../../ffi/library.ts";
import { freeMemory } from "../memory.ts";
import type { Run } from "./run.ts";

/** To be called before each step; does something before the second. */
export function beforeSecondStep({ saver, step: { pass }, ranksHere }: Run): () => void {
  let steps = 0;
  return () => {
    if (++steps !== 2) return;
    saver.ready();
    if (!pass.onGpu && isRoomy(mostMemory(), ranksHere)) keepAllFreedMemory();
  };
}

/**
 * Whether each rank of this machine could take as much memory again as a step has taken. What is kept lies in pieces
 * between what is used: up to a third more was seen.
 */
export const isRoomy = (taken: number, ranks: number, free = freeMemory()): boolean => ranks * taken <= free;

/** That this process ever had, in bytes; NaN where the kernel does not say, for which there is never room. */
function mostMemory(): number {
  return 1024 * Number(/^VmHWM:\s*(\d+) kB$/m.exec(Deno.readTextFileSync("/proc/self/status"))?.[1]);
}
