// `doctor --full` on several ranks: they measure at the same time, and rank 0 gathers the results.
import { join } from "../../../../deps/path.ts";
import { cudaUuid } from "../../../../ffi/cuda.ts";
import { remove } from "../../../base/atomic.ts";
import { parseDuration } from "../../../settings/setting.ts";
import type { Origin } from "../../../settings/values.ts";
import type { Config } from "../../../settings/settings.ts";
import { BACKEND_NAMES, type Collectives } from "../../../ranks/collectives.ts";
import type { Control } from "../../../ranks/control/control.ts";
import { type FirstError, JobFailed, rankOnHost } from "../../../ranks/control/failure.ts";
import { withRanks } from "../../../ranks/session.ts";
import type { Team } from "../../../ranks/team.ts";
import type { RankContext } from "../../../ranks/context.ts";
import { UserError } from "../../../base/errors.ts";
import { pathExists } from "../../../base/files.ts";
import { VERSION } from "../../../base/version.ts";
import type { MachineFacts } from "../examine.ts";
import { bad, type Finding, good } from "../check.ts";
import { measureAll, measureSkew } from "./speeds.ts";
import { judgeResults, mergeNodes, type NodeFindings, type RankResult, type Results } from "./judge.ts";
import { measurePairs, openSubGroups, openTimeLimit, type TimeLimit } from "./pairs.ts";
import {
  canWrite,
  deviceSpeed,
  lostFinding,
  type MeasureOutcome,
  type Ready,
  timeFinding,
  writeProbe,
} from "./measure.ts";

export interface RanksOptions {
  readonly config: Config;
  readonly backendFrom: Origin;
  readonly env: Record<string, string>;
  readonly where: RankContext;
  readonly ready: Ready;
  readonly lines: readonly Finding[];
  readonly facts: MachineFacts | null;
  readonly began: number;
}

/**
 * Seconds for all ranks to come (or --timeout), for each rank's measurements, for all pairs, and for all
 * ranks.
 */
const ARRIVE = 20, OWN = 25, PAIRS = 12, ALL = 15;
/** Rank 0 needs this long to print the failure: MPI's launchers kill the others when one ends with any code but 0. */
const NOTIFY_MS = 1500;

export async function measureRanks(options: RanksOptions): Promise<MeasureOutcome> {
  const logs = join(options.config.output.save_dir, "logs");
  const made = options.where.rank === 0 && !pathExists(logs);
  try {
    return await measureInSession(options);
  } finally {
    // The folder stays where somebody has put something into it.
    if (made && pathExists(logs)) remove(logs);
  }
}

interface Gathered {
  control: Control | null;
  nodes: readonly NodeFindings[];
  ranks: readonly RankResult[];
}

async function measureInSession(options: RanksOptions): Promise<MeasureOutcome> {
  const { where, config, backendFrom, env, ready: { device, libtorch, broken } } = options;
  const { distributed } = config, logs = join(config.output.save_dir, "logs");
  const gathered: Gathered = { control: null, nodes: [], ranks: [] };
  const limit = openTimeLimit();
  try {
    return await withRanks({
      where,
      config: { ...config, distributed: { ...distributed, debug: "off" } },
      device,
      libtorch: { versionText: libtorch },
      env,
      backendFrom,
      control: {
        folder: where.nodes === 1 ? null : logs, // the run's folder may be what is wrong
        device: device === "cpu" ? null : cudaUuid(Number(device.slice("cuda:".length))),
        versions: { hpctrain: VERSION },
        settings: { doctor: true },
        timeout: patience(config),
      },
      timeLimit: limit.over,
      checkRank(control) {
        gathered.control = control;
        if (broken !== null) throw new UserError("environment", broken);
        control.barrier("doctor: devices");
      },
    }, ({ team, control }) => work(options, gathered, { team, limit, hosts: control.hosts }));
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    return gathered.control
      ? await afterFailure(error, options, gathered, gathered.control)
      : beforeRanksMet(error, options, gathered);
  }
}

const patience = ({ distributed }: Config): number =>
  Math.min(ARRIVE, parseDuration(distributed.timeout, "seconds")!.count);

function beforeRanksMet(error: UserError, options: RanksOptions, gathered: Gathered): MeasureOutcome {
  const { where } = options;
  if (where.rank > 0) throw new UserError("communication", `On ${Deno.hostname()}: ${error.message}`);
  return unfinished(options, gathered, error.message, neverArrived(error, where));
}

async function afterFailure(
  error: UserError,
  options: RanksOptions,
  gathered: Gathered,
  control: Control,
): Promise<MeasureOutcome> {
  const { where: { rank }, ready, lines, facts } = options;
  if (rank > 0) {
    await new Promise((resolve) => setTimeout(resolve, NOTIFY_MS));
    return { rank, lines: [lostFinding(error.message, [])], facts, measured: null, exclude: [] };
  }
  if (ready.broken !== null) return { rank, lines, facts, measured: null, exclude: [] };
  const hosts = control.hosts, first = control.failure()?.first;
  const exclude = first ? nodesAtFault(first, hosts) : [];
  const sentence = error instanceof JobFailed && first ? sentenceOf(first) : error.message;
  return unfinished(options, gathered, sentence, new Set(hosts).size > exclude.length ? exclude : []);
}

/** The rank that waited for too long is not the one at fault. */
function sentenceOf(first: FirstError): string {
  if (first.rank === 0 || first.cause.kind === "time limit") return first.sentence;
  return first.cause.kind === "error"
    ? `${rankOnHost(first)} can't go on: ${first.sentence}`
    : first.othersSentence;
}

function unfinished(
  { where: { rank }, lines, facts }: RanksOptions,
  { nodes, ranks }: Gathered,
  sentence: string,
  exclude: readonly string[],
): MeasureOutcome {
  const before = nodes.length > 0 ? mergeNodes(nodes).lines : lines;
  const judged = judgeResults({ ranks, pairs: [], left: 0, all: [], seconds: 0 });
  return {
    rank,
    lines: [...before, ...ranks.length > 0 ? judged.lines : [], lostFinding(sentence, exclude)],
    facts,
    measured: null,
    exclude: [...new Set([...exclude, ...judged.exclude])],
  };
}

interface Session {
  readonly team: Team;
  readonly limit: TimeLimit;
  readonly hosts: readonly string[];
}

async function work(
  options: RanksOptions,
  gathered: Gathered,
  { team, limit, hosts }: Session,
): Promise<MeasureOutcome> {
  const { config, env, where, ready: { device, libtorch }, lines, facts, began } = options;
  limit.set(OWN, `Another rank did not end what it measured by itself within ${OWN} s.`);
  const nodes = gathered.nodes = team.gather<NodeFindings | null>(
    facts ? { host: hosts[team.rank], lines, libtorch } : null,
    "doctor: checks",
  ).filter((node) => node !== null);
  const skew = measureSkew(team)[team.rank];
  const speed = deviceSpeed(device);
  const writes = team.gather(canWrite(facts), "doctor: folders").every(Boolean);
  const own: RankResult = {
    rank: team.rank,
    host: hosts[team.rank],
    device,
    ...speed,
    write: writes ? writeProbe(config.output.save_dir, team.world) : null,
    ...skew,
  };
  const ranks = gathered.ranks = team.gather(own, "doctor: ranks");
  const openPart = openSubGroups({
    team,
    where,
    device,
    env,
    network: config.distributed.network,
    logs: join(config.output.save_dir, "logs"),
    timeout: patience(config),
  });
  const pairs = await measurePairs({ team, device, hosts, limit, seconds: PAIRS, openPart });
  limit.set(ALL, `The all-reduce of all ranks did not end within ${ALL} s.`);
  const all = measureAll(team, device);
  const measured: Results = { ranks, ...pairs, all, seconds: (performance.now() - began) / 1000 };
  const outcome = { rank: team.rank, facts, measured };
  // A launcher would report any other rank that ends with a code but 0.
  if (team.rank > 0) return { ...outcome, lines: [], exclude: [] };
  return { ...outcome, ...summed(nodes, measured, team.collectives.backend) };
}

function summed(
  nodes: readonly NodeFindings[],
  measured: Results,
  backend: Collectives["backend"],
): Pick<MeasureOutcome, "lines" | "exclude"> {
  const merged = mergeNodes(nodes), judged = judgeResults(measured);
  const exclude = [...new Set([...merged.exclude, ...judged.exclude])];
  const { ranks } = measured, hosts = new Set(ranks.map(({ host }) => host));
  const met = good(
    "ranks",
    `${ranks.length} on ${[...hosts].slice(0, 8).join(", ")}, by ${BACKEND_NAMES[backend]}`,
  );
  return {
    lines: [...merged.lines, ...differing(nodes), met, ...judged.lines, timeFinding(measured)],
    exclude,
  };
}

function differing(nodes: readonly NodeFindings[]): Finding[] {
  const [first, ...others] = nodes;
  const odd = others.find(({ libtorch }) => libtorch !== first.libtorch);
  return odd === undefined ? [] : [bad(
    "libtorch",
    `it is ${first.libtorch} on ${first.host} and ${odd.libtorch} on ${odd.host}`,
    "Name one that every node has: --libtorch DIR.",
  )];
}

export function neverArrived(
  error: UserError,
  { nodeNames, localWorld }: Pick<RankContext, "nodeNames" | "localWorld">,
): string[] {
  if (!(error instanceof JobFailed) || error.first.cause.kind !== "missing") return [];
  const names = error.first.cause.ranks.map((rank) => nodeNames[Math.floor(rank / localWorld)]);
  return [...new Set(names.filter((name) => name !== undefined))];
}

/** The suspect of a stuck pair comes first; else the failed rank's node, where another node remains. */
function nodesAtFault({ cause, host }: FirstError, hosts: readonly string[]): readonly string[] {
  if (cause.kind === "time limit") return cause.suspects;
  return hosts.includes(host) && hosts.some((other) => other !== host) ? [host] : [];
}
