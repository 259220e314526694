// An epoch's running metrics where virtual shards and ranks keep parts of them: begun, gone on with, put together. May
// import its siblings.
import { measureOf } from "./metrics.ts";
import type { Run } from "./run.ts";
import { type RunningMetrics, runningMetrics } from "./running_metrics.ts";
import type { VirtualShards } from "./virtual_shards.ts";

/** With --deterministic=world the sums of each virtual shard are kept apart, and added up in the tree's order. */
export const emptySums = ({ train, step: { shards, pass } }: Run): RunningMetrics =>
  runningMetrics(measureOf(train, { loss: pass.loss, full: false, own: pass.metrics }), shards?.count ?? 1);

/** With what a checkpoint says of the epoch, where the run goes on within it. */
export function sumsSoFar(run: Run): RunningMetrics {
  const { cursor, step: { shards }, together } = run;
  const running = emptySums(run);
  if (cursor.stepInEpoch === 0) return running;
  const all = cursor.sums, rank = together?.team.rank ?? 0;
  const same = shards && all.length === running.sums().length; // else from a run that was cut into other shards
  running.restore(same ? ownPart(all, shards) : rank === 0 ? all : []);
  return running;
}

/** Of all ranks, each of which has to call it. */
export const sumsOf = ({ together }: Run, running: RunningMetrics): number[] =>
  together?.sumsOf(running) ?? running.sums();

/** The metrics of all ranks; `sums` are theirs. */
export function wholeOf(run: Run, running: RunningMetrics, sums: readonly number[]): RunningMetrics {
  if (!run.together) return running;
  const whole = emptySums(run);
  whole.restore(sums);
  return whole;
}

/** Of the sums of all shards in a checkpoint those of this rank's own. */
function ownPart(sums: readonly number[], { count, own: { from, to } }: VirtualShards): readonly number[] {
  const size = sums.length / count;
  return sums.map((value, i) => i >= from * size && i < to * size ? value : 0);
}
