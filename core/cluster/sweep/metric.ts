// The metric that runs are compared by: what a run's events say of it.
import { join } from "../../../deps/path.ts";
import { UserError } from "../../base/errors.ts";
import { pathExists } from "../../base/files.ts";
import { modeOf } from "../../run/best.ts";
import { readEvents } from "../../run/event_log.ts";
import type { Event } from "../../run/events.ts";
import { readRun, type RunData } from "../../run/run_data.ts";
import { noted, type Validation } from "../../run/validation.ts";

export type Goal = "minimize" | "maximize";

export function goalOf(metric: string, given?: string): Goal {
  if (given === undefined) return modeOf(metric) === "max" ? "maximize" : "minimize";
  if (given === "minimize" || given === "maximize") return given;
  throw new UserError("usage", `--goal should be minimize or maximize, but got "${given}".`);
}

/** It is that of the best evaluation, whose weights the best checkpoint holds. */
export function metricOf({ best, bestMetrics, curves }: RunData, metric: string): number | null {
  if (metric === "train_loss") return curves.get("epoch_loss")?.last ?? null;
  if (metric.startsWith("train_")) return curves.get(metric)?.last ?? null;
  const name = metric.replace(/^val_/, "");
  return name === "loss" ? best?.loss ?? null : bestMetrics[name] ?? null;
}

/** Null where the event does not tell. */
export function evaluationOf(event: Event, metric: string): TrialEvaluation | null {
  const value = metric.startsWith("train_") ? ofEpoch(event, metric) : ofValidation(event, metric);
  if (value === undefined || (event.kind !== "eval" && event.kind !== "epoch")) return null;
  return { step: event.step, epoch: event.epoch, value };
}

function ofEpoch(event: Event, metric: string): number | undefined {
  if (event.kind !== "epoch") return undefined;
  return metric === "train_loss" ? event.loss : event.metrics?.[metric.slice("train_".length)];
}

function ofValidation(event: Event, metric: string): number | undefined {
  if (event.kind !== "eval") return undefined;
  const name = metric.replace(/^val_/, "");
  return name === "loss" ? event.val_loss : event.metrics?.[name];
}

export function evaluationsOf(folder: string, metric: string): TrialEvaluation[] {
  const path = join(folder, "events.jsonl");
  if (!pathExists(path)) return [];
  return readEvents(path).flatMap((event) => evaluationOf(event, metric) ?? []);
}

interface Measured {
  readonly validation?: Validation;
  /** Null where it is not finite. */
  readonly value: number | null;
  readonly step: number;
  readonly epoch: number | null;
  readonly exit: RunData["exit"];
}

/** Null where a run has not begun. */
export function measuredOf(folder: string, metric: string): Measured | null {
  if (!pathExists(join(folder, "events.jsonl"))) return null;
  const data = readRun(folder);
  const value = metricOf(data, metric);
  return {
    value: value !== null && Number.isFinite(value) ? value : null,
    step: data.step,
    epoch: data.best?.epoch ?? null,
    exit: data.exit,
    ...noted(data.run),
  };
}

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
