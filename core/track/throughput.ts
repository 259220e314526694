// Samples a second over a moving window, and the time left. Imports nothing.

/** Steps kept, a power of two; at 30 s of age a step leaves the window even when newer ones are few. */
const STEPS = 128, MASK = STEPS - 1;
const MAX_AGE_MS = 30_000;

export interface Throughput {
  /** One optimizer step ended and took in this many samples (of the global batch). Allocates nothing. */
  step(samples: number): void;
  /** What follows until the next step (evaluation, a save) is not training time. */
  pause(): void;
  /** Training goes on: the clock starts again here. */
  resume(): void;
  /** Over the window; null until two steps were seen. */
  rate(): number | null;
  /** Begins an epoch's own mean. */
  startEpoch(): void;
  /** Samples a second of training time since `startEpoch`; null before the first step. */
  epochRate(): number | null;
  /** Seconds that so many further samples will take; null while the rate is unknown. */
  secondsLeft(samples: number): number | null;
}

/**
 * A plain quotient of sums, never a median: a stall that comes every twenty steps is part of the truth.
 * The first step after the start is left out of the window, because it pays for warming up.
 */
export function openThroughput(now: () => number = () => performance.now()): Throughput {
  // Of each step: when it ended, and the training time and the samples of all before it. So a rate is one subtraction: it
  // may be asked for at each of a thousand steps a second.
  const ended = new Float64Array(STEPS);
  const msBefore = new Float64Array(STEPS);
  const samplesBefore = new Float64Array(STEPS);
  let ms = 0, samples = 0;
  let next = 0, count = 0, warm = false;
  let last = now();
  let epochSamples = 0, epochMs = 0;

  function rate(): number | null {
    while (count > 1 && last - ended[(next - count) & MASK] > MAX_AGE_MS) count--;
    const oldest = (next - count) & MASK;
    const took = count > 0 ? ms - msBefore[oldest] : 0;
    return took > 0 ? (samples - samplesBefore[oldest]) * 1000 / took : null;
  }

  return {
    step(n) {
      const time = now();
      const took = time - last;
      last = time;
      epochSamples += n;
      epochMs += took;
      if (!warm) {
        warm = true;
        return;
      }
      ended[next] = time;
      msBefore[next] = ms;
      samplesBefore[next] = samples;
      ms += took;
      samples += n;
      next = (next + 1) & MASK;
      if (count < STEPS) count++;
    },
    pause() {
      // Training time since the last step belongs to the epoch, though not to a step of the window.
      epochMs += now() - last;
      last = now();
    },
    resume() {
      last = now();
    },
    rate,
    startEpoch() {
      epochSamples = 0;
      epochMs = 0;
      last = now();
    },
    epochRate: () => epochMs > 0 && epochSamples > 0 ? epochSamples * 1000 / epochMs : null,
    secondsLeft(n) {
      const perSecond = rate();
      return perSecond === null ? null : Math.max(0, n) / perSecond;
    },
  };
}
