// What a rank can be doing, in the words of reports. Imports nothing.

export const PHASES = [
  "starting",
  "data.next",
  "forward",
  "backward",
  "gradients",
  "optimizer",
  "evaluation",
  "save",
  "waiting for ranks",
  "ending",
] as const;

export type Phase = typeof PHASES[number];

/** No stall is called while a rank is in it: a full disk quota is slow, and the others wait for good reason. */
export const PATIENT: Phase = "save";

export const NUMBER_OF = Object.fromEntries(PHASES.map((phase, i) => [phase, i])) as Record<Phase, number>;
