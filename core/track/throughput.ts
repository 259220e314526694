// Samples a second over a moving window, and the time left. Imports nothing.

/** Steps kept; at 30 s of age a step leaves the window even when newer ones are few. */
const STEPS = 128;
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
  const ended = new Float64Array(STEPS);
  const took = new Float64Array(STEPS);
  const samples = new Float64Array(STEPS);
  let next = 0, count = 0, warm = false;
  let last = now();
  let epochSamples = 0, epochMs = 0;

  function rate(): number | null {
    let ms = 0, sum = 0;
    for (let back = 1; back <= count; back++) {
      const i = (next - back + STEPS) % STEPS;
      if (back > 1 && last - ended[i] > MAX_AGE_MS) break;
      ms += took[i];
      sum += samples[i];
    }
    return ms > 0 ? sum * 1000 / ms : null;
  }

  return {
    step(n) {
      const time = now();
      const ms = time - last;
      last = time;
      epochSamples += n;
      epochMs += ms;
      if (!warm) {
        warm = true;
        return;
      }
      ended[next] = time;
      took[next] = ms;
      samples[next] = n;
      next = (next + 1) % STEPS;
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
