// Where the training thread's time goes: a stopwatch that always runs, and is told what the time since it was last told
// belongs to. A lap costs a look at the clock. Imports nothing.

/** What training time is spent for. On a GPU, work is only queued: `compute` is what the device was waited for. */
export const PARTS = ["input", "compute", "communication", "optimizer", "save", "eval", "other"] as const;
export const INPUT = 0, COMPUTE = 1, COMMUNICATION = 2, OPTIMIZER = 3, SAVE = 4, EVAL = 5, OTHER = 6;

/** @internal */
export interface Laps {
  /** Seconds of each part so far. */
  readonly spent: Float64Array;
  /** The time since the last lap was this part's. */
  lap(part: number): void;
  /** When the last lap ended, in milliseconds of `performance.now`. */
  readonly at: number;
  /** Hears of every lap: its part, beginning and end, in milliseconds of `performance.now`. */
  hearer: ((part: number, from: number, to: number) => void) | null;
}

export function openLaps(now: () => number = () => performance.now()): Laps {
  const spent = new Float64Array(PARTS.length);
  let last = now();
  const laps: Laps = {
    spent,
    get at() {
      return last;
    },
    hearer: null,
    lap(part) {
      const time = now();
      spent[part] += (time - last) / 1000;
      if (laps.hearer !== null) laps.hearer(part, last, time);
      last = time;
    },
  };
  return laps;
}
