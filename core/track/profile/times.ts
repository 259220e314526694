// The events that say where time went: of the last steps, and what is left at the end. All of them together are the account
// of the run, from where it was put together to its end.
import { type Account, type Look, type Spent, spentBetween } from "../account.ts";
import type { TimesEvent } from "../event_types.ts";

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
  const told = (step: number, samples: number, after: Look): TimesEvent => {
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
