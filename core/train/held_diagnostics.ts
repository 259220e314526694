// When an evaluation is diagnosed: at once, or later with the weights that it judged, where epochs are short.
import { noGrad } from "../../ffi/autograd.ts";
import type { Tensor } from "../../ffi/tensor.ts";
import type { Grid } from "../data/arrays/grid.ts";
import type { Source } from "../data/source/source.ts";
import { writeDiagnostics } from "../run/diagnostics.ts";
import type { Config } from "../settings/settings.ts";
import { exchange } from "./arena.ts";
import type { Pass } from "./blocks.ts";
import { diagnosed, type Evaluated } from "./diagnostics.ts";
import { areSmall, copyTo } from "./held_state.ts";

/** Samples that take longer (ms) are made so rarely that they take a small share of the run. */
const LONG = 250, AT_MOST = 0.05;

interface Diagnose {
  /** After an evaluation, with its weights. */
  judged(pass: Pass, evaluated: Evaluated): void;
  /** Writes what waits. */
  close(): void;
}

/** Evaluations that follow each other sooner are diagnosed once in this time. */
const OFTEN_MS = 1000;

/** Rank 0 calls it. Null where a run keeps nothing. */
export function openDiagnostics(
  source: Source | null,
  data: Config["data"],
  folder: string,
  clock: () => number = () => performance.now(),
): Diagnose | null {
  if (source === null || source.facts.targetless) return null;
  let grid: Grid | null | undefined, took = 0, endedAt = -Infinity, judgedAt = clock();
  const waiting = openWaiting();
  const write = (pass: Pass, evaluated: Evaluated) => {
    const began = clock();
    try {
      grid ??= source.grid?.() ?? null;
      writeDiagnostics(folder, diagnosed(source, pass, evaluated, data, grid));
    } catch {
      // The report goes without it: training says itself what is wrong with samples, memory or the disk.
    }
    endedAt = clock();
    took = endedAt - began;
  };
  return {
    judged(pass, evaluated) {
      const { better, last } = evaluated, now = clock(), next = now + (now - judgedAt);
      judgedAt = now;
      const mayWait = !last && next - endedAt <= OFTEN_MS;
      if (mayWait && better && waiting.hold(pass, evaluated)) return;
      if (mayWait && !better) return;
      if (!better) return waiting.take(write);
      waiting.drop();
      if (took > LONG && !last && took > AT_MOST * (now - endedAt)) return;
      write(pass, evaluated);
    },
    close: () => waiting.take(write),
  };
}

/** More bytes of weights take as long to copy as what they spare. */
const MOST_HELD = 2 ** 20;

/** An evaluation whose diagnostics are made later, with a copy of the weights that it judged. */
function openWaiting() {
  const twins = new Map<Tensor, Tensor>();
  let held: { readonly pass: Pass; readonly evaluated: Evaluated } | null = null, fits: boolean | null = null;
  let tensors: readonly Tensor[] | null = null; // complex weights are other tensors each time they are asked for
  const exchangeAll = () => noGrad(() => twins.forEach((twin, own) => exchange(own, twin)));
  return {
    /** In place of what was held before. False where the weights are on a device, or too many. */
    hold(pass: Pass, evaluated: Evaluated): boolean {
      tensors ??= pass.model.root.stateDict().map(([, t]) => t);
      fits ??= areSmall(tensors, MOST_HELD);
      if (!fits) return false;
      copyTo(twins, tensors);
      held = { pass, evaluated };
      return true;
    },
    drop: () => void (held = null),
    take(write: (pass: Pass, evaluated: Evaluated) => void): void {
      if (held === null) return;
      const { pass, evaluated } = held;
      held = null;
      exchangeAll();
      write(pass, evaluated);
      exchangeAll();
    },
  };
}
