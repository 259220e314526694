// Finds a loss that jumps, and goes back to the last checkpoint with --on-spike rewind.
import type { Tensor } from "../../../ffi/tensor.ts";
import { UserError } from "../../base/errors.ts";
import { formatValue } from "../../base/format.ts";

type OnSpike = "off" | "warn" | "skip" | "rewind";

export interface SpikeSettings {
  readonly on: OnSpike;
  readonly zscore: number;
  readonly window: number;
  /** Training gives up after so many skipped steps in a row. */
  readonly mostSkipped: number;
  /** Messages end with these sentences. */
  readonly remedies: string;
}

/** No loss is a spike before so many. */
const ENOUGH = 30;

/** The deviation is at least this part of the mean. */
const LEAST_DEVIATION = 0.01;

const MOST_REWINDS = 5;

/** Later losses are not compared with a spike. */
export function openJudge({ zscore, window }: Pick<SpikeSettings, "zscore" | "window">) {
  const kept = new Float64Array(window);
  let seen = 0;
  return {
    /** Standard deviations above the mean where that is a spike; else null. */
    judge(loss: number): number | null {
      if (!Number.isFinite(loss)) return Infinity;
      const count = Math.min(seen, window);
      if (count >= Math.min(window, ENOUGH)) {
        let sum = 0, squares = 0;
        for (let i = 0; i < count; i++) sum += kept[i];
        const mean = sum / count;
        for (let i = 0; i < count; i++) squares += (kept[i] - mean) ** 2;
        const deviation = Math.max(Math.sqrt(squares / count), LEAST_DEVIATION * Math.abs(mean), 1e-12);
        const z = (loss - mean) / deviation;
        if (z > zscore) return z;
      }
      kept[seen++ % window] = loss;
      return null;
    },
  };
}

interface Spike {
  readonly step: number;
  readonly message: string;
}

export interface Guard {
  /** `refuse` reads the loss, which waits for the device. */
  readonly reads: boolean;
  /** Gives the reason to skip a step's update. */
  refuse(loss: Tensor, step: number): string | null;
  /** Called one step later; `pending` is set when training is to go back. */
  observe(step: number, loss: number): Spike | null;
  /** This guard deals with a loss that is no number. */
  readonly takesNonFinite: boolean;
  pending: Spike | null;
  /** Throws when going back helps no more. */
  wentBack(to: number): void;
}

/** All ranks have the same global loss, bit for bit. */
export function openGuard(s: SpikeSettings): Guard {
  const { judge } = openJudge(s);
  let inARow = 0, rewinds = 0, last = -1;
  const say = (step: number, loss: number, z: number): string =>
    Number.isFinite(z)
      ? `The loss jumped to ${formatValue(loss)} at step ${step}, ${
        formatValue(z)
      } standard deviations above the mean of ` +
        "those before"
      : `The loss became ${loss} at step ${step}`;
  const gaveUp = (what: string) => new UserError("numerics", `${what}. ${s.remedies}`);
  const guard: Guard = {
    reads: s.on === "skip",
    takesNonFinite: s.on === "skip" || s.on === "rewind",
    pending: null,
    refuse(loss, step) {
      if (s.on !== "skip") return null;
      const value = loss.item();
      const z = judge(value);
      if (z === null) {
        inARow = 0;
        return null;
      }
      const found = say(step, value, z);
      if (++inARow >= s.mostSkipped) throw gaveUp(`${found}, and ${inARow} steps in a row were left out`);
      return `${found}: this step is left out (--on-spike skip).`;
    },
    observe(step, loss) {
      if (s.on === "off" || s.on === "skip" || guard.pending !== null) return null;
      const z = judge(loss);
      if (z === null) {
        inARow = 0;
        return null;
      }
      const spike = { step, message: say(step, loss, z) };
      if (s.on === "rewind") {
        guard.pending = spike;
        return null; // the rewind reports it
      }
      inARow++;
      return Number.isInteger(Math.log10(inARow)) ? { ...spike, message: `${spike.message}.` } : null;
    },
    wentBack(to) {
      rewinds = to > last ? 1 : rewinds + 1; // a newer checkpoint is progress
      last = to;
      const spike = guard.pending;
      guard.pending = null;
      if (rewinds <= MOST_REWINDS) return;
      throw gaveUp(`${spike?.message ?? "The loss jumped"}, after training went back ${MOST_REWINDS} times`);
    },
  };
  return guard;
}

// Steps go on counting. Every rank rewinds at the same step.
