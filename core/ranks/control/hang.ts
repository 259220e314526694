// The server notices ranks that fall silent or stand still, and finds who holds up the others from their
// phases and last collectives.
import { messageOf } from "../../base/errors.ts";
import type { RecordedCollective } from "../flight_recorder.ts";
import type { Ras } from "../engines.ts";
import {
  active,
  activeCount,
  type ControlJob,
  endJob,
  type From,
  full,
  type Member,
  ranksIn,
  send,
} from "./job.ts";
import { commonFailure, rankLost } from "./failure.ts";
import { PATIENT } from "./shared.ts";
import type { Beat } from "./messages.ts";

const ANSWERS_MS = 3000;

/** Looks are a second apart. */
const ASLEEP_MS = 3000;

interface HangWatch {
  flight(member: Member, message: From<"flight">): void;
  poll(): void;
}

export type Keep = (name: string, report: unknown) => string;

/** It always ends. */
export type QueryEngine = () => Promise<Ras | null>;

interface PendingReport {
  readonly since: number;
  readonly flights: Map<number, readonly RecordedCollective[]>;
  engine: Ras | null | undefined;
}

export function openHangWatch(
  job: ControlJob,
  keep: Keep,
  queryEngine: QueryEngine | null = null,
): HangWatch {
  let looked = job.now();
  let suspended = job.now();
  let pending: PendingReport | null = null;

  const conclude = () => {
    if (!pending || job.error) return;
    const { flights, since, engine } = pending;
    if (engine === undefined) return;
    const waits = job.now() - since < ANSWERS_MS;
    if (waits && flights.size < activeCount(job)) return;
    if (waits && active(job).some(({ hello }) => !flights.has(hello.rank))) return;
    pending = null;
    const ranks = standings(active(job), flights);
    if (ranks.length > 0) endStalledJob(job, ranks, engine, keep);
  };
  const ask = () => {
    const begun: PendingReport = {
      since: job.now(),
      flights: new Map(),
      engine: queryEngine ? undefined : null,
    };
    pending = begun;
    send(job, { is: "flight?" });
    queryEngine?.().catch(() => null).then((engine) => {
      begun.engine = engine;
      conclude();
    });
  };
  return {
    flight({ hello }, { flight }) {
      pending?.flights.set(hello.rank, flight);
      conclude();
    },
    poll() {
      const now = job.now();
      // This process itself was stopped (a debugger, a frozen machine): it can't know who was silent
      // meanwhile.
      if (now - looked > ASLEEP_MS) job.members.forEach((member) => member.lastMessage = now);
      looked = now;
      if (!full(job)) {
        suspended = now;
        return job.members.forEach((member) => member.lastMessage = now);
      }
      const members = active(job);
      const mute = members.find(({ lastMessage }) => now - lastMessage > job.limits.silence);
      if (mute) {
        const since = wholeSeconds(now - mute.lastMessage);
        return void endJob(
          job,
          rankLost(mute, `was not heard of for ${since}: its node or the network is down`),
        );
      }
      if (members.some(({ beat }) => !beat || beat.phase === PATIENT)) suspended = now;
      const limit = members.every(({ moved }) => moved) ? job.limits.stall : job.limits.firstStall;
      const idleMs = Math.min(now - suspended, ...members.map(({ beat }) => beat?.still ?? 0));
      if (!pending && members.length > 0 && idleMs > limit) ask();
      conclude();
    },
  };
}

const standings = (
  members: readonly Member[],
  flights: ReadonlyMap<number, readonly RecordedCollective[]>,
): Standing[] =>
  members.flatMap(({ hello: { rank, host }, beat }) =>
    beat ? [{ rank, host, ...beat, flight: flights.get(rank) ?? [] }] : []
  );

function endStalledJob(job: ControlJob, ranks: Standing[], engine: Ras | null, keep: Keep): void {
  const { rank, sentence, namesRank } = hangVerdict(ranks);
  const { host, step } = ranks.find((standing) => standing.rank === rank)!;
  const name = `hang-${step}.json`;
  let text = sentence;
  try {
    const report = { verdict: sentence, at: new Date().toISOString(), ranks };
    text += ` All ranks: ${keep(name, engine ? { ...report, nccl: engine.text.split("\n") } : report)}.`;
  } catch (error) {
    text += ` (${name} can't be written: ${messageOf(error)}.)`;
  }
  if (engine) text += ` ${engine.line}.`;
  endJob(job, commonFailure({ rank, host }, { kind: "lost" }, text, { step, namesRank }));
}

export interface Standing extends Beat {
  readonly rank: number;
  readonly host: string;
  /** Oldest first; empty where the rank did not answer. */
  readonly flight: readonly RecordedCollective[];
}

interface HangVerdict {
  readonly rank: number;
  readonly sentence: string;
  readonly namesRank: boolean;
}

/** A pure function. `ranks` is not empty. */
export function hangVerdict(ranks: readonly Standing[]): HangVerdict {
  const newest = Math.max(...ranks.map((rank) => rank.queued));
  const oldest = Math.min(...ranks.map((rank) => rank.queued));
  const disagreeing = disagreement(ranks);
  if (disagreeing) return disagreeing;
  if (oldest < newest) return absent(ranks, oldest);
  const ended = Math.min(...ranks.map((rank) => rank.ended));
  return ended < newest ? stuck(ranks, ended + 1) : slowest(ranks);
}

/** The same number with different collectives: the ranks have not run the same program. */
function disagreement(ranks: readonly Standing[]): HangVerdict | null {
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
    namesRank: true,
  };
}

function absent(ranks: readonly Standing[], oldest: number): HangVerdict {
  const behind = ranks.filter((rank) => rank.queued === oldest).sort((a, b) => b.still - a.still);
  const [first] = behind;
  const missed = ranks.map((rank) => at(rank, oldest + 1)).find((found) => found !== undefined);
  const what = missed ? `${missed.op} ${missed.sequence} (${missed.phase})` : `collective ${oldest + 1}`;
  const also = behind.length > 1 ? ` (nor did ${ranksIn(behind.slice(1).map(({ rank }) => rank))})` : "";
  return {
    rank: first.rank,
    sentence: `${name(first)} never entered ${what}${also}: ${whereabouts(first)}.`,
    namesRank: true,
  };
}

function stuck(ranks: readonly Standing[], sequence: number): HangVerdict {
  const waiting = ranks.filter((rank) => rank.ended < sequence).sort((a, b) => a.begun - b.begun);
  const [first] = waiting;
  const found = ranks.map((rank) => at(rank, sequence)).find((found) => found !== undefined);
  const what = found ? `${found.op} ${sequence} (${found.phase})` : `collective ${sequence}`;
  const since = wholeSeconds(Math.max(...waiting.map(({ still: idleMs }) => idleMs)));
  const idle = waiting.filter((rank) => rank.begun < sequence);
  const why = idle.length > 0
    ? `the engine of ${ranksIn(idle.map(({ rank }) => rank))} never began it`
    : "look at the network between the nodes (hpctrain doctor --full measures it)";
  return {
    rank: first.rank,
    sentence: `Every rank entered ${what}, and ${
      ranksIn(waiting.map(({ rank }) => rank))
    } did not come out for ${since}: ${why}.`,
    namesRank: false,
  };
}

function slowest(ranks: readonly Standing[]): HangVerdict {
  const waits = ({ phase }: Standing) => phase === "waiting for ranks" ? 1 : 0;
  const [first] = ranks.toSorted((a, b) => waits(a) - waits(b) || a.step - b.step || b.still - a.still);
  return {
    rank: first.rank,
    sentence: `${name(first)} makes no headway: ${whereabouts(first)}, at step ${first.step}.`,
    namesRank: true,
  };
}

const at = ({ flight }: Standing, sequence: number): RecordedCollective | undefined =>
  flight.find((found) => found.sequence === sequence);

const name = ({ rank, host }: Standing): string => `Rank ${rank} on ${host}`;

const whereabouts = ({ phase, still: idleMs }: Standing): string => `in ${phase} for ${wholeSeconds(idleMs)}`;

export const wholeSeconds = (ms: number): string => `${Math.round(ms / 1000)} s`;

const capital = (text: string): string => text[0].toUpperCase() + text.slice(1);
