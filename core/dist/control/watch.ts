// Who has fallen silent, and whether all stand still. May import errors, hang, hello, job, messages, phases.
import { EXIT } from "../../errors.ts";
import type { Flown } from "../flight.ts";
import { seconds, type Standing, verdict } from "./hang.ts";
import { active, fail, type From, full, type Job, lost, type Member, tell } from "./job.ts";
import { PATIENT } from "./phases.ts";

/** Answers with the last collectives are waited for this long. */
const ANSWERS_MS = 3000;

/** Looks are a second apart. */
const ASLEEP_MS = 3000;

export interface Watch {
  flight(member: Member, message: From<"flight">): void;
  look(): void;
}

/** Keeps a report for the user and says where. */
export type Keep = (name: string, report: unknown) => string;

export function openWatch(job: Job, keep: Keep): Watch {
  let looked = job.now();
  let suspended = job.now();
  let asked: { readonly since: number; readonly flights: Map<number, readonly Flown[]> } | null = null;

  const conclude = () => {
    if (!asked || job.error) return;
    const { flights, since } = asked;
    if (active(job).some(({ hello }) => !flights.has(hello.rank)) && job.now() - since < ANSWERS_MS) return;
    asked = null;
    const ranks = standings(active(job), flights);
    if (ranks.length > 0) end(job, ranks, keep);
  };
  return {
    flight({ hello }, { flight }) {
      asked?.flights.set(hello.rank, flight);
      conclude();
    },
    look() {
      const now = job.now();
      // This process itself was stopped (a debugger, a frozen machine): it can't say who was silent meanwhile.
      if (now - looked > ASLEEP_MS) job.members.forEach((member) => member.heard = now);
      looked = now;
      if (!full(job)) {
        // Heartbeats begin when all are here.
        suspended = now;
        return job.members.forEach((member) => member.heard = now);
      }
      const here = active(job);
      const mute = here.find(({ heard }) => now - heard > job.limits.silence);
      if (mute) {
        const since = seconds(now - mute.heard);
        return void fail(job, lost(mute, `was not heard of for ${since}: its node or the network is down`));
      }
      if (here.some(({ beat }) => !beat || beat.phase === PATIENT)) suspended = now;
      const limit = here.every(({ moved }) => moved) ? job.limits.stall : job.limits.firstStall;
      const still = Math.min(now - suspended, ...here.map(({ beat }) => beat?.still ?? 0));
      if (!asked && here.length > 0 && still > limit) {
        asked = { since: now, flights: new Map() };
        tell(job, { is: "flight?" });
      }
      conclude();
    },
  };
}

const standings = (members: readonly Member[], flights: ReadonlyMap<number, readonly Flown[]>): Standing[] =>
  members.flatMap(({ hello: { rank, host }, beat }) =>
    beat ? [{ rank, host, ...beat, flight: flights.get(rank) ?? [] }] : []
  );

function end(job: Job, ranks: Standing[], keep: Keep): void {
  const { rank, sentence } = verdict(ranks);
  const { host, step } = ranks.find((standing) => standing.rank === rank)!;
  const name = `hang-${step}.json`;
  let told = sentence;
  try {
    told += ` All ranks: ${keep(name, { verdict: sentence, at: new Date().toISOString(), ranks })}.`;
  } catch (error) {
    told += ` (${name} can't be written: ${(error as Error).message}.)`;
  }
  const code = EXIT.communication;
  fail(job, { rank, host, step, sentence: told, code, told, others: code });
}
