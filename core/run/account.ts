// The account of the training thread's time: eight parts that add up to the time on the clock. It measures
// the host's time and never synchronises the device; on a GPU, compute is the time to queue work and to wait
// for the device, and its stream's wait for NCCL counts as communication.
import type { TimesEvent } from "./events.ts";

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
type TimePart = (typeof TIME_PARTS)[number];
export const DATA = 0,
  COPY = 1,
  COMPUTE = 2,
  COMMUNICATION = 3,
  OPTIMIZER = 4,
  SAVE = 5,
  EVALUATION = 6,
  REST = 7;

/** Seconds. */
export type Spent = Record<`${TimePart}_s`, number>;
export type SpentOfRanks = Record<`${TimePart}_s`, readonly number[]>;

const KEYS = TIME_PARTS.map((name) => `${name}_s` as const);

export function byPart<T>(of: (name: TimePart, number: number) => T): Record<`${TimePart}_s`, T> {
  const all = {} as Record<`${TimePart}_s`, T>;
  for (let i = 0; i < KEYS.length; i++) all[KEYS[i]] = of(TIME_PARTS[i], i);
  return all;
}

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

/** These waits, in seconds, lie within other parts and are subtracted from them. */
interface Waits {
  readonly data: () => number;
  readonly communication: () => number;
}

export interface TimeMark {
  /** Seconds of `performance.now`. */
  readonly at: number;
  readonly spent: Float64Array;
}

/** @internal */
export interface Account {
  readonly spent: Float64Array;
  /** The waits since the last lap go to their own parts. */
  lap(part: number): void;
  /** The last lap ended then, in milliseconds of `performance.now`. */
  readonly at: number;
  /** Ends the lap as part of the rest. */
  markTime(): TimeMark;
  /** Times are milliseconds of `performance.now`. */
  onLap: ((part: number, from: number, to: number) => void) | null;
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
    onLap: null,
    lap(part) {
      const time = now();
      const from = last;
      let seconds = (time - from) / 1000, counted = part;
      last = time;
      const dataNow = waits.data(), communicationNow = waits.communication();
      if (part === SAVE || part === EVALUATION) { // these parts keep their waits
        data = dataNow;
        communication = communicationNow;
      } else {
        // A GPU's stream may have waited for longer than this lap: the remainder belongs to the next one.
        if (dataNow !== data) {
          const forData = Math.min(seconds, dataNow - data);
          data += forData;
          spent[DATA] += forData;
          seconds -= forData;
          if (forData > seconds) counted = DATA; // what was mostly waited for is shown as that
        }
        if (communicationNow !== communication) {
          const forOthers = Math.min(seconds, communicationNow - communication);
          communication += forOthers;
          spent[COMMUNICATION] += forOthers;
          seconds -= forOthers;
        }
      }
      spent[part] += seconds;
      if (account.onLap !== null) account.onLap(counted, from, time);
    },
    markTime() {
      account.lap(REST);
      return { at: last / 1000, spent: spent.slice() };
    },
  };
  return account;
}

/** To the microsecond, the parts add up to `seconds`, and none is negative. */
export function spentBetween(from: TimeMark, to: TimeMark): { seconds: number; spent: Spent } {
  const parts = TIME_PARTS.map((_, i) => rounded(to.spent[i] - from.spent[i]));
  const others = parts.reduce((sum, part, i) => i === REST ? sum : sum + part, 0);
  parts[REST] = Math.max(0, rounded(to.at - from.at - others));
  const spent = byPart((_, i) => parts[i]);
  return { seconds: rounded(others + parts[REST]), spent };
}

/** Percentages to a tenth add up to 100; the largest comes first and the rest last. */
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

export const ownWork = (spent: Spent): number =>
  TIME_PARTS.reduce((sum, name) => name === "communication" ? sum : sum + spent[`${name}_s`], 0);

export const spentOfRank = (of: SpentOfRanks, rank: number): Spent => byPart((name) => of[`${name}_s`][rank]);

export const spentNothing = (): Spent => byPart(() => 0);

/** Logs of other versions may lack parts. */
export function addSpent(to: Spent, more: Readonly<Partial<Record<keyof Spent, unknown>>>): void {
  for (const name of TIME_PARTS) {
    const seconds = more[`${name}_s`];
    if (typeof seconds === "number" && seconds >= 0) to[`${name}_s`] += seconds;
  }
}

const rounded = (seconds: number): number => Math.round(1e6 * seconds) / 1e6;

/** This is often enough for readers, and free at a thousand steps a second. */
const EVERY_S = 1;

interface TimesOptions {
  readonly account: Account;
  /** Earlier attempts have done these. */
  readonly done: { readonly step: number; readonly samples: number };
  /** 0 where samples have no tokens. */
  readonly tokens: number;
  /** Floating-point operations; null until they are counted. */
  readonly perSample?: () => number | null;
  /** Operations a second of all ranks' devices; 0 where that is unknown. */
  readonly peak?: number;
}

export interface Times {
  /** Null if the last one was just now. */
  due(step: number, samples: number): TimesEvent | null;
  since(step: number, samples: number): TimesEvent;
  whole(): { readonly seconds: number; readonly spent: Spent };
}

export function openTimes({ account, done, tokens, perSample, peak = 0 }: TimesOptions): Times {
  const opened = account.markTime();
  let before = opened, last = done, warm = false;
  const timesOf = (step: number, samples: number, after: TimeMark): TimesEvent => {
    const { seconds, spent } = spentBetween(before, after);
    const steps = Math.max(0, step - last.step), // training may have gone back
      training = seconds - spent.evaluation_s - spent.save_s;
    // The first step warms up, so it has no speed.
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
      return timesOf(step, samples, account.markTime());
    },
    since: (step, samples) => timesOf(step, samples, account.markTime()),
    whole: () => spentBetween(opened, account.markTime()),
  };
}

export function sixDigits(value: number): number;
export function sixDigits(value: number | null): number | undefined;
export function sixDigits(value: number | null): number | undefined {
  if (value === null) return undefined;
  if (value === 0 || !Number.isFinite(value)) return value;
  // This runs at each step, so it makes no text.
  const digits = 5 - Math.floor(Math.log10(Math.abs(value))), power = 10 ** Math.abs(digits);
  return digits < 0 ? Math.round(value / power) * power : Math.round(value * power) / power;
}
