// `scripts/bench shards`: what --deterministic=world costs, beside the same step without it. A loop of one batch is timed, by a
// program of the benchmark's own (worker.ts), so that nothing but the shards is in the figure.
import { type Contestant, startContestant, turns } from "./contestant.ts";
import { writePage } from "./page.ts";
import { keysOf, machine, median, table, versionsOf, writeResults } from "./report.ts";
import type { Programs } from "./step.ts";
import { type Name, workloads } from "./workloads.ts";

const SHARD_ROUNDS = 5, SHARD_WARM_UP = 5;
/** Batch norm sees a shard at a time, so with it the losses are others. */
const NORMED: readonly Name[] = ["resnet18", "cosmo"];
/** Numbers of virtual shards; 0 is a run without them. */
const COUNTS = [0, 1, 4, 8];

interface MeasuredShards {
  /** Microseconds of processor time a step. */
  readonly rounds: number[];
  peak: number;
}

/** Rounds of each number of shards in turn. */
async function measureShards({ worker }: Programs, name: Name): Promise<MeasuredShards[]> {
  const steps = Math.ceil(workloads[name].steps / 2);
  const running: Contestant[] = [];
  for (const count of COUNTS) running.push(await startContestant(worker, [name, String(count)]));
  const measured = COUNTS.map((): MeasuredShards => ({ rounds: [], peak: 0 }));
  const losses: number[] = [];
  const used: number[] = [];
  for (const contestant of running) {
    const { loss, cpu = NaN } = await contestant.round(SHARD_WARM_UP);
    losses.push(loss);
    used.push(cpu);
  }
  const apart = Math.max(...losses.map((loss) => Math.abs(loss / losses[0] - 1)));
  if (!NORMED.includes(name) && apart > 1e-3) throw new Error(`${name} has the losses ${losses.join(", ")}`);
  for (const [[i, contestant]] of turns(running.entries(), SHARD_ROUNDS)) {
    const { cpu = NaN, peak } = await contestant.round(steps);
    measured[i].rounds.push(Math.round((cpu - used[i]) / steps * 1e8) / 100);
    measured[i].peak = peak;
    used[i] = cpu;
  }
  for (const contestant of running) await contestant.end();
  return measured;
}

function rowsOf(name: Name, measured: readonly MeasuredShards[]): string[][] {
  const [plain] = measured;
  return measured.map(({ rounds, peak }, i) => {
    const own = median(rounds);
    const spread = (Math.max(...rounds) - Math.min(...rounds)) / own;
    return [
      i === 0 ? workloads[name].title : "",
      i === 0 ? "off" : `${COUNTS[i]} ${COUNTS[i] === 1 ? "shard" : "shards"}`,
      own < 10_000 ? `${own.toFixed(0)} us` : `${(own / 1000).toFixed(1)} ms`,
      `${(100 * spread).toFixed(0)}%`,
      `${(own / median(plain.rounds)).toFixed(2)}x`,
      `${(peak / 2 ** 20).toFixed(0)} MB`,
    ];
  });
}

export async function shardsBenchmark(p: Programs): Promise<void> {
  const about = machine(), versions = versionsOf(p);
  const all = {} as Record<Name, MeasuredShards[]>;
  for (const name of keysOf(workloads)) {
    all[name] = await measureShards(p, name);
    for (const row of rowsOf(name, all[name])) console.log(row.join("  "));
  }
  const date = new Date().toISOString().slice(0, 10);
  const command = "./scripts/bench shards";
  writeResults("shards", { command, date, machine: about, versions, shards: COUNTS, stepMicroseconds: all });
  writePage(
    "shards",
    [
      "# The cost of --deterministic=world",
      `\`${command}\` on ${date}: ${about.cpu}, ${about.cores} cores, load ${about.load} before; libtorch ` +
      `${versions.libtorch}. Processor time of a step on one thread; one process computes all shards. Medians of ${SHARD_ROUNDS} rounds in which the numbers of ` +
      "shards take turns; spread is the slowest round less the fastest, against the median.",
      table(
        ["Training step", "--deterministic=world", "Median", "Spread", "Against off", "Peak memory"],
        keysOf(all).flatMap((name) => rowsOf(name, all[name])),
      ),
    ].join("\n\n"),
  );
}
