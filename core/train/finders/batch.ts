// The batch-size finder: sizes from 1 on, or from 2 on where a batch norm can't take one sample, each twice the one before, until
// memory ends or no size is faster.
import { LonelyBatch } from "../../models/nn/lonely_batch.ts";

export interface TriedBatch {
  readonly size: number;
  /** Samples a second; null where the size did not fit. */
  readonly rate: number | null;
  /** Seconds of a step. */
  readonly seconds: number | null;
  /** Bytes in use after it. */
  readonly memory: number | null;
}

export interface FoundBatch {
  readonly tried: readonly TriedBatch[];
  /** The fastest of those that were tried. */
  readonly fastest: number;
  /** The smallest that is nearly as fast. */
  readonly suggestion: number;
  /** The largest that fitted. */
  readonly largest: number;
  /** Why no larger one was tried. */
  readonly end: "memory" | "samples" | "no faster";
}

/** A size this near to the fastest is as good, and leaves more steps to learn by. */
const NEARLY = 0.95;
/** So many sizes without gain end the search. */
const PATIENCE = 2;

/** Returns null where the size does not fit. */
type TimeBatch = (size: number) => { readonly seconds: number; readonly memory: number } | null;

/** Undefined where a batch norm needs more samples, and there are more. */
function timeWhereNormsCan(
  time: TimeBatch,
  size: number,
  samples: number,
): ReturnType<TimeBatch> | undefined {
  try {
    return time(size);
  } catch (error) {
    if (error instanceof LonelyBatch && size < samples) return undefined;
    throw error;
  }
}

/** `time` takes steps with a size and returns the seconds of one. */
export function searchBatches(
  most: { readonly samples: number; readonly memory: number | null },
  time: TimeBatch,
  report: (tried: TriedBatch) => void,
): FoundBatch | null {
  const tried: TriedBatch[] = [];
  let end: FoundBatch["end"] = "samples", best = 0, since = 0;
  for (let size = 1; size <= most.samples; size *= 2) {
    const beyond = most.memory !== null && size > most.memory && tried.length > 0;
    const taken = beyond ? null : timeWhereNormsCan(time, size, most.samples);
    if (taken === undefined) continue;
    const one = taken
      ? { size, rate: size / taken.seconds, ...taken }
      : { size, rate: null, seconds: null, memory: null };
    tried.push(one);
    report(one);
    if (one.rate === null) {
      end = "memory";
      break;
    }
    since = one.rate > best / NEARLY ? 0 : since + 1;
    best = Math.max(best, one.rate);
    if (since >= PATIENCE) {
      end = "no faster";
      break;
    }
  }
  const fitted = tried.filter(({ rate }) => rate !== null);
  if (fitted.length === 0) return null;
  return {
    tried,
    end,
    fastest: fitted.find(({ rate }) => rate === best)!.size,
    suggestion: fitted.find(({ rate }) => rate! >= NEARLY * best)!.size,
    largest: fitted[fitted.length - 1].size,
  };
}
