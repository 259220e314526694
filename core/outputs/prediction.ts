// Predicts what a step takes on N ranks, before anybody has them: a model of compute, network, stragglers, saves and failures, from
// the figures of a recorded run. docs/design/scale.md has the formulas and their check. Times are in seconds.
import type { RecordedStep } from "./recorded_step.ts";

/** `alpha` is the latency of a message, `beta` the time of a byte. */
export interface Link {
  readonly alpha: number;
  readonly beta: number;
}

export interface Cluster {
  readonly between: Link;
  /** Between ranks of one node. */
  readonly within: Link;
  readonly ranksPerNode: number;
  /** Cores that an all-reduce keeps busy on each rank's host: 0 where a GPU or a network card does the work. */
  readonly busy: number;
  /** How many cores a rank has: below 1 where ranks share them. */
  readonly cores: number;
  /** Mean time between failures of one node; Infinity where none are expected. */
  readonly mtbf: number;
  /** From a failure until training goes on. */
  readonly restart: number;
  readonly bucketBytes: number;
  /** Micro-batches of a step. */
  readonly accumulation: number;
}

/** This share of forward and backward is backward. */
const BACKWARD = 2 / 3;

export interface Predicted {
  readonly ranks: number;
  readonly step: number;
  readonly samplesPerSecond: number;
  /** Against as many times one rank's samples a second. */
  readonly efficiency: number;
  /** The all-reduces take so long, and backward hides all but `exposed` of it. */
  readonly communication: number;
  readonly exposed: number;
  /** How much longer the slowest of the ranks computes than the mean. */
  readonly stragglers: number;
  /** Between two checkpoints, by Young and Daly; null where there are no failures or no saves. */
  readonly interval: number | null;
  /** The share of time that training gets beside saves, failures and what is done again. */
  readonly useful: number;
  /** Samples a second that stay. */
  readonly goodput: number;
}

/** The faster of a ring and a double tree: two passes, each of which sends nearly every byte once. */
export function allReduceSeconds(bytes: number, ranks: number, { alpha, beta }: Link): number {
  if (ranks === 1) return 0;
  const ring = 2 * (ranks - 1) * alpha + 2 * (ranks - 1) / ranks * bytes * beta;
  const tree = 2 * Math.ceil(Math.log2(ranks)) * alpha + 2 * bytes * beta;
  // Where each rank has a connection with each, a share goes to its owner and the sum comes back.
  const direct = 2 * alpha + 2 * (ranks - 1) / ranks * bytes * beta;
  return ranks <= DIRECT ? direct : Math.min(ring, tree);
}

/** More connections than this would themselves take time. */
const DIRECT = 8;

/** Ranks of a node add up among themselves first, then nodes do. */
function clusterAllReduce(bytes: number, ranks: number, cluster: Cluster): number {
  const own = Math.min(ranks, cluster.ranksPerNode), nodes = Math.ceil(ranks / cluster.ranksPerNode);
  return allReduceSeconds(bytes, own, cluster.within) + allReduceSeconds(bytes, nodes, cluster.between);
}

interface Passed {
  /** From the beginning of forward until all gradients are there. */
  readonly seconds: number;
  readonly communication: number;
}

interface Bucket {
  readonly bytes: number;
  /** The share of backward after which it is whole. */
  readonly ready: number;
}

/** Blocks take alike in backward, which goes from the last one to the first. */
export function predictedBuckets(blocks: readonly number[], least: number): Bucket[] {
  const buckets: Bucket[] = [];
  let bytes = 0;
  blocks.toReversed().forEach((more, i) => {
    bytes += more;
    if (bytes < least && i < blocks.length - 1 || bytes === 0) return;
    buckets.push({ bytes, ready: (i + 1) / blocks.length });
    bytes = 0;
  });
  return buckets;
}

/**
 * Buckets go out one after the other as soon as they are whole, and what communication computes on the host is missing to
 * backward.
 */
function passSeconds(
  compute: number,
  blocks: readonly number[],
  ranks: number,
  cluster: Cluster,
): Passed {
  if (ranks === 1) return { seconds: compute, communication: 0 };
  const last = compute / cluster.accumulation; // only the last micro-batch's backward has buckets
  const forward = compute - BACKWARD * last;
  /** A rank that has more than a core for itself computes and communicates on different ones. */
  const speed = Math.max(LEAST_SPEED, 1 - Math.max(0, cluster.busy - Math.max(0, cluster.cores - 1)));
  let now = forward, free = forward, done = 0, communication = 0;
  for (const { bytes, ready } of predictedBuckets(blocks, cluster.bucketBytes)) {
    const work = BACKWARD * last * (ready - done), under = Math.max(0, free - now);
    // Backward goes on at full speed where nothing is under way.
    now += work > under * speed ? under + work - under * speed : work / speed;
    done = ready;
    const seconds = clusterAllReduce(bytes, ranks, cluster);
    free = Math.max(free, now) + seconds;
    communication += seconds;
  }
  now += BACKWARD * last * (1 - done);
  return { seconds: Math.max(now, free), communication };
}

const LEAST_SPEED = 0.05;

/** The expected maximum of N normal deviates, in standard deviations (Blom). */
export const slowestOf = (ranks: number): number =>
  ranks === 1 ? 0 : normalQuantile((ranks - 0.375) / (ranks + 0.25));

/** Young's interval with Daly's correction; `save` holds training. */
export function checkpointInterval(save: number, mtbf: number): number {
  if (save >= 2 * mtbf) return mtbf;
  const x = save / (2 * mtbf);
  return Math.sqrt(2 * save * mtbf) * (1 + Math.sqrt(x) / 3 + x / 9) - save;
}

export function predictStep(recorded: RecordedStep, ranks: number, cluster: Cluster): Predicted {
  const { accumulation } = cluster;
  const crowded = Math.max(1, 1 / cluster.cores);
  const compute = accumulation * recorded.compute * crowded;
  const stragglers = slowestOf(ranks) * recorded.deviation * Math.sqrt(accumulation) * crowded;
  const pass = passSeconds(compute + stragglers, recorded.blocks, ranks, cluster);
  const around = (accumulation * recorded.data + recorded.between) * crowded;
  const step = pass.seconds + around;
  const samples = accumulation * recorded.samples;
  const samplesPerSecond = ranks * samples / step;
  const nodes = Math.ceil(ranks / cluster.ranksPerNode);
  const { interval, useful } = survival(recorded, cluster.mtbf / nodes, cluster.restart);
  return {
    ranks,
    step,
    samplesPerSecond,
    efficiency: samplesPerSecond * recorded.alone / (ranks * recorded.samples),
    communication: pass.communication,
    exposed: pass.seconds - compute - stragglers,
    stragglers,
    interval,
    useful,
    goodput: samplesPerSecond * useful,
  };
}

function survival(
  { save }: RecordedStep,
  mtbf: number,
  restart: number,
): Pick<Predicted, "interval" | "useful"> {
  if (save === null || !Number.isFinite(mtbf)) return { interval: null, useful: 1 };
  const interval = checkpointInterval(save.stall, mtbf);
  const lost = (interval / 2 + save.seconds + restart) / mtbf;
  return { interval, useful: Math.max(0, (1 - lost) * interval / (interval + save.stall)) };
}

interface Suggestion {
  readonly bucketMegabytes: number;
  readonly accumulation: number;
  readonly predicted: Predicted;
}

const BUCKETS = [1, 2, 4, 8, 16, 25, 50, 100], ACCUMULATIONS = [1, 2, 4, 8, 16, 32, 64];
const MEGABYTE = 2 ** 20, ENOUGH = 0.9, NEARLY = 1.01;

/** The smallest bucket within 1% of the best, and then the least accumulation with which 90% are kept. */
export function suggestCluster(recorded: RecordedStep, ranks: number, cluster: Cluster): Suggestion {
  const tries = BUCKETS.map((bucketMegabytes) => ({
    bucketMegabytes,
    step: predictStep(recorded, ranks, { ...cluster, bucketBytes: bucketMegabytes * MEGABYTE }).step,
  }));
  const best = Math.min(...tries.map(({ step }) => step));
  const { bucketMegabytes } = tries.find(({ step }) => step <= NEARLY * best)!;
  const all = ACCUMULATIONS.map((times) => {
    const accumulation = times * cluster.accumulation;
    const bucketBytes = bucketMegabytes * MEGABYTE;
    return {
      bucketMegabytes,
      accumulation,
      predicted: predictStep(recorded, ranks, { ...cluster, bucketBytes, accumulation }),
    };
  });
  return all.find(({ predicted }) => predicted.efficiency >= ENOUGH) ?? all[0];
}

/** Acklam's approximation, good to 1e-9. */
export function normalQuantile(p: number): number {
  const tail = (q: number) =>
    (((((-7.784894002430293e-3 * q - 0.3223964580411365) * q - 2.400758277161838) * q - 2.549732539343734) *
            q +
          4.374664141464968) * q + 2.938163982698783) /
    ((((7.784695709041462e-3 * q + 0.3224671290700398) * q + 2.445134137142996) * q + 3.754408661907416) * q +
      1);
  if (p < 0.02425) return tail(Math.sqrt(-2 * Math.log(p)));
  if (p > 1 - 0.02425) return -tail(Math.sqrt(-2 * Math.log(1 - p)));
  const q = p - 0.5, r = q * q;
  return (((((-39.69683028665376 * r + 220.9460984245205) * r - 275.9285104469687) * r + 138.357751867269) *
          r -
        30.66479806614716) * r + 2.506628277459239) *
    q /
    (((((-54.47609879822406 * r + 161.5858368580409) * r - 155.6989798598866) * r + 66.80131188771972) * r -
          13.28068155288572) * r + 1);
}
