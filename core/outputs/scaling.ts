import { join } from "../../deps/path.ts";
import { UserError } from "../base/errors.ts";
import { ownWork } from "../run/account.ts";
import { type Event, readEvents } from "../run/event_log.ts";

interface RunSpeed {
  readonly run: string;
  readonly ranks: number;
  readonly device: string;
  readonly model: string;
  readonly samplesPerSecond: number;
  /** Shares of the training time; null where the run did not record it. */
  readonly communication: number | null;
  readonly loader: number | null;
}

export interface Scaled extends RunSpeed {
  readonly speedUp: number;
  readonly ideal: number;
  readonly efficiency: number;
}

/** After a resume on other ranks the last attempt counts. */
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

/** The first epoch warms up; of a single epoch, the later half of the steps counts. */
function rateOf(events: readonly Event[]): number | null {
  const rates = (kind: "epoch" | "step") =>
    events.flatMap((event) => event.kind === kind && event.samples_per_s ? [event.samples_per_s] : []);
  const epochs = rates("epoch");
  if (epochs.length > 1) return median(epochs.slice(1));
  const steps = rates("step");
  return steps.length > 1 ? median(steps.slice(steps.length >> 1)) : epochs[0] ?? null;
}

/** The slowest rank's shares count where ranks are compared, otherwise rank 0's. */
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

export function scaling(speeds: readonly RunSpeed[]): Scaled[] {
  const sorted = speeds.toSorted((a, b) => a.ranks - b.ranks || b.samplesPerSecond - a.samplesPerSecond);
  const [base] = sorted;
  return sorted.map((speed) => {
    const ideal = speed.ranks / base.ranks;
    const speedUp = speed.samplesPerSecond / base.samplesPerSecond;
    return { ...speed, speedUp, ideal, efficiency: speedUp / ideal };
  });
}

/** Returns null where the runs can be compared. */
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
