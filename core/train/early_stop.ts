// Best validation loss so far, and whether patience has run out. Imports nothing.

export interface Best {
  epoch: number;
  valLoss: number;
}

/** `patience` epochs without a better validation loss end the run; 0 never does. */
export function judge(
  best: Best | null,
  now: Best,
  patience: number,
): { best: Best; better: boolean; stop: boolean } {
  const better = best === null || now.valLoss < best.valLoss;
  if (better) return { best: now, better, stop: false };
  return { best: best!, better, stop: patience > 0 && now.epoch - best!.epoch >= patience };
}
