// Who holds up the others: from where each rank is and its last collectives. Pure. May import flight (types), hello.
import type { Flown } from "../flight.ts";
import { ranksIn } from "./hello.ts";
import type { Beat } from "./messages.ts";

export interface Standing extends Beat {
  readonly rank: number;
  readonly host: string;
  /** Oldest first; empty where the rank did not answer. */
  readonly flight: readonly Flown[];
}

export interface Verdict {
  readonly rank: number;
  readonly sentence: string;
}

/** `ranks` is not empty. */
export function verdict(ranks: readonly Standing[]): Verdict {
  const newest = Math.max(...ranks.map((rank) => rank.queued));
  const oldest = Math.min(...ranks.map((rank) => rank.queued));
  const apart = disagreement(ranks);
  if (apart) return apart;
  if (oldest < newest) return absent(ranks, oldest);
  const ended = Math.min(...ranks.map((rank) => rank.ended));
  return ended < newest ? stuck(ranks, ended + 1) : slowest(ranks);
}

/** The same number, but not the same collective: the ranks have not run the same program. */
function disagreement(ranks: readonly Standing[]): Verdict | null {
  const sequence = Math.min(...ranks.map((rank) => rank.ended)) + 1;
  const seen = ranks.flatMap((rank) => {
    const found = at(rank, sequence);
    return found ? [{ rank, found }] : [];
  });
  const [first] = seen;
  const other = seen.find(({ found }) => found.op !== first.found.op || found.bytes !== first.found.bytes);
  if (!other) return null;
  const entered = ({ rank, found }: typeof first) =>
    `rank ${rank.rank} on ${rank.host} entered ${found.op} ${sequence} of ${found.bytes} bytes (${found.phase})`;
  return {
    rank: other.rank.rank,
    sentence: `${capital(entered(other))}, but ${entered(first)}: ranks must do the same in the same order.`,
  };
}

function absent(ranks: readonly Standing[], oldest: number): Verdict {
  const behind = ranks.filter((rank) => rank.queued === oldest).sort((a, b) => b.still - a.still);
  const [first] = behind;
  const missed = ranks.map((rank) => at(rank, oldest + 1)).find((found) => found !== undefined);
  const what = missed ? `${missed.op} ${missed.sequence} (${missed.phase})` : `collective ${oldest + 1}`;
  const also = behind.length > 1 ? ` (nor did ${ranksIn(behind.slice(1).map(({ rank }) => rank))})` : "";
  return {
    rank: first.rank,
    sentence: `${name(first)} never entered ${what}${also}: ${whereabouts(first)}.`,
  };
}

/** Everyone is in it, and it does not end. */
function stuck(ranks: readonly Standing[], sequence: number): Verdict {
  const waiting = ranks.filter((rank) => rank.ended < sequence).sort((a, b) => a.begun - b.begun);
  const [first] = waiting;
  const found = ranks.map((rank) => at(rank, sequence)).find((found) => found !== undefined);
  const what = found ? `${found.op} ${sequence} (${found.phase})` : `collective ${sequence}`;
  const since = seconds(Math.max(...waiting.map(({ still }) => still)));
  const idle = waiting.filter((rank) => rank.begun < sequence);
  const why = idle.length > 0
    ? `the engine of ${ranksIn(idle.map(({ rank }) => rank))} never began it`
    : "look at the network between the nodes (hpctrain doctor --full measures it)";
  return {
    rank: first.rank,
    sentence: `Every rank entered ${what}, and ${
      ranksIn(waiting.map(({ rank }) => rank))
    } did not come out for ${since}: ${why}.`,
  };
}

/** No collective is under way. */
function slowest(ranks: readonly Standing[]): Verdict {
  const waits = ({ phase }: Standing) => phase === "waiting for ranks" ? 1 : 0;
  const [first] = ranks.toSorted((a, b) => waits(a) - waits(b) || a.step - b.step || b.still - a.still);
  return {
    rank: first.rank,
    sentence: `${name(first)} makes no headway: ${whereabouts(first)}, at step ${first.step}.`,
  };
}

const at = ({ flight }: Standing, sequence: number): Flown | undefined =>
  flight.find((found) => found.sequence === sequence);

const name = ({ rank, host }: Standing): string => `Rank ${rank} on ${host}`;

const whereabouts = ({ phase, still }: Standing): string => `in ${phase} for ${seconds(still)}`;

export const seconds = (ms: number): string => `${Math.round(ms / 1000)} s`;

const capital = (text: string): string => text[0].toUpperCase() + text.slice(1);
