// An epoch's running metrics where virtual shards and ranks keep parts of them: begun, gone on with, put together. May
// import its siblings.
import { type RunningMetrics, runningMetrics } from "./metrics.ts";
import type { Run } from "./run.ts";
import { metricsOfShards } from "./shard_metrics.ts";
import type { VirtualShards } from "./virtual_shards.ts";

export function emptySums({ train: { facts }, step: { shards, pass } }: Run): RunningMetrics {
  const metrics = () => runningMetrics(facts, pass.loss, false, pass.metrics);
  return shards ? metricsOfShards(shards, metrics) : metrics();
}

/** With what a checkpoint says of the epoch, where the run goes on within it. */
export function sumsSoFar(run: Run): RunningMetrics {
  const { cursor, step: { shards }, together } = run;
  const running = emptySums(run);
  if (cursor.stepInEpoch > 0) running.restore(ownPart(cursor.sums, shards, together?.team.rank ?? 0));
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

/** Of the sums of all ranks in a checkpoint, what this one goes on with: its own shards', or all on rank 0. */
function ownPart(
  sums: readonly number[],
  shards: VirtualShards | null | undefined,
  rank: number,
): readonly number[] {
  const size = shards ? sums.length / shards.count : NaN;
  if (!shards || !Number.isInteger(size)) return rank === 0 ? sums : [];
  const { from, to } = shards.own;
  return sums.map((value, i) => i >= from * size && i < to * size ? value : 0);
}
