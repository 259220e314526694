// How the numbers of a field are spread: mean, standard deviation and histogram, of finite ones.
import type { Values } from "../arrays/numbers.ts";

export interface Histogram {
  /** Bins are of the same width, and the last one has its upper end, too. */
  readonly from: number;
  readonly to: number;
  readonly counts: readonly number[];
}

/** The standard deviation is of the population, as numpy's. */
export function spreadOf(pieces: readonly Values[]): { mean: number | null; std: number | null } {
  let count = 0, sum = 0;
  eachFinite(pieces, (value) => {
    count++;
    sum += value;
  });
  if (count === 0) return { mean: null, std: null };
  const mean = sum / count;
  let squares = 0;
  eachFinite(pieces, (value) => squares += (value - mean) ** 2);
  return { mean, std: Math.sqrt(squares / count) };
}

/** Bins have the edges of numpy.histogram. Values outside are left out. */
export function histogramOf(pieces: readonly Values[], from: number, to: number, bins: number): Histogram {
  const counts = new Array<number>(bins).fill(0);
  if (!(to > from) || to - from === Infinity) {
    eachFinite(pieces, () => counts[bins >> 1]++);
    return { from, to, counts };
  }
  const edge = (i: number) => i === bins ? to : from + i * ((to - from) / bins);
  eachFinite(pieces, (value) => {
    if (value < from || value > to) return;
    let bin = Math.min(bins - 1, Math.floor((value - from) / (to - from) * bins));
    if (value < edge(bin)) bin--;
    else if (bin < bins - 1 && value >= edge(bin + 1)) bin++;
    counts[bin]++;
  });
  return { from, to, counts };
}

function eachFinite(pieces: readonly Values[], use: (value: number) => void): void {
  for (const values of pieces) {
    for (let i = 0; i < values.length; i++) {
      const value = Number(values[i]);
      if (value - value === 0) use(value);
    }
  }
}

const BARS = "▁▂▃▄▅▆▇█";

/** An empty bin is a space. */
export function sparkline({ counts }: Histogram): string {
  const most = Math.max(...counts);
  return counts.map((count) => count === 0 ? " " : BARS[Math.ceil(count / most * BARS.length) - 1]).join("");
}
