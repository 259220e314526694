// All-reduces between every two nodes, with as many pairs at a time as possible, within a limit of time.
import { synchroniseCuda } from "../../../../ffi/cuda.ts";
import { ones, toDevice, toNumbers } from "../../../../ffi/make.ts";
import { type Device, scope } from "../../../../ffi/tensor.ts";
import type { Collectives } from "../../../ranks/collectives.ts";
import { TimeLimitError } from "../../../ranks/control/failure.ts";
import type { Team } from "../../../ranks/team.ts";
import type { PairResult } from "./judge.ts";
import { openFlightRecorder } from "../../../ranks/flight_recorder.ts";
import { gpuEngine, type Network } from "../../../ranks/engines.ts";
import type { RankContext } from "../../../ranks/context.ts";

interface SubGroup {
  readonly collectives: Collectives;
  close(): Promise<void>;
}

interface PairsOptions {
  readonly team: Team;
  readonly device: Device;
  readonly hosts: readonly string[];
  readonly limit: TimeLimit;
  /** All rounds together take at most these seconds. */
  readonly seconds: number;
  /** Every rank calls it, with null where it sits the round out. */
  openPart(members: readonly number[] | null, number: number): Promise<SubGroup | null>;
}

const BYTES = 8 * 2 ** 20, TIMES = 3;
/** A round takes a second at most, so a slower pair is stuck. */
const ROUND_SECONDS = 10, OTHERS_SECONDS = 14;
const OTHERS_STUCK = "Two other nodes did not end their all-reduce.";

export async function measurePairs(
  { team, device, hosts, limit, seconds, openPart }: PairsOptions,
): Promise<{ pairs: PairResult[]; left: number }> {
  const nodes = [...new Set(hosts)], rounds = tournament(nodes.length);
  const pairs: PairResult[] = [];
  const began = performance.now();
  let left = rounds.flat().length;
  for (const round of nodes.length < 2 ? [] : rounds) {
    const mine = round.findIndex((pair) => pair.some((node) => nodes[node] === hosts[team.rank]));
    const names = mine < 0 ? null : named(round[mine], nodes);
    if (names === null) limit.set(OTHERS_SECONDS, OTHERS_STUCK);
    else {
      const sentence = `The all-reduce between ${names[0]} and ${
        names[1]
      } did not end within ${ROUND_SECONDS} s.`;
      limit.set(ROUND_SECONDS, sentence, [names[1]]);
    }
    const members = names && hosts.flatMap((host, rank) => names.includes(host) ? [rank] : []);
    const part = await openPart(members, mine < 0 ? round.length + team.rank : mine);
    const found = part && members && names
      ? { nodes: names, bytes: BYTES, ...time(part.collectives, device, members.length) }
      : null;
    await part?.close();
    limit.set(OTHERS_SECONDS, OTHERS_STUCK);
    const first = members?.[0] === team.rank ? found : null;
    const over = (performance.now() - began) / 1000 > seconds;
    const all = team.gather({ found: first, over }, "doctor: pairs");
    for (const { found } of all) if (found) pairs.push(found);
    left -= round.length;
    if (all[0].over) break; // rank 0's clock decides for all
  }
  return { pairs, left: nodes.length < 2 ? 0 : left };
}

const named = ([a, b]: Pair, nodes: readonly string[]): [string, string] => [nodes[a], nodes[b]];

/** The shortest of a few times shows what the link can do. */
function time(
  collectives: Collectives,
  device: Device,
  members: number,
): Pick<PairResult, "seconds" | "right"> {
  return scope(() => {
    const host = ones([BYTES / 4]);
    const t = device === "cpu" ? host : toDevice(host, device);
    const settle = (ticket: number) => {
      collectives.wait(ticket);
      synchroniseCuda();
    };
    settle(collectives.allReduce(t, "sum", "doctor: pairs")); // the first connects them
    const sums = toNumbers(t);
    const right = sums.every((sum) => sum === members);
    const times = Array.from({ length: TIMES }, () => {
      settle(collectives.barrier("doctor: pairs"));
      const began = performance.now();
      settle(collectives.allReduce(t, "max", "doctor: pairs"));
      return (performance.now() - began) / 1000;
    });
    return { seconds: Math.min(...times), right };
  });
}

interface SubGroupOptions {
  readonly team: Team;
  readonly where: RankContext;
  readonly device: Device;
  readonly env: Record<string, string>;
  readonly network: Network;
  /** NCCL_DEBUG writes its logs there. */
  readonly logs: string;
  readonly timeout: number;
}

/** Every rank calls the returned function, whether it takes part or sits out. */
export function openSubGroups(options: SubGroupOptions) {
  const { team } = options;
  return team.collectives.split
    ? (_: readonly number[] | null, number: number) => Promise.resolve(splitPart(team, number))
    : (members: readonly number[] | null) => ncclPart(options, members);
}

function splitPart(team: Team, number: number): SubGroup {
  const { collectives } = team;
  collectives.wait(collectives.split!(number, "doctor: pairs"));
  return {
    collectives,
    close() {
      collectives.wait(collectives.split!(-1, "doctor: pairs"));
      return Promise.resolve();
    },
  };
}

/** The id goes through the whole world, so every rank takes part in that. */
async function ncclPart(
  { team, where, device, env, network, logs, timeout }: SubGroupOptions,
  members: readonly number[] | null,
): Promise<SubGroup | null> {
  const share = (bytes?: Uint8Array): Uint8Array => {
    const all = team.gather(bytes ? [...bytes] : null, "doctor: NCCL's id");
    return Uint8Array.from(all[members?.[0] ?? 0] ?? []);
  };
  if (members === null) {
    share();
    return null;
  }
  const rank = members.indexOf(team.rank);
  const { collectives } = await (await gpuEngine()).open({
    where: { ...where, rank, world: members.length, nodes: 2 },
    device,
    env,
    flight: openFlightRecorder(),
    timeout,
    share,
    network,
    logs,
  });
  return { collectives, close: () => collectives.close() };
}

type Pair = readonly [number, number];

/** No pairs of a round share a node: an even number of nodes takes n - 1 rounds, an odd one n. */
export function tournament(nodes: number): Pair[][] {
  const seats = Array.from({ length: nodes + nodes % 2 }, (_, i) => i);
  const rounds: Pair[][] = [];
  for (let round = 0; round < seats.length - 1; round++) {
    const pairs = Array.from({ length: seats.length / 2 }, (_, i) => [seats[i], seats[seats.length - 1 - i]]);
    rounds.push(
      pairs.filter((pair) => pair.every((node) => node < nodes)) // the odd one out rests
        .map(([a, b]): Pair => a < b ? [a, b] : [b, a]),
    );
    seats.splice(1, 0, ...seats.splice(-1)); // the first stays, the others move on
  }
  return rounds;
}

// Waits for other ranks check this limit.

export interface TimeLimit {
  over(): TimeLimitError | null;
  set(seconds: number, sentence: string, suspects?: readonly string[]): void;
}

export function openTimeLimit(now: () => number = () => performance.now()): TimeLimit {
  let until = Infinity, error = new TimeLimitError("");
  return {
    over: () => now() > until ? error : null,
    set(seconds, sentence, suspects) {
      until = now() + 1000 * seconds;
      error = new TimeLimitError(sentence, suspects);
    },
  };
}
