// Who has fallen silent, and whether all stand still. May import errors, hang, hello, job, messages, phases, nccl/ras
// (types).
import { EXIT } from "../../errors.ts";
import type { Flown } from "../flight.ts";
import type { Ras } from "../nccl/ras.ts";
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

/** What the engine itself knows of a stall; comes to an end in any case. */
export type AskEngine = () => Promise<Ras | null>;

interface Asked {
  readonly since: number;
  readonly flights: Map<number, readonly Flown[]>;
  /** Undefined: it has not answered yet. */
  engine: Ras | null | undefined;
}

export function openWatch(job: Job, keep: Keep, askEngine: AskEngine | null = null): Watch {
  let looked = job.now();
  let suspended = job.now();
  let asked: Asked | null = null;

  const conclude = () => {
    if (!asked || job.error) return;
    const { flights, since, engine } = asked;
    if (engine === undefined) return;
    if (active(job).some(({ hello }) => !flights.has(hello.rank)) && job.now() - since < ANSWERS_MS) return;
    asked = null;
    const ranks = standings(active(job), flights);
    if (ranks.length > 0) end(job, ranks, engine, keep);
  };
  const ask = () => {
    const begun: Asked = { since: job.now(), flights: new Map(), engine: askEngine ? undefined : null };
    asked = begun;
    tell(job, { is: "flight?" });
    askEngine?.().catch(() => null).then((engine) => {
      begun.engine = engine;
      conclude();
    });
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
      if (!asked && here.length > 0 && still > limit) ask();
      conclude();
    },
  };
}

const standings = (members: readonly Member[], flights: ReadonlyMap<number, readonly Flown[]>): Standing[] =>
  members.flatMap(({ hello: { rank, host }, beat }) =>
    beat ? [{ rank, host, ...beat, flight: flights.get(rank) ?? [] }] : []
  );

function end(job: Job, ranks: Standing[], engine: Ras | null, keep: Keep): void {
  const { rank, sentence } = verdict(ranks);
  const { host, step } = ranks.find((standing) => standing.rank === rank)!;
  const name = `hang-${step}.json`;
  let told = sentence;
  try {
    const report = { verdict: sentence, at: new Date().toISOString(), ranks };
    told += ` All ranks: ${keep(name, engine ? { ...report, nccl: engine.text.split("\n") } : report)}.`;
  } catch (error) {
    told += ` (${name} can't be written: ${(error as Error).message}.)`;
  }
  if (engine) told += ` ${engine.line}.`;
  const code = EXIT.communication;
  fail(job, { rank, host, step, sentence: told, code, told, others: code });
}
