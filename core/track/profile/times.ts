// The event that says where the time of the last steps went. May import laps, event types.
import type { TimesEvent } from "../event_types.ts";
import { COMMUNICATION, COMPUTE, EVAL, INPUT, type Laps, OPTIMIZER, OTHER, SAVE } from "./laps.ts";

/** Not more often than this: beside a thousand steps a second it costs nothing. */
const EVERY_S = 1;

export interface TimesOptions {
  readonly laps: Laps;
  /** Seconds that data was waited for so far. */
  readonly waited: () => number;
  /** Tokens in a sample; 0 where samples are none of a language. */
  readonly tokens: number;
  /** Floating-point operations that a sample takes, when they are known. */
  readonly perSample?: () => number | null;
  /** Operations a second that all ranks' devices can do; 0 when nobody said. */
  readonly peak?: number;
  readonly now?: () => number;
}

export interface Times {
  /** What there is to tell after this step, when so many samples were seen; null if that was told just now. */
  due(step: number, samples: number): TimesEvent | null;
}

export function openTimes(o: TimesOptions): Times {
  const { laps, waited, tokens, peak = 0, now = () => performance.now() } = o;
  const look = () => ({ at: now() / 1000, waited: waited(), spent: laps.spent.slice() });
  let before = look(), steps = 0, last = { step: -1, samples: 0 };
  return {
    due(step, samples) {
      if (last.step < 0) last = { step, samples }; // the first step is like no other
      steps = step - last.step;
      if (steps === 0 || now() / 1000 - before.at < EVERY_S) {
        if (steps === 0) before = look();
        return null;
      }
      const after = look();
      const [from, to] = [before, after];
      const part = (which: number) => rounded(to.spent[which] - from.spent[which]);
      const loader = to.waited - from.waited;
      const seconds = to.at - from.at - part(EVAL) - part(SAVE);
      const rate = seconds > 0 ? (samples - last.samples) / seconds : 0;
      const flops = rate * (o.perSample?.() ?? 0);
      before = after;
      last = { step, samples };
      return {
        kind: "times",
        step,
        steps,
        loader_s: rounded(loader),
        transfer_s: rounded(Math.max(0, part(INPUT) - loader)),
        compute_s: part(COMPUTE),
        communication_s: part(COMMUNICATION),
        optimizer_s: part(OPTIMIZER),
        save_s: part(SAVE),
        eval_s: part(EVAL),
        other_s: part(OTHER),
        samples_per_s: sixDigits(rate),
        tokens_per_s: tokens > 0 ? sixDigits(rate * tokens) : undefined,
        flops: flops > 0 ? sixDigits(flops) : undefined,
        mfu: flops > 0 && peak > 0 ? sixDigits(flops / peak) : undefined,
      };
    },
  };
}

/** To the microsecond. */
const rounded = (seconds: number): number => Math.round(1e6 * seconds) / 1e6;

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
