// All-reduces between every two nodes, as many pairs at a time as there can be. May import ffi, dist, rounds, limit.
import { synchroniseCuda } from "../../../../ffi/cuda.ts";
import { ones, toDevice, toNumbers } from "../../../../ffi/make.ts";
import { type Device, scope } from "../../../../ffi/tensor.ts";
import type { Collectives } from "../../../dist/collectives.ts";
import type { Team } from "../../../dist/team.ts";
import type { Limit } from "./limit.ts";
import type { PairResult } from "./results.ts";
import { type Pair, tournament } from "./rounds.ts";

/** The ranks of a part talk among themselves until it is closed. */
export interface Part {
  readonly collectives: Collectives;
  close(): Promise<void>;
}

export interface PairsOptions {
  readonly team: Team;
  readonly device: Device;
  /** The host of each rank. */
  readonly hosts: readonly string[];
  readonly limit: Limit;
  /** Seconds that all rounds may take. */
  readonly seconds: number;
  /** Every rank calls it; null: this one sits the round out. */
  openPart(members: readonly number[] | null, number: number): Promise<Part | null>;
}

const BYTES = 8 * 2 ** 20, TIMES = 3;
/** For one round, which takes milliseconds to a second; then the pair is stuck. */
const ROUND_SECONDS = 10, OTHERS_SECONDS = 14;

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
    limit.set(
      names ? ROUND_SECONDS : OTHERS_SECONDS,
      names
        ? `The all-reduce between ${names[0]} and ${names[1]} did not end within ${ROUND_SECONDS} s.`
        : "Two other nodes did not end their all-reduce.",
    );
    const members = names && hosts.flatMap((host, rank) => names.includes(host) ? [rank] : []);
    const part = await openPart(members, mine < 0 ? round.length + team.rank : mine);
    const found = part && members && names
      ? { nodes: names, bytes: BYTES, ...time(part.collectives, device, members.length) }
      : null;
    await part?.close();
    limit.set(OTHERS_SECONDS, "Two other nodes did not end their all-reduce.");
    const first = members?.[0] === team.rank ? found : null;
    const over = (performance.now() - began) / 1000 > seconds;
    const heard = team.hear({ found: first, over }, "doctor: pairs");
    for (const { found } of heard) if (found) pairs.push(found);
    left -= round.length;
    if (heard[0].over) break; // rank 0's clock decides for all
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
