// Durations with units: 500steps, 1ep, 10min, 2e9tok. Imports nothing.

export type Unit = "steps" | "epochs" | "tokens" | "samples" | "seconds";

export interface Duration {
  readonly count: number;
  readonly unit: Unit;
}

const SPELLINGS = new Map<string, readonly [Unit, number]>([
  ...["step", "steps"].map((name) => [name, ["steps", 1]] as const),
  ...["ep", "epoch", "epochs"].map((name) => [name, ["epochs", 1]] as const),
  ...["tok", "tokens"].map((name) => [name, ["tokens", 1]] as const),
  ["samples", ["samples", 1]],
  ...["s", "sec", "seconds"].map((name) => [name, ["seconds", 1]] as const),
  ...["min", "minutes"].map((name) => [name, ["seconds", 60]] as const),
  ...["h", "hours"].map((name) => [name, ["seconds", 3600]] as const),
  ["d", ["seconds", 86400]],
]);

/** An example of each unit, for sentences and help. */
export const UNIT_EXAMPLES: Record<Unit, string> = {
  steps: "500steps",
  epochs: "1ep",
  tokens: "2e9tok",
  samples: "1e6samples",
  seconds: "10min",
};

/** How a unit is written behind a number. */
export const UNIT_SUFFIX: Record<Unit, string> = {
  steps: "steps",
  epochs: "ep",
  tokens: "tok",
  samples: "samples",
  seconds: "s",
};

const SHAPE = /^(\d+(?:\.\d*)?(?:e[+-]?\d+)?)\s*([a-z]*)$/i;

/** Null when the text is not a duration; a bare number takes `bare`, and so does "0" of any unit. */
export function parseDuration(text: string, bare: Unit = "steps"): Duration | null {
  const match = SHAPE.exec(text.trim());
  if (!match) return null;
  const [unit, scale] = match[2] === "" ? [bare, 1] as const : SPELLINGS.get(match[2].toLowerCase()) ?? [];
  if (!unit || !scale) return null;
  const count = Number(match[1]) * scale;
  return Number.isFinite(count) ? { count, unit } : null;
}
