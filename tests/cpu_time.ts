// Processor time, for tests of how much work something is: other programs on the machine make the clock's time
// longer, and this stays as it is.

/** A kernel that counts no nanoseconds of threads has this file all the same, with a zero. */
const SCHEDULED = "/proc/thread-self/schedstat";
const TICKS_PER_SECOND = 100; // the same on every Linux

/** Seconds that this thread has computed so far, to a few milliseconds. */
export function threadSeconds(): number {
  const seconds = Number(Deno.readTextFileSync(SCHEDULED).split(" ")[0]) / 1e9;
  if (!(seconds > 0)) throw new Error(`${SCHEDULED} has no time of this thread`);
  return seconds;
}

/** What `work` returns, and the seconds that this thread computed for it. Waiting takes none. */
export function measured<T>(work: () => T): { result: T; seconds: number } {
  const before = threadSeconds();
  const result = work();
  return { result, seconds: threadSeconds() - before };
}

/** Seconds that this process's children, and theirs, had computed when they ended; only of those that were waited for. */
export function childrenSeconds(): number {
  const stat = Deno.readTextFileSync("/proc/self/stat");
  const [user, system] = stat.slice(stat.lastIndexOf(")") + 2).split(" ").slice(13, 15).map(Number);
  return (user + system) / TICKS_PER_SECOND;
}

/**
 * How many times longer than on a quiet machine something takes just now, at least 1: a bound of seconds is multiplied
 * by it where something did take long. Only what a thread waits for a core is in it.
 */
export function slowness(): number {
  const began = performance.now(), before = threadSeconds();
  while (threadSeconds() < before + 0.1);
  return Math.max(1, (performance.now() - began) / 1000 / (threadSeconds() - before));
}

/** Whether something took no longer than its bound, on a machine as busy as this one. */
export const within = (seconds: number, bound: number): boolean =>
  seconds < bound || seconds < bound * slowness();
