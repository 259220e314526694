// Best validation loss so far, and whether patience has run out. What is not finite is never the best.
import { UserError } from "../errors.ts";

export interface Best {
  epoch: number;
  valLoss: number;
}

/** `patience` epochs without a better validation loss end the run; 0 never does. */
export function judge(
  best: Best | null,
  now: Best,
  patience: number,
): { best: Best | null; better: boolean; stop: boolean } {
  const better = Number.isFinite(now.valLoss) && (best === null || now.valLoss < best.valLoss);
  if (better) return { best: now, better, stop: false };
  return { best, better, stop: patience > 0 && now.epoch - (best?.epoch ?? 0) >= patience };
}

/** What is said of an evaluation that came to no number while training goes on: its next steps may tell more. */
export const noNumber = (valLoss: number, step: number): string =>
  `The validation loss is ${valLoss} after step ${step}, which is never the best.`;

/** A run that ends with such an evaluation has come to nothing, although its weights may still be finite. */
export function endsInNoNumber({ valLoss, step, best }: {
  readonly valLoss: number;
  readonly step: number;
  readonly best: Best | null;
}): UserError {
  const kept = best === null
    ? "No epoch had a finite one, so there is no best checkpoint."
    : `The best checkpoint is still that of epoch ${best.epoch}.`;
  return new UserError(
    "numerics",
    `The validation loss is ${valLoss} after the last step (${step}): with the weights of now the model gives no ` +
      `number. ${kept} Try a lower --lr, --clip-norm 1, a longer --warmup, or look at the data.`,
  );
}
