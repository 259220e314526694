// All-reduces between every two nodes, as many pairs at a time as there can be, each pair a world of its own, within
// a limit of time.
import { synchroniseCuda } from "../../../../ffi/cuda.ts";
import { ones, toDevice, toNumbers } from "../../../../ffi/make.ts";
import { type Device, scope } from "../../../../ffi/tensor.ts";
import type { Collectives } from "../../../ranks/collectives.ts";
import { TimeLimitError } from "../../../ranks/control/failure.ts";
import type { Team } from "../../../ranks/team.ts";
import type { PairResult } from "./judge.ts";
import { openFlightRecorder } from "../../../ranks/flight_recorder.ts";
import { type Network, openNcclCollectives } from "../../../ranks/nccl/setup.ts";
import type { RankContext } from "../../../ranks/context.ts";

/** The ranks of a part talk among themselves until it is closed. */
interface SubGroup {
  readonly collectives: Collectives;
  close(): Promise<void>;
}

export interface PairsOptions {
  readonly team: Team;
  readonly device: Device;
  /** The host of each rank. */
  readonly hosts: readonly string[];
  readonly limit: TimeLimit;
  /** Seconds that all rounds may take. */
  readonly seconds: number;
  /** Every rank calls it; null: this one sits the round out. */
  openPart(members: readonly number[] | null, number: number): Promise<SubGroup | null>;
}

const BYTES = 8 * 2 ** 20, TIMES = 3;
/** For one round, which takes milliseconds to a second; then the pair is stuck. */
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

/** The shortest of a few: what the link can do. */
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

// Some of the ranks as a world of their own: where the engine can split itself, by that; else by another
// communicator.

export interface SubGroupOptions {
  readonly team: Team;
  readonly where: RankContext;
  readonly device: Device;
  readonly env: Record<string, string>;
  readonly network: Network;
  /** The folder for what NCCL_DEBUG brings. */
  readonly logs: string;
  readonly timeout: number;
}

/** Every rank calls what it gives, whether it takes part or sits out. */
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

/** Its id goes by way of the whole world, so those who sit out take part in that. */
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
  const { collectives } = await openNcclCollectives({
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

// Every pair of nodes once, as many at a time as there can be: the rounds of a tournament. Pure.

type Pair = readonly [number, number];

/**
 * Gives the pairs of each round, none of which share a node: n - 1 rounds for an even number of nodes, n for an odd
 * one.
 */
export function tournament(nodes: number): Pair[][] {
  const seats = Array.from({ length: nodes + nodes % 2 }, (_, i) => i);
  const rounds: Pair[][] = [];
  for (let round = 0; round < seats.length - 1; round++) {
    const pairs = Array.from({ length: seats.length / 2 }, (_, i) => [seats[i], seats[seats.length - 1 - i]]);
    rounds.push(
      pairs.filter((pair) => pair.every((node) => node < nodes)) // with an odd one out, who meets nobody rests
        .map(([a, b]): Pair => a < b ? [a, b] : [b, a]),
    );
    seats.splice(1, 0, seats.pop()!); // the first stays, the others move on
  }
  return rounds;
}

// How long a measurement may take, with the sentence for when it takes longer: waits for other ranks ask for it.

export interface TimeLimit {
  /** Why nobody should wait any longer, or null. */
  over(): TimeLimitError | null;
  /** Limits what comes now. `suspects`: the nodes that are at fault if it takes longer. */
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
