// `hpctrain bench scaling RUN --predict 1..4096`: what a recorded run would do on more ranks than there are.
import { EXIT, messageOf, UserError } from "../../core/base/errors.ts";
import { formatRate } from "../../core/base/format.ts";
import {
  type Cluster,
  type Link,
  type Predicted,
  predictStep,
  suggestCluster,
} from "../../core/outputs/prediction.ts";
import { type RecordedStep, recordedStepOf } from "../../core/outputs/recorded_step.ts";
import { findRun } from "../../core/run/run_data.ts";
import { resolveSettings } from "../../core/settings/resolve.ts";
import type { OPTIONS } from "../bench.ts";
import type { AllReduceTiming } from "../../core/ranks/team.ts";

const USAGE =
  "hpctrain bench scaling RUN --predict 1..4096 --network alpha=5us,beta=25GB/s [--ranks-per-node N] " +
  "[--cores-per-rank N] [--mtbf DAYS] [--json]";

type Given = { readonly [K in keyof typeof OPTIONS]: string | undefined };

const MOST_RANKS = 2 ** 20;
const DAY = 86_400, MEGABYTE = 2 ** 20;
/** Until a job whose node failed is in the queue, starts and has read its checkpoint. */
const RESTART = 300;

export function benchPrediction(argv: string[], given: Given): number {
  const { config, positionals } = resolveSettings({
    argv,
    env: Deno.env.toObject(),
    positionals: 2,
    usage: USAGE,
  });
  const [, name] = positionals;
  if (name === undefined) {
    throw new UserError("usage", `--predict needs the name of a recorded run. Usage: ${USAGE}`);
  }
  const recorded = recordedStepOf(findRun(name, config.output.save_dir));
  const cluster = clusterOf(given);
  const rows = parseRanks(given.predict!).map((ranks) => predictStep(recorded, ranks, cluster));
  const most = rows[rows.length - 1].ranks, suggestion = suggestCluster(recorded, most, cluster);
  if (config.output.json) {
    console.log(JSON.stringify({ bench: "scaling", recorded, cluster, predicted: rows, suggestion }));
    return EXIT.done;
  }
  for (const line of linesOf(recorded, rows)) console.log(line);
  const { bucketMegabytes, accumulation, predicted } = suggestion;
  console.log(
    `On ${most} ranks: --bucket-mb ${bucketMegabytes} and ${
      accumulation === 1 ? "no accumulation" : `accumulation of ${accumulation}`
    } ` +
      `keep ${percent(predicted.efficiency)}${
        predicted.interval === null
          ? ""
          : `; a checkpoint every ${Math.round(predicted.interval)} s (Young/Daly)`
      }.`,
  );
  const broken = rows.find(({ efficiency }) => efficiency < HALF);
  if (broken) console.log(`From ${broken.ranks} ranks on less than half of what is paid for trains.`);
  return EXIT.done;
}

const HALF = 0.5;

function clusterOf(given: Given): Cluster {
  const network = given.network === undefined ? null : linkIn(given.network, "--network");
  if (network === null && given.measured === undefined) {
    throw new UserError(
      "usage",
      "A prediction needs the network: --network alpha=5us,beta=25GB/s, or --measured FILE with what `bench allreduce --json` " +
        `printed on two nodes. Usage: ${USAGE}`,
    );
  }
  const between = network ?? measuredLink(given.measured!);
  return {
    between,
    within: linkIn(given["node-network"] ?? "alpha=2us,beta=100GB/s", "--node-network"),
    busy: between.busy,
    ranksPerNode: numberIn(given["ranks-per-node"] ?? "1", "--ranks-per-node"),
    cores: numberIn(given["cores-per-rank"] ?? "1", "--cores-per-rank"),
    mtbf: given.mtbf === undefined ? Infinity : DAY * numberIn(given.mtbf, "--mtbf"),
    restart: RESTART,
    bucketBytes: MEGABYTE * numberIn(given.bucket ?? "25", "--bucket"),
    accumulation: numberIn(given.accumulate ?? "1", "--accumulate"),
  };
}

type BusyLink = Link & { readonly busy: number };

function measuredLink(path: string): BusyLink {
  let text: string;
  try {
    text = Deno.readTextFileSync(path);
    const { ranks, measured } = JSON.parse(text.split("\n").find((line) => line.startsWith("{")) ?? "");
    return { ...fittedLink(measured, ranks), busy: 0 };
  } catch (error) {
    throw new UserError(
      "data",
      `--measured ${path} is not what \`bench allreduce --json\` prints: ${messageOf(error)}.`,
    );
  }
}

const TIMES: Readonly<Record<string, number>> = { ns: 1e-9, us: 1e-6, ms: 1e-3, s: 1 };
const RATES: Readonly<Record<string, number>> = {
  "MB/s": 1e6,
  "GB/s": 1e9,
  "Mbit/s": 1e6 / 8,
  "Gbit/s": 1e9 / 8,
};

/** "alpha=5us,beta=25GB/s,busy=0.3" */
function linkIn(text: string, flag: string): BusyLink {
  const link: Record<string, number> = { busy: 0 };
  for (const word of text.split(",")) {
    const [, name, number, unit] = /^\s*(alpha|beta|busy)=([\d.]+)\s*([A-Za-z/]*)\s*$/.exec(word) ?? [];
    const scale = name === "alpha"
      ? TIMES[unit]
      : name === "beta"
      ? RATES[unit]
      : unit === ""
      ? 1
      : undefined;
    if (scale === undefined || !(Number(number) > 0)) throw noLink(word, flag);
    link[name] = name === "beta" ? 1 / (Number(number) * scale) : Number(number) * scale;
  }
  const { alpha, beta, busy } = link;
  if (alpha === undefined || beta === undefined) throw noLink(text, flag);
  return { alpha, beta, busy };
}

const noLink = (word: string, flag: string) =>
  new UserError(
    "usage",
    `${flag} has "${word}" in it: a latency and a rate are expected, such as alpha=5us,beta=25GB/s (ns, us, ms; MB/s, GB/s, Mbit/s, ` +
      "Gbit/s), and busy=0.3 where communication takes so much of a core.",
  );

function numberIn(text: string, flag: string): number {
  const number = Number(text);
  if (number > 0 && Number.isFinite(number)) return number;
  throw new UserError("usage", `${flag} needs a number above 0, but got "${text}".`);
}

/** "1..4096" doubles. */
function parseRanks(text: string): number[] {
  const range = /^(\d+)\.\.(\d+)$/.exec(text);
  const ranks = text.split(",").map(Number);
  if (range) {
    const [from, to] = [Number(range[1]), Number(range[2])];
    ranks.length = 0;
    for (let n = from; n < to && n > 0; n *= 2) ranks.push(n);
    ranks.push(to);
  }
  if (ranks.every((n) => Number.isInteger(n) && n >= 1 && n <= MOST_RANKS)) return ranks;
  throw new UserError(
    "usage",
    `--predict needs numbers of ranks, such as 1..4096 or 8,64,512, but got "${text}".`,
  );
}

const percent = (share: number): string => `${(100 * share).toFixed(1)}%`;
const milliseconds = (seconds: number): string => `${formatRate(1000 * seconds)} ms`;

function linesOf(recorded: RecordedStep, rows: readonly Predicted[]): string[] {
  const line = (...cells: string[]) => cells.map((cell) => cell.padStart(14)).join("");
  return [
    `Predicted from ${recorded.run}: ${
      milliseconds(recorded.alone)
    } a step of ${recorded.samples} samples, ` +
    `${formatRate(recorded.gradientBytes / 1e6)} MB of gradients.`,
    line("ranks", "a step", "samples/s", "efficiency", "network", "not hidden", "stragglers", "goodput"),
    ...rows.map((row) =>
      line(
        `${row.ranks}`,
        milliseconds(row.step),
        formatRate(row.samplesPerSecond),
        percent(row.efficiency),
        milliseconds(row.communication),
        milliseconds(row.exposed),
        milliseconds(row.stragglers),
        formatRate(row.goodput),
      )
    ),
  ];
}

// The latency and the rate of a network, from measured all-reduces.

interface FittedLink {
  readonly alpha: number;
  readonly beta: number;
}

/** Sizes from here on are of a bucket's kind: caches and single packets matter less. */
const LONG = 2 ** 20;

/**
 * A line through times by bytes, in which each size counts by its own share and not by its length. Two ranks send each other
 * half of the sums twice, and more ranks 2 (n - 1) / n of them.
 */
export function fittedLink(
  measured: readonly Pick<AllReduceTiming, "bytes" | "seconds">[],
  ranks: number,
): FittedLink {
  const long = measured.filter(({ bytes }) => bytes >= LONG);
  const points = long.length >= 2 ? long : measured;
  const factor = 2 * (ranks - 1) / ranks;
  // Least squares of (a + b x - t) / t.
  let [w, wx, wxx, wt, wxt] = [0, 0, 0, 0, 0];
  for (const { bytes, seconds } of points) {
    const weight = 1 / seconds ** 2, x = factor * bytes;
    w += weight;
    wx += weight * x;
    wxx += weight * x * x;
    wt += weight * seconds;
    wxt += weight * x * seconds;
  }
  const beta = (w * wxt - wx * wt) / (w * wxx - wx * wx);
  const both = Math.max(0, (wt - beta * wx) / w);
  return { alpha: both / 2, beta };
}
