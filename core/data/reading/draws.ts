// A sample's random numbers: functions of (seed, epoch, sample). May import random.
import { key, uniform } from "../../random.ts";
import type { Draw } from "./reader.ts";

/** Random numbers a sample may ask for. */
const DRAWS = 16;

/** Null where no random choices are made; else the numbers of this sample in this epoch, until the next are asked for. */
export function drawsOf(seed: number | null): (sample: number, epoch: number) => Draw | null {
  if (seed === null) return () => null;
  let of = -1, now = 0;
  let at = (_: number) => 0;
  const draw: Draw = (k) => at(now * DRAWS + k);
  return (sample, epoch) => {
    if (epoch !== of) at = uniform(key(seed, "augment", of = epoch));
    now = sample;
    return draw;
  };
}
