// torch's ReduceLROnPlateau: the rate falls when evaluations have not been better for some time. What they came to is in the
// checkpoint's cursor, so a run that goes on continues there; evaluations are the same on all ranks.
import type { Plateau } from "../../checkpoint/training_state.ts";
import { argumentsOf, type Kind, number, whole, word } from "./law.ts";

const PLATEAU = {
  mode: word(["min", "max"], null),
  factor: number({ min: 0, max: 1, below: true }, 0.1),
  patience: whole(10),
  threshold: number({ min: 0 }, 1e-4),
  threshold_mode: word(["rel", "abs"], "rel"),
  cooldown: whole(0),
  min_lr: number({ min: 0 }, ({ scheduler }) => scheduler.min_lr),
  eps: number({ min: 0 }, 1e-8),
};

/** Every number is better. */
export const worst = (mode: Plateau["mode"]): number => mode === "min" ? Infinity : -Infinity;

const plateau: Kind = {
  arguments: PLATEAU,
  open(call, room) {
    const a = argumentsOf(PLATEAU, call, room), { base } = room;
    const isBetter = (value: number, best: number, mode: "min" | "max") =>
      a.threshold_mode === "rel"
        ? mode === "min" ? value < best * (1 - a.threshold) : value > best * (a.threshold + 1)
        : mode === "min"
        ? value < best - a.threshold
        : value > best + a.threshold;
    /** A run that goes on with another rate has fallen by the same share. */
    const rateOf = (now: Plateau) => now.base === base ? now.rate : base * (now.rate / now.base);
    const begin = (mode: "min" | "max"): Plateau => ({
      ...{ mode, best: null, bad: 0, cooldown: 0, evaluations: 0, rate: base, base },
    });
    return {
      ...{ torch: "ReduceLROnPlateau", base },
      rate: (_i, _before, now) => now ? rateOf(now) : base,
      plateau: {
        mode: a.mode,
        begin,
        judge(given, value, mode) {
          const before = given.mode === mode ? given : { ...begin(mode), rate: rateOf(given) };
          const better = isBetter(value, before.best ?? worst(mode), mode), cooling = before.cooldown > 0;
          const bad = cooling || better ? 0 : before.bad + 1, falls = bad > a.patience;
          const old = rateOf(before), lower = Math.max(old * a.factor, a.min_lr);
          return {
            mode,
            best: better ? value : before.best,
            bad: falls ? 0 : bad,
            cooldown: falls ? a.cooldown : Math.max(0, before.cooldown - 1),
            evaluations: before.evaluations + 1,
            rate: falls && old - lower > a.eps ? lower : old,
            base,
          };
        },
      },
      state: (_, { each }) => ({
        factor: a.factor,
        patience: a.patience,
        cooldown: a.cooldown,
        threshold: a.threshold,
        threshold_mode: a.threshold_mode,
        eps: a.eps,
        default_min_lr: a.min_lr,
        min_lrs: each(a.min_lr),
      }),
    };
  },
};

export const plateaus = { plateau } as const;
