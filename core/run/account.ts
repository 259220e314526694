// The time account of the training thread: eight parts that add up to the time on the clock, and the events that
// report them. It measures the host's time and never synchronises the device; for a GPU, compute is the time to queue
// work plus the time to wait for the device, and time that the device's stream waits for NCCL counts as
// communication.
import type { TimesEvent } from "./events.ts";

// The account of the training thread's time: all of it belongs to one of eight parts, so that they add up to what the
// clock on the wall says. A stopwatch that always runs is told what the time since it was last told was for. It is
// the host's time. Work for a GPU is only queued, so there `compute` is what was queued and what the device was
// waited for, and what the device's own stream waited for NCCL meanwhile is counted as communication: nothing is
// synchronised to measure it.

export const TIME_PARTS = [
  "data",
  "copy",
  "compute",
  "communication",
  "optimizer",
  "save",
  "evaluation",
  "rest",
] as const;
export type TimePart = (typeof TIME_PARTS)[number];
export const DATA = 0,
  COPY = 1,
  COMPUTE = 2,
  COMMUNICATION = 3,
  OPTIMIZER = 4,
  SAVE = 5,
  EVALUATION = 6,
  REST = 7;

/** Seconds of each part, as events have them: "data_s", ... */
export type Spent = Record<`${TimePart}_s`, number>;
/** The same of each rank, in their order. */
export type SpentOfRanks = Record<`${TimePart}_s`, readonly number[]>;

/** Something of each part, by the names that events have for them. */
export const byPart = <T>(of: (name: TimePart, number: number) => T): Record<`${TimePart}_s`, T> =>
  Object.fromEntries(TIME_PARTS.map((name, i) => [`${name}_s`, of(name, i)])) as Record<`${TimePart}_s`, T>;

/** What each part is, to a person. */
export const TIME_PART_LABELS: Readonly<Record<TimePart, string>> = {
  data: "waiting for data",
  copy: "bringing data to the device",
  compute: "forward and backward",
  communication: "waiting for other ranks",
  optimizer: "optimizer",
  save: "held by saves",
  evaluation: "evaluation",
  rest: "rest",
};

/** Seconds so far that were waited within other parts: they are taken out of those. */
export interface Waits {
  readonly data: () => number;
  readonly communication: () => number;
}

/** A place in the account. */
export interface TimeMark {
  /** Seconds of `performance.now`, and those of each part until then. */
  readonly at: number;
  readonly spent: Float64Array;
}

/** @internal */
export interface Account {
  /** Seconds of each part so far. */
  readonly spent: Float64Array;
  /** The time since the last lap was this part's, but for what was waited in it. */
  lap(part: number): void;
  /** When the last lap ended, in milliseconds of `performance.now`. */
  readonly at: number;
  /** Ends the lap here, as part of the rest. */
  look(): TimeMark;
  /** Hears of every lap: its part, beginning and end, in milliseconds of `performance.now`. */
  hearer: ((part: number, from: number, to: number) => void) | null;
}

const NO_WAITS: Waits = { data: () => 0, communication: () => 0 };

export function openAccount(waits: Waits = NO_WAITS, now: () => number = () => performance.now()): Account {
  const spent = new Float64Array(TIME_PARTS.length);
  let last = now();
  let data = waits.data(), communication = waits.communication();
  const account: Account = {
    spent,
    get at() {
      return last;
    },
    hearer: null,
    lap(part) {
      const time = now();
      const from = last;
      let seconds = (time - from) / 1000, heard = part;
      last = time;
      const dataNow = waits.data(), communicationNow = waits.communication();
      if (part === SAVE || part === EVALUATION) { // what they wait for is theirs
        data = dataNow;
        communication = communicationNow;
      } else {
        // A GPU's stream may have waited longer than this lap: what is left is the next one's. Never more than there was.
        if (dataNow !== data) {
          const forData = Math.min(seconds, dataNow - data);
          data += forData;
          spent[DATA] += forData;
          seconds -= forData;
          if (forData > seconds) heard = DATA; // what was mostly waited for is shown as that
        }
        if (communicationNow !== communication) {
          const forOthers = Math.min(seconds, communicationNow - communication);
          communication += forOthers;
          spent[COMMUNICATION] += forOthers;
          seconds -= forOthers;
        }
      }
      spent[part] += seconds;
      if (account.hearer !== null) account.hearer(heard, from, time);
    },
    look() {
      account.lap(REST);
      return { at: last / 1000, spent: spent.slice() };
    },
  };
  return account;
}

/** From one look to a later one, to the microsecond: the parts add up to `seconds`, and none is below 0. */
export function spentBetween(from: TimeMark, to: TimeMark): { seconds: number; spent: Spent } {
  const parts = TIME_PARTS.map((_, i) => rounded(to.spent[i] - from.spent[i]));
  const others = parts.reduce((sum, part, i) => i === REST ? sum : sum + part, 0);
  parts[REST] = Math.max(0, rounded(to.at - from.at - others));
  const spent = byPart((_, i) => parts[i]);
  return { seconds: rounded(others + parts[REST]), spent };
}

/**
 * Tenths of a percent that add up to 100, the largest first and the rest last; what rounds to nothing is left out. Of a
 * whole that is nothing, all is rest.
 */
export function percentages(spent: Spent): readonly (readonly [TimePart, number])[] {
  const whole = TIME_PARTS.reduce((sum, name) => sum + spent[`${name}_s`], 0);
  const exact = TIME_PARTS.map((name) =>
    whole > 0 ? 1000 * spent[`${name}_s`] / whole : name === "rest" ? 1000 : 0
  );
  const tenths = exact.map(Math.floor);
  const missing = 1000 - tenths.reduce((sum, share) => sum + share, 0);
  const byRemainder = TIME_PARTS.map((_, i) => i).sort((a, b) =>
    exact[b] - tenths[b] - (exact[a] - tenths[a])
  );
  for (const i of byRemainder.slice(0, missing)) tenths[i]++;
  return TIME_PARTS.map((name, i) => [name, tenths[i] / 10] as const)
    .filter(([, share]) => share > 0)
    .sort((a, b) => Number(a[0] === "rest") - Number(b[0] === "rest") || b[1] - a[1]);
}

/** What a rank did itself: all but what it waited for other ranks. */
export const ownWork = (spent: Spent): number =>
  TIME_PARTS.reduce((sum, name) => name === "communication" ? sum : sum + spent[`${name}_s`], 0);

export const spentOfRank = (of: SpentOfRanks, rank: number): Spent => byPart((name) => of[`${name}_s`][rank]);

export const spentNothing = (): Spent => byPart(() => 0);

/** Adds what is a number there: a log of another version may lack a part. */
export function addSpent(to: Spent, more: Readonly<Partial<Record<keyof Spent, unknown>>>): void {
  for (const name of TIME_PARTS) {
    const seconds = more[`${name}_s`];
    if (typeof seconds === "number" && seconds >= 0) to[`${name}_s`] += seconds;
  }
}

/** To the microsecond. */
const rounded = (seconds: number): number => Math.round(1e6 * seconds) / 1e6;

// The events that say where time went: of the last steps, and what is left at the end. All of them together are the
// account of the run, from where it was put together to its end.

/** Not more often than this: beside a thousand steps a second it costs nothing. */
const EVERY_S = 1;

export interface TimesOptions {
  readonly account: Account;
  /** The steps that are done already, and the samples that were seen in them. */
  readonly done: { readonly step: number; readonly samples: number };
  /** Tokens in a sample; 0 where samples are none of a language. */
  readonly tokens: number;
  /** Floating-point operations that a sample takes, when they are known. */
  readonly perSample?: () => number | null;
  /** Operations a second that all ranks' devices can do; 0 when nobody said. */
  readonly peak?: number;
}

export interface Times {
  /** What there is to tell after this step, when so many samples were seen; null if that was told just now. */
  due(step: number, samples: number): TimesEvent | null;
  /** What was not told yet, in no step: before the first one, or after the last. */
  since(step: number, samples: number): TimesEvent;
  /** All of the run so far. */
  whole(): { readonly seconds: number; readonly spent: Spent };
}

export function openTimes({ account, done, tokens, perSample, peak = 0 }: TimesOptions): Times {
  const opened = account.look();
  let before = opened, last = done, warm = false;
  const told = (step: number, samples: number, after: TimeMark): TimesEvent => {
    const { seconds, spent } = spentBetween(before, after);
    const steps = Math.max(0, step - last.step), // training may have gone back
      training = seconds - spent.evaluation_s - spent.save_s;
    // The first step is like no other: it says nothing of the speed.
    const rate = warm && steps > 0 && training > 0 ? (samples - last.samples) / training : 0;
    const flops = rate * (perSample?.() ?? 0);
    before = after;
    last = { step, samples };
    warm ||= steps > 0;
    return {
      kind: "times",
      step,
      steps,
      seconds,
      ...spent,
      samples_per_s: rate > 0 ? sixDigits(rate) : undefined,
      tokens_per_s: rate > 0 && tokens > 0 ? sixDigits(rate * tokens) : undefined,
      flops: flops > 0 ? sixDigits(flops) : undefined,
      mfu: flops > 0 && peak > 0 ? sixDigits(flops / peak) : undefined,
    };
  };
  return {
    due(step, samples) {
      if (step === last.step || warm && account.at / 1000 - before.at < EVERY_S) return null;
      return told(step, samples, account.look());
    },
    since: (step, samples) => told(step, samples, account.look()),
    whole: () => spentBetween(opened, account.look()),
  };
}

/** As many as a measured rate is worth. */
export function sixDigits(value: number): number;
export function sixDigits(value: number | null): number | undefined;
export function sixDigits(value: number | null): number | undefined {
  if (value === null) return undefined;
  if (value === 0 || !Number.isFinite(value)) return value;
  // No text: this is asked for at each step.
  const digits = 5 - Math.floor(Math.log10(Math.abs(value))), power = 10 ** Math.abs(digits);
  return digits < 0 ? Math.round(value / power) * power : Math.round(value * power) / power;
}
