// Compares runs on more ranks with a run on the fewest: their speed by their events, beside ideal scaling.
import { join } from "../../deps/path.ts";
import { UserError } from "../base/errors.ts";
import { ownWork } from "../run/account.ts";
import { type Event, readEvents } from "../run/event_log.ts";

export interface RunSpeed {
  readonly run: string;
  readonly ranks: number;
  readonly device: string;
  readonly model: string;
  readonly samplesPerSecond: number;
  /** Shares of the training time; null where the run has no account of it. */
  readonly communication: number | null;
  readonly loader: number | null;
}

export interface Scaled extends RunSpeed {
  /** How many times faster than the run on the fewest ranks; the ideal factor; their quotient. */
  readonly speedUp: number;
  readonly ideal: number;
  readonly efficiency: number;
}

/** The speed of the run in `folder`; after a resume on other ranks, that of its last attempt. */
export function runSpeedOf(folder: string): RunSpeed {
  const all = readEvents(join(folder, "events.jsonl"));
  const begin = all.findLastIndex(({ kind }) => kind === "run");
  const events = all.slice(begin);
  const run = events[0];
  const samplesPerSecond = rateOf(events);
  if (begin < 0 || run.kind !== "run" || samplesPerSecond === null) {
    throw new UserError(
      "data",
      `${folder} does not say how fast it was: train for two epochs, or with --log-interval 10 for some seconds.`,
    );
  }
  const { run: name, world_size: ranks, device, model } = run;
  return { run: name, ranks, device, model, samplesPerSecond, ...sharesOf(events) };
}

/** The median of all epochs but the first, which warms up; with one epoch, of the later half of its steps. */
function rateOf(events: readonly Event[]): number | null {
  const rates = (kind: "epoch" | "step") =>
    events.flatMap((event) => event.kind === kind && event.samples_per_s ? [event.samples_per_s] : []);
  const epochs = rates("epoch");
  if (epochs.length > 1) return median(epochs.slice(1));
  const steps = rates("step");
  return steps.length > 1 ? median(steps.slice(steps.length >> 1)) : epochs[0] ?? null;
}

/** The shares of the slowest rank where ranks are compared, otherwise of rank 0. */
function sharesOf(events: readonly Event[]): Pick<RunSpeed, "communication" | "loader"> {
  let all = 0, communication = 0, loader = 0;
  for (const event of events) {
    if (event.kind !== "times" || event.steps === 0) continue;
    communication += event.communication_s;
    loader += event.data_s;
    all += ownWork(event) + event.communication_s - event.evaluation_s - event.save_s;
  }
  return all > 0
    ? { communication: communication / all, loader: loader / all }
    : { communication: null, loader: null };
}

/** Sorts by ranks; the run on the fewest is the measure of the others. */
export function scaling(speeds: readonly RunSpeed[]): Scaled[] {
  const sorted = speeds.toSorted((a, b) => a.ranks - b.ranks || b.samplesPerSecond - a.samplesPerSecond);
  const [base] = sorted;
  return sorted.map((speed) => {
    const ideal = speed.ranks / base.ranks;
    const speedUp = speed.samplesPerSecond / base.samplesPerSecond;
    return { ...speed, speedUp, ideal, efficiency: speedUp / ideal };
  });
}

/** A sentence about runs that can't be compared; null where they can. */
export function doubts(speeds: readonly RunSpeed[]): string | null {
  const differ = (["model", "device"] as const).filter((key) =>
    new Set(speeds.map((one) => one[key])).size > 1
  );
  return differ.length === 0
    ? null
    : `These runs differ in ${differ.join(" and ")}: they are no measure of each other.`;
}

function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b), middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}
