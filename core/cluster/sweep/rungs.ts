// Early stopping: a run's evaluations at rungs, where it goes on or is stopped. An extension judges them. Pure.

/** Rungs are at `first`, `first * reduce`, `first * reduce^2`, ... */
export interface Rungs {
  readonly unit: "epochs" | "steps";
  readonly first: number;
  /** One of so many goes on. */
  readonly reduce: number;
}

/** It has a run's values at its rungs, and the rung at which the run was stopped. */
export interface Climb {
  readonly values: readonly number[];
  readonly stoppedAt: number | null;
}

export const BEGIN: Climb = { values: [], stoppedAt: null };

export interface TrialEvaluation {
  readonly step: number;
  readonly epoch: number;
  readonly value: number;
}

/**
 * `othersAt` gives the values of other runs at a rung; values are to be minimised. `end` is where runs end by themselves:
 * nothing is stopped there.
 */
export type Climber = (
  before: Climb,
  evaluation: TrialEvaluation,
  rungs: Rungs,
  field: { readonly end: number; readonly othersAt: (rung: number) => readonly number[] },
) => Climb;
