// "500steps", "2ep", "10min" -> is a save due now? May import config/duration.
import { parseDuration } from "../config/duration.ts";

/** Asks after each step; true when the interval has passed since it last said so. Empty or zero: never. */
export function every(text: string, stepsPerEpoch: number): (step: number) => boolean {
  const { count, unit } = parseDuration(text)!; // the settings checked it
  if (count === 0) return () => false;
  if (unit === "seconds") {
    let last = performance.now();
    return () => {
      const passed = performance.now() - last >= count * 1000;
      if (passed) last = performance.now();
      return passed;
    };
  }
  const steps = Math.max(1, Math.round(unit === "epochs" ? count * stepsPerEpoch : count));
  return (step) => step % steps === 0;
}

/** Whether it goes by the clock, which differs from rank to rank. */
export const isTimed = (text: string): boolean => parseDuration(text)!.unit === "seconds";
