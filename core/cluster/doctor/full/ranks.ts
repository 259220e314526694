// `doctor --full` on several ranks: they join, measure the same things at the same time, and rank 0 gathers the
// results. What keeps them from that is a finding too.
import { join } from "../../../../deps/path.ts";
import { cudaUuid } from "../../../../ffi/cuda.ts";
import type { Device } from "../../../../ffi/tensor.ts";
import { remove } from "../../../base/atomic.ts";
import { parseDuration } from "../../../settings/setting.ts";
import type { Config } from "../../../settings/settings.ts";
import { type Control, openControl } from "../../../ranks/control/control.ts";
import { BACKENDS, type Collectives, openCollectives } from "../../../ranks/collectives.ts";
import { openTeam, type Team } from "../../../ranks/team.ts";
import type { RankContext } from "../../../ranks/context.ts";
import { UserError } from "../../../base/errors.ts";
import { failed } from "../../../train/session.ts";
import { VERSION } from "../../../base/version.ts";
import type { Facts } from "../examine.ts";
import { bad, type Finding, good } from "../check.ts";
import { measureAll, measureSkew } from "./speeds.ts";
import { judgeResults, mergeNodes, type OfNode, type RankResult, type Results } from "./judge.ts";
import { measurePairs, openSubGroups, openTimeLimit, type TimeLimit } from "./pairs.ts";
import {
  canWrite,
  lostFinding,
  type Outcome,
  type Ready,
  speedHere,
  timeFinding,
  writeProbe,
} from "./measure.ts";

interface RanksOptions {
  readonly config: Config;
  readonly env: Record<string, string>;
  readonly where: RankContext;
  readonly ready: Ready;
  /** Of this node; none on a rank that did not look. */
  readonly lines: readonly Finding[];
  readonly facts: Facts | null;
  readonly began: number;
}

/** Seconds for all ranks to come (or --timeout), for what each measures by itself, for all pairs, for all together. */
const ARRIVE = 20, OWN = 25, PAIRS = 12, ALL = 15;
/** For rank 0 to have told it: MPI's launchers kill the others when one ends with any code but 0. */
const NOTIFY_MS = 1500;

export async function measureRanks(together: RanksOptions): Promise<Outcome> {
  const { where, config } = together;
  const logs = join(config.output.save_dir, "logs"), mine = where.rank === 0 && !isThere(logs);
  try {
    return await findOut(together);
  } finally {
    // Ranks of several nodes met there; it goes again unless somebody put something into it.
    if (mine && isThere(logs)) remove(logs);
  }
}

function isThere(path: string): boolean {
  try {
    Deno.lstatSync(path);
    return true;
  } catch {
    return false;
  }
}

async function findOut(together: RanksOptions): Promise<Outcome> {
  const { where, lines, facts } = together;
  const known: Known = { nodes: [], ranks: [] };
  const unfinished = (said: string, exclude: readonly string[]): Outcome => {
    const before = known.nodes.length > 0 ? mergeNodes(known.nodes).lines : lines;
    const judged = judgeResults({ ranks: known.ranks, pairs: [], left: 0, all: [], seconds: 0 });
    const all = [...new Set([...exclude, ...judged.exclude])];
    return {
      rank: where.rank,
      lines: [...before, ...known.ranks.length > 0 ? judged.lines : [], lostFinding(said, exclude)],
      facts,
      measured: null,
      exclude: all,
    };
  };
  let control: Control;
  try {
    control = await meet(together);
  } catch (error) {
    // Nobody else can tell of it: each rank says for itself what it saw.
    if (!(error instanceof UserError)) throw error;
    if (where.rank > 0) throw new UserError("communication", fromHere(error.message));
    return unfinished(error.message, neverArrived(error.message, where));
  }
  const hosts = control.seats.map(({ host }) => host);
  let team: Team | null = null;
  try {
    const { broken } = together.ready;
    if (broken !== null) throw new UserError("environment", broken);
    control.barrier("doctor: devices"); // who can't go on says so before anybody waits for MPI or NCCL
    const limit = openTimeLimit();
    team = await talk(together, control, limit);
    return await work(together, { team, limit, hosts, control, known });
  } catch (error) {
    team?.collectives.abort(error instanceof Error ? error.message : String(error));
    const told = await failed(control, error);
    if (!(told instanceof UserError)) throw told;
    if (where.rank > 0) {
      await new Promise((resolve) => setTimeout(resolve, NOTIFY_MS));
      return { rank: where.rank, lines: [lostFinding(told.message, [])], facts, measured: null, exclude: [] };
    }
    // Rank 0's own fault is among its lines.
    if (together.ready.broken !== null) return { rank: 0, lines, facts, measured: null, exclude: [] };
    const exclude = nodesIn(told.message, control.error()?.host, hosts);
    // Who ran out of patience is not who is at fault.
    const sentence = told.message.replace(
      /^(Rank \d+ on \S+) failed first, at step 0: /,
      (_, who) => /did not end/.test(told.message) ? "" : `${who} can't go on: `,
    );
    return unfinished(sentence, new Set(hosts).size > exclude.length ? exclude : []);
  }
}

const fromHere = (sentence: string) => `On ${Deno.hostname()}: ${sentence}`;

const ownGpu = (device: Device) => device === "cpu" ? null : cudaUuid(Number(device.slice("cuda:".length)));

const patience = ({ distributed }: Config): number =>
  Math.min(ARRIVE, parseDuration(distributed.timeout, "seconds")!.count);

/** Ranks of one node meet in this user's temporary folder; the run's folder may be what is wrong. */
async function meet({ config, where, ready: { device } }: RanksOptions): Promise<Control> {
  const logs = join(config.output.save_dir, "logs");
  return await openControl({
    where,
    folder: where.nodes === 1 ? null : logs,
    runFolder: logs,
    device: ownGpu(device),
    versions: { hpctrain: VERSION },
    settings: { doctor: true },
    timeout: patience(config),
  });
}

async function talk(
  { config, env, where, ready: { device } }: RanksOptions,
  control: Control,
  limit: TimeLimit,
): Promise<Team> {
  const { backend, network } = config.distributed;
  const logs = join(config.output.save_dir, "logs");
  const { collectives } = await openCollectives({
    where,
    device,
    backend,
    env,
    timeout: patience(config),
    nccl: { share: control.broadcastBytes, network, logs },
    meeting: control,
    failed: () => control.error()?.told ?? limit.over(),
  });
  return openTeam(collectives, device);
}

/** What was heard before something went wrong. */
interface Known {
  nodes: readonly OfNode[];
  ranks: readonly RankResult[];
}

interface Met {
  readonly team: Team;
  readonly limit: TimeLimit;
  /** Of each rank. */
  readonly hosts: readonly string[];
  readonly control: Control;
  readonly known: Known;
}

async function work(together: RanksOptions, { team, limit, hosts, control, known }: Met): Promise<Outcome> {
  const { config, env, where, ready: { device, libtorch }, lines, facts, began } = together;
  limit.set(OWN, `Another rank did not end what it measured by itself within ${OWN} s.`);
  const nodes = known.nodes = team.hear<OfNode | null>(
    facts ? { host: hosts[team.rank], lines, libtorch } : null,
    "doctor: checks",
  ).filter((node) => node !== null);
  const skew = measureSkew(team)[team.rank];
  const speed = speedHere(device);
  const writes = team.hear(canWrite(facts), "doctor: folders").every(Boolean);
  const own: RankResult = {
    rank: team.rank,
    host: hosts[team.rank],
    device,
    ...speed,
    write: writes ? writeProbe(config.output.save_dir, team.world) : null,
    ...skew,
  };
  const ranks = known.ranks = team.hear(own, "doctor: ranks");
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
  await team.collectives.close();
  await control.close();
  const outcome = { rank: team.rank, facts, measured };
  // One rank tells it all, and its code is enough: others that end with any but 0 would be the launcher's news.
  if (team.rank > 0) return { ...outcome, lines: [], exclude: [] };
  return { ...outcome, ...summed(nodes, measured, team.collectives.backend) };
}

function summed(
  nodes: readonly OfNode[],
  measured: Results,
  backend: Collectives["backend"],
): Pick<Outcome, "lines" | "exclude"> {
  const merged = mergeNodes(nodes), judged = judgeResults(measured);
  const exclude = [...new Set([...merged.exclude, ...judged.exclude])];
  const { ranks } = measured, hosts = new Set(ranks.map(({ host }) => host));
  const met = good(
    "ranks",
    `${ranks.length} on ${[...hosts].slice(0, 8).join(", ")}, by ${BACKENDS[backend]}`,
  );
  return {
    lines: [...merged.lines, ...differing(nodes), met, ...judged.lines, timeFinding(measured)],
    exclude,
  };
}

/** Training refuses ranks that compute by different libraries. */
function differing(nodes: readonly OfNode[]): Finding[] {
  const [first, ...others] = nodes;
  const odd = others.find(({ libtorch }) => libtorch !== first.libtorch);
  return odd === undefined ? [] : [bad(
    "libtorch",
    `it is ${first.libtorch} on ${first.host} and ${odd.libtorch} on ${odd.host}`,
    "Name one that every node has: --libtorch DIR.",
  )];
}

/** "...; ranks 1 and 3-4 never arrived": the nodes that those were expected on, where the launcher told them. */
export function neverArrived(
  sentence: string,
  { nodeNames, localWorld }: Pick<RankContext, "nodeNames" | "localWorld">,
): string[] {
  const list = /ranks? ([\d, and-]+?)(?: \(expected on \S+\))? never arrived/.exec(sentence)?.[1];
  if (list === undefined) return [];
  const ranks = list.split(/, | and /).flatMap((part) => {
    const [from, to = from] = part.split("-").map(Number);
    return Array.from({ length: to - from + 1 }, (_, i) => from + i);
  });
  const names = ranks.map((rank) => nodeNames[Math.floor(rank / localWorld)]);
  return [...new Set(names.filter((name) => name !== undefined))];
}

/** Nodes that a failure is about: one of a pair, or that of a rank that is lost; not that of one which was tired of waiting. */
function nodesIn(sentence: string, host: string | undefined, hosts: readonly string[]): string[] {
  const pair = /all-reduce between (\S+) and (\S+) did not end/.exec(sentence);
  if (pair) return [pair[2]];
  if (/did not end/.test(sentence)) return [];
  return host && hosts.includes(host) && hosts.some((other) => other !== host) ? [host] : [];
}
