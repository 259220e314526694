// Judges measurements by comparing ranks and nodes, and merges the findings of nodes. Pure.
import { formatBytes, formatDuration, formatPlural, formatRate } from "../../../base/format.ts";
import { bad, type Finding, good, warn } from "../check.ts";
import { speedOf, type StorageProbe } from "../storage.ts";

interface Judged {
  readonly lines: Finding[];
  readonly exclude: string[];
}

/** Unit: the speed of the median rank. */
const SLOW_DEVICE = 0.7, SLOW_LINK = 0.5, SLOW_DISK = 0.25;
/** Below these bytes a second between nodes, training always waits for the network. */
const SLOW_NETWORK = 100e6;
/** Seconds. */
const MOST_SKEW = 1, SHORT_WRITE = 1;

export function judgeResults(results: Results): Judged {
  const { ranks, pairs, left, all } = results;
  const hosts = [...new Set(ranks.map(({ host }) => host))];
  const judged = [
    judgeDevices(ranks, hosts),
    judgePairs(pairs, left, hosts),
    judgeAll(all, ranks.length, hosts.length),
    judgeWrites(ranks, hosts),
    judgeClocks(ranks, hosts),
  ];
  return {
    lines: judged.flatMap(({ lines }) => lines),
    exclude: [...new Set(judged.flatMap(({ exclude }) => exclude))],
  };
}

const leaveOut = (nodes: readonly string[], hosts: readonly string[]): string =>
  hosts.length > nodes.length
    ? `Leave it out: --exclude=${nodes.join(",")}.`
    : "Look at what else runs there (top, nvidia-smi or rocm-smi), and whether it is throttled.";

function judgeDevices(ranks: readonly RankResult[], hosts: readonly string[]): Judged {
  const lines: Finding[] = [], exclude: string[] = [];
  for (const { rank, host, device, same } of ranks.filter(({ same }) => !same)) {
    lines.push(bad(
      "matmul",
      `rank ${rank} on ${host} gets other bits from the same product on ${device}: its memory or device is faulty`,
      `${leaveOut([host], hosts)} Tell the site.`,
    ));
    if (!same) exclude.push(host);
  }
  for (const kind of new Set(ranks.map(({ device }) => kindOf(device)))) {
    const of = ranks.filter(({ device }) => kindOf(device) === kind);
    const middle = median(of.map(({ gflops }) => gflops));
    for (const { rank, host, gflops } of of.filter(({ gflops }) => gflops < SLOW_DEVICE * middle)) {
      lines.push(warn(
        "matmul",
        `rank ${rank} on ${host} is slow: ${rate(gflops)} on its ${kind}, where the middle rank does ${
          rate(middle)
        }`,
        leaveOut([host], hosts),
      ));
      exclude.push(host);
    }
    if (lines.length === 0) {
      const ends = [Math.min(...of.map(({ gflops }) => gflops)), Math.max(...of.map(({ gflops }) => gflops))];
      const range = of.length === 1 ? rate(middle) : `${rate(ends[0])} to ${rate(ends[1])} a rank`;
      lines.push(good("matmul", `${range}, f32 on ${formatPlural(of.length, kind)}`));
    }
  }
  return { lines, exclude: hosts.length > 1 ? exclude : [] };
}

const kindOf = (device: string): string => device === "cpu" ? "CPU" : "GPU";
const rate = (gflops: number): string =>
  gflops >= 1000 ? `${formatRate(gflops / 1000)} TFLOP/s` : `${formatRate(gflops)} GFLOP/s`;

function judgePairs(pairs: readonly PairResult[], left: number, hosts: readonly string[]): Judged {
  if (pairs.length === 0) return { lines: [], exclude: [] };
  const lines: Finding[] = [], exclude: string[] = [];
  for (const { nodes } of pairs.filter(({ right }) => !right)) {
    lines.push(bad(
      "pairs",
      `the sum of ${nodes.join(" and ")} is wrong: the network between them, or a library, changes data`,
      `Try each with another: --exclude=${nodes[0]}, then --exclude=${nodes[1]}. Tell the site.`,
    ));
  }
  const speed = ({ bytes, seconds }: PairResult) => bytes / seconds;
  const middle = median(pairs.map(speed));
  // Among two or three nodes each is in most of the pairs, so none stands out.
  const slow = hosts.length < 4 ? [] : hosts.filter((host) => {
    const own = pairs.filter(({ nodes }) => nodes.includes(host));
    const others = pairs.filter(({ nodes }) => !nodes.includes(host));
    return own.length > 0 && others.length > 0 &&
      Math.max(...own.map(speed)) < SLOW_LINK * median(others.map(speed));
  });
  for (const host of slow) {
    const best = Math.max(...pairs.filter(({ nodes }) => nodes.includes(host)).map(speed));
    lines.push(warn(
      "pairs",
      `${host} is slow with every other node: ${gigabytes(best)} at best, where the middle pair does ${
        gigabytes(middle)
      }`,
      leaveOut([host], hosts),
    ));
    exclude.push(host);
  }
  const crawling = pairs.filter((pair) =>
    speed(pair) < SLOW_NETWORK && !pair.nodes.some((node) => slow.includes(node))
  );
  if (crawling.length > 0) {
    const [first] = crawling.toSorted((a, b) => speed(a) - speed(b));
    lines.push(warn(
      "pairs",
      `${formatPlural(crawling.length, "pair")} of nodes talk slowly, ${first.nodes.join(" and ")} at ${
        gigabytes(speed(first))
      }`,
      "Is it the fast network that is used? NCCL_SOCKET_IFNAME names an interface, --network infiniband the adapters.",
    ));
  }
  if (lines.length === 0) {
    const rest = left > 0 ? `; no time for ${formatPlural(left, "pair")} more` : "";
    lines.push(good(
      "pairs",
      `${formatPlural(pairs.length, "pair")} of nodes, ${gigabytes(Math.min(...pairs.map(speed)))} to ${
        gigabytes(Math.max(...pairs.map(speed)))
      }${rest}`,
    ));
  }
  return { lines, exclude };
}

const gigabytes = (perSecond: number): string => `${formatRate(perSecond / 1e9)} GB/s`;

function judgeAll(all: Results["all"], ranks: number, nodes: number): Judged {
  if (all.length === 0) return { lines: [], exclude: [] };
  const ends = [...new Set([all[0], all[all.length - 1]])];
  const each = ends.map(({ bytes, seconds }, i) =>
    `${formatBytes(bytes)} in ${formatTime(seconds)}${i === 0 ? "" : ` (${gigabytes(bytes / seconds)})`}`
  );
  const where = `${formatPlural(ranks, "rank")} on ${formatPlural(nodes, "node")}`;
  return { lines: [good("all-reduce", `${each.join(", ")} by ${where}`)], exclude: [] };
}

const formatTime = (seconds: number): string =>
  seconds < 0.001
    ? `${formatRate(1e6 * seconds)} us`
    : seconds < 1
    ? `${formatRate(1e3 * seconds)} ms`
    : formatDuration(seconds);

function judgeWrites(ranks: readonly RankResult[], hosts: readonly string[]): Judged {
  const tried = ranks.flatMap(({ rank, host, write }) => write ? [{ rank, host, write }] : []);
  if (tried.length === 0) return { lines: [], exclude: [] };
  const failed = tried.filter(({ write }) => write.refused !== null);
  const speeds = tried.filter(({ write }) => write.refused === null)
    .map(({ rank, host, write }) => ({
      rank,
      host,
      speed: speedOf(write),
      seconds: write.writeSeconds + write.syncSeconds,
    }));
  const lines: Finding[] = [], exclude: string[] = [];
  for (const { rank, host, write } of failed) {
    lines.push(bad(
      "writes",
      `rank ${rank} on ${host} can't write to the run's folder (${write.refused})`,
      failed.length === tried.length
        ? "Name another folder with --save-dir."
        : `It may not be mounted there. ${leaveOut([host], hosts)}`,
    ));
    if (failed.length < tried.length) exclude.push(host);
  }
  const middle = speeds.length > 0 ? median(speeds.map(({ speed }) => speed)) : 0;
  for (const { rank, host, speed, seconds } of speeds) {
    if (speed >= SLOW_DISK * middle || seconds < SHORT_WRITE) continue;
    lines.push(warn(
      "writes",
      `rank ${rank} on ${host} writes ${formatBytes(speed)}/s, where the middle rank does ${
        formatBytes(middle)
      }/s`,
      leaveOut([host], hosts),
    ));
    exclude.push(host);
  }
  if (lines.length === 0) {
    const sum = speeds.reduce((total, { speed }) => total + speed, 0);
    const together = speeds.length > 1 ? `, ${formatPlural(speeds.length, "rank")} together` : "";
    lines.push(good("writes", `${formatBytes(sum)}/s with fsync${together}`));
  }
  return { lines, exclude: hosts.length > 1 ? exclude : [] };
}

function judgeClocks(ranks: readonly RankResult[], hosts: readonly string[]): Judged {
  if (hosts.length < 2) return { lines: [], exclude: [] };
  const skewed = ranks.filter(({ ahead, unsure }) => Math.abs(ahead) - unsure > MOST_SKEW);
  const odd = hosts.map((host) => skewed.find((rank) => rank.host === host)).filter((rank) =>
    rank !== undefined
  );
  if (odd.length === 0) {
    const most = Math.max(...ranks.map(({ ahead }) => Math.abs(ahead)));
    const unsure = Math.max(...ranks.map(({ unsure }) => unsure));
    return {
      lines: [
        good("clocks", `within ${formatTime(most + unsure)} on ${formatPlural(hosts.length, "node")}`),
      ],
      exclude: [],
    };
  }
  const lines = odd.map(({ host, ahead }) =>
    warn(
      "clocks",
      `the clock of ${host} is ${formatDuration(Math.abs(ahead))} ${
        ahead > 0 ? "ahead of" : "behind"
      } that of ${hosts[0]}`,
      "Have it set (chronyc makestep): logs and the choice of the newest checkpoint go by clocks.",
    )
  );
  return { lines, exclude: [] };
}

/** The upper of two middle values counts, because the good ones are the measure. */
function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[values.length >> 1];
}

export interface NodeFindings {
  readonly host: string;
  readonly lines: readonly Finding[];
  readonly libtorch: string;
}

/** The first node's good lines stand for all. Training would fail on the nodes in `exclude` alone. */
export function mergeNodes(nodes: readonly NodeFindings[]): { lines: Finding[]; exclude: string[] } {
  const [first, ...others] = nodes;
  if (others.length === 0) return { lines: [...first.lines], exclude: [] };
  const merged = new Map<string, { line: Finding; hosts: string[] }>();
  for (const { host, lines } of nodes) {
    for (const line of lines) {
      const key = JSON.stringify([line.name, line.state, line.said.replaceAll(host, "NODE")]);
      const entry = merged.get(key) ?? { line, hosts: [] };
      entry.hosts.push(host);
      merged.set(key, entry);
    }
  }
  const entries = [...merged.values()].filter(({ line, hosts }) =>
    line.state !== "good" || hosts[0] === first.host
  );
  const lines = entries.map(({ line, hosts }) => {
    if (line.state === "good") return line;
    const on = hosts.length === nodes.length ? `on all ${nodes.length} nodes` : `on ${hosts.join(", ")}`;
    return { ...line, said: `${on}: ${line.said}` };
  });
  const own = entries.filter(({ line, hosts }) => line.state === "bad" && hosts.length < nodes.length);
  return { lines, exclude: [...new Set(own.flatMap(({ hosts }) => hosts))] };
}

export interface RankResult {
  readonly rank: number;
  readonly host: string;
  readonly device: string;
  /** Unit: 1e9 multiplications and additions a second, in f32. */
  readonly gflops: number;
  /** The same product came out twice as the same bits. */
  readonly same: boolean;
  /** All ranks write files at once; null where nothing was tried. */
  readonly write: StorageProbe | null;
  /** Its clock is ahead of rank 0's by these seconds, with this uncertainty. */
  readonly ahead: number;
  readonly unsure: number;
}

export interface PairResult {
  readonly nodes: readonly [string, string];
  readonly bytes: number;
  readonly seconds: number;
  readonly right: boolean;
}

export interface AllResult {
  readonly bytes: number;
  readonly seconds: number;
}

export interface Results {
  readonly ranks: readonly RankResult[];
  readonly pairs: readonly PairResult[];
  /** Time ran out before these pairs. */
  readonly left: number;
  readonly all: readonly AllResult[];
  readonly seconds: number;
}
