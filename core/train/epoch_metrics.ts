// The metrics of the epoch under way: steps add to them, ranks and virtual shards have their parts of them, and a checkpoint
// keeps their sums.
import { ofSteps } from "../data/source/rollout.ts";
import type { Outcome } from "./blocks.ts";
import type { Shards } from "./shards.ts";
import { measureOf } from "./metrics.ts";
import { itemsOf, type MicroBatch } from "./micro_batch.ts";
import { RunningMetrics } from "./running_metrics.ts";
import type { Run } from "./launch.ts";

/** The parts of a run whose metrics they are. */
interface Measured extends Pick<Run, "data" | "pass" | "cursor" | "warn"> {
  readonly gradients: { readonly shards: Shards | null };
  readonly ranks: {
    readonly team: { readonly rank: number };
    sumsOf(running: RunningMetrics): number[];
  } | null;
}

export class EpochMetrics {
  readonly #run: Measured;
  #warned = false;
  running: RunningMetrics;

  constructor(run: Measured) {
    this.#run = run;
    this.running = emptySums(run);
  }

  /** An epoch begins, or goes on from a checkpoint. */
  begin(): void {
    this.running = sumsSoFar(this.#run);
  }

  observe({ output, loss }: Outcome, batch: MicroBatch): void {
    const { target, shard: part } = batch;
    this.running.observe({ output, target, loss, items: this.itemsOf(batch), part });
  }

  itemsOf(batch: MicroBatch): number {
    const items = itemsOf(batch, this.#run.pass.loss);
    if (items === 0) this.warnEmpty(); // it is computed only where the whole step has none
    return items;
  }

  /** A step without any target that counts is told once. */
  warnEmpty(): void {
    if (this.#warned) return;
    this.#warned = true;
    const { cursor, warn } = this.#run, step = cursor.step + 1;
    const none = `Step ${step} has no target that counts: all are missing or of the ignored class`;
    warn(`${none}, so its gradient is zero. Later ones are not reported.`, step);
  }

  /** The weights that had learnt from it are gone. */
  forget(): void {
    this.running.close();
    this.running = emptySums(this.#run);
  }

  /** A save has the sums of all ranks. Every rank calls it. */
  keep(): void {
    this.#run.cursor.sums = sumsOf(this.#run, this.running);
  }

  /** From what was kept, of all ranks. */
  result() {
    return wholeMetrics(this.#run, this.running, this.#run.cursor.sums).result();
  }
}

/** With --deterministic=world each virtual shard has its own sums, which are added in the tree's order. */
export const emptySums = (
  { data: { train }, gradients: { shards }, pass }: Pick<Measured, "data" | "gradients" | "pass">,
): RunningMetrics =>
  new RunningMetrics(
    measureOf(pass.rollout ? ofSteps(train, pass.rollout.steps, pass.rollout.most) : train, {
      loss: pass.loss,
      full: false,
      own: pass.metrics,
    }),
    shards?.count ?? 1,
  );

export function sumsSoFar(run: Measured): RunningMetrics {
  const { cursor, gradients: { shards }, ranks } = run, running = emptySums(run);
  if (cursor.stepInEpoch === 0) return running;
  const all = cursor.sums, rank = ranks?.team.rank ?? 0;
  const same = shards && all.length === running.sums().length; // the run may have had other shards
  running.restore(same ? ownPart(all, shards) : rank === 0 ? all : []);
  return running;
}

/** Every rank calls it. */
export const sumsOf = ({ ranks }: Pick<Measured, "ranks">, running: RunningMetrics): number[] =>
  ranks?.sumsOf(running) ?? running.sums();

/** `sums` are those of all ranks. */
export function wholeMetrics(
  run: Measured,
  running: RunningMetrics,
  sums: readonly number[],
): RunningMetrics {
  if (!run.ranks) return running;
  const whole = emptySums(run);
  whole.restore(sums);
  return whole;
}

function ownPart(sums: readonly number[], { count, own: { from, to } }: Shards): readonly number[] {
  const size = sums.length / count;
  return sums.map((value, i) => i >= from * size && i < to * size ? value : 0);
}
