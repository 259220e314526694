// How long an epoch takes there and here, by the steps that were timed in both.
import { formatDuration, formatPlural } from "../base/format.ts";
import type { Proof } from "./proof.ts";
import type { Seen } from "./seen.ts";

/** Nothing is claimed of fewer steps. */
const LEAST = 5;
/** The first steps make what later ones use again. */
const WARM = 1;
/** Ours are known to a millisecond. */
const SHORTEST = 0.005;

/** Null where too little was timed, or on another kind of device. */
export function epochLine(
  { data, micro, device, times, threads, where }: Seen,
  { seconds }: Proof,
  fromData: boolean,
): string | null {
  const ours = seconds.slice(WARM);
  const endless = data.per_epoch !== undefined && data.per_epoch > (data.samples ?? Infinity); // a sampler that never ends
  if (
    device !== "cpu" || data.per_epoch === undefined || endless || Math.min(times.length, ours.length) < LEAST
  ) {
    return null;
  }
  if (median(ours) < SHORTEST) return null;
  const steps = Math.ceil(data.per_epoch / micro);
  const [there, here] = [times, ours].map((all) => formatDuration(median(all) * steps));
  return `Epoch: ${formatPlural(steps, "step")} take the script ${there}${
    where.compile === undefined ? "" : " without torch.compile"
  }, and here they take ${here}${
    fromData ? "" : " without reading the data"
  } (medians of ${times.length} and ${ours.length} steps on the CPU, ${
    formatPlural(threads, "thread")
  } each)`;
}

function median(all: readonly number[]): number {
  const sorted = all.toSorted((a, b) => a - b), middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}
