// Best validation loss so far, and whether patience has run out. Imports nothing.

export interface Best {
  epoch: number;
  valLoss: number;
}

/** `patience` epochs without a better validation loss end the run; 0 never does. NaN is never better. */
export function judge(
  best: Best | null,
  now: Best,
  patience: number,
): { best: Best | null; better: boolean; stop: boolean } {
  const better = best === null ? !Number.isNaN(now.valLoss) : now.valLoss < best.valLoss;
  if (better) return { best: now, better, stop: false };
  return { best, better, stop: patience > 0 && now.epoch - (best?.epoch ?? 0) >= patience };
}
