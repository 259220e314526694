// The turns of the track benchmark: in which of them a run tells of itself, and what those cost beside the others.
// May import report, host.
import { MOST } from "./host.ts";
import { median } from "./report.ts";

/** Seconds: by the clock, of processor time of the training thread, and of all threads. */
export interface Spent {
  readonly wall: number;
  readonly own: number;
  readonly cpu: number;
}

export interface Turn extends Spent {
  readonly told: boolean;
  readonly steps: number;
  /** Of all processors' time that was asked for, what the machine's host gave to others. */
  readonly taken: number;
}

export interface Worked {
  readonly turns: readonly Turn[];
  /** Steps that the written lines stand for, and bytes of events.jsonl. */
  readonly covered: number;
  readonly bytes: number;
}

/** Told, not, not, told: what changes slowly takes as much from either. */
export const turnsOf = (turn: number): boolean => turn % 4 === 0 || turn % 4 === 3;

export interface More {
  /** Microseconds a step of turns that tell nothing. */
  readonly step: number;
  /** Microseconds a step that telling costs, and as a share of the step. */
  readonly costs: number;
  readonly share: number;
  /** The share's 95% interval. */
  readonly low: number;
  readonly high: number;
}

/** With fewer of them the median says nothing. */
const LEAST = 5;

/**
 * What telling costs, by one of the clocks: the median over groups of four neighbours, each compared with itself. Groups
 * that lost time to others on the machine's host are left out, where enough are left.
 */
export function moreOf(turns: readonly Turn[], clock: keyof Spent): More {
  const perStep = (turn: Turn) => 1e6 * turn[clock] / turn.steps;
  const mean = (some: readonly Turn[]) => some.reduce((sum, turn) => sum + perStep(turn), 0) / some.length;
  const groups = Array.from(
    { length: Math.floor(turns.length / 4) },
    (_, i) => turns.slice(4 * i, 4 * i + 4),
  );
  const whole = groups.filter((group) => group.every(({ taken }) => taken <= MOST));
  const costs = (whole.length >= LEAST ? whole : groups).map((group) =>
    mean(group.filter(({ told }) => told)) - mean(group.filter(({ told }) => !told))
  );
  const step = median(
    (whole.length >= LEAST ? whole.flat() : turns).filter(({ told }) => !told).map(perStep),
  );
  const middle = median(costs);
  const [low, high] = medianWithin(costs);
  return { step, costs: middle, share: middle / step, low: low / step, high: high / step };
}

/** Where the median of all such values lies, to 95%: by the ranks of those that were measured. */
export function medianWithin(values: readonly number[]): [low: number, high: number] {
  const sorted = values.toSorted((a, b) => a - b), n = sorted.length;
  const reach = 1.96 * Math.sqrt(n) / 2;
  const at = (rank: number) => sorted[Math.min(Math.max(Math.round(rank), 0), n - 1)];
  return [at((n - 1) / 2 - reach), at((n - 1) / 2 + reach)];
}
