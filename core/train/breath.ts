// Lets the event loop run now and then, so that signals and timers are seen although training never waits.
// Imports nothing.

/** Longest time a Ctrl-C goes unnoticed between two steps. */
const EVERY_MS = 50;

export interface Breath {
  due(): boolean;
  take(): Promise<void>;
}

export function openBreath(): Breath {
  let last = performance.now();
  return {
    due: () => performance.now() - last > EVERY_MS,
    async take() {
      await new Promise((resolve) => setTimeout(resolve, 0));
      last = performance.now();
    },
  };
}
