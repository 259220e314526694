// Ranks that stop, or save, at the same place, whichever of them was asked. Each place they pass has a number, the same
// on all. They are held at their next place and say its number; the largest, plus one, is a place that nobody has
// passed. May import job, messages.
import { active, type From, type Job, type Member, tell } from "./job.ts";
import type { Wish } from "./messages.ts";

interface Round {
  readonly id: number;
  readonly what: Wish;
  readonly reason: string;
  readonly counts: Map<number, number>;
}

export interface Agreement {
  wish(message: From<"wish">): void;
  held(member: Member, message: From<"held">): void;
  /** Begins what had to wait; goes on without a rank that has left. */
  look(): void;
}

export function openAgreement(job: Job): Agreement {
  const wishes: From<"wish">[] = [];
  let round: Round | null = null;
  let rounds = 0, last = 0, stopping = false;

  const begin = () => {
    const next = wishes[0];
    if (round || !next) return;
    round = { ...next, id: ++rounds, counts: new Map() };
    tell(job, { is: "hold", id: rounds });
  };
  const conclude = () => {
    if (!round || !active(job).every(({ hello }) => round!.counts.has(hello.rank))) return;
    const { what, reason, counts } = round;
    const most = Math.max(0, ...counts.values());
    // Before everyone has passed the last place, another one would take its room: let them go on for a second.
    const early = Math.min(...counts.values()) < last;
    if (!early) {
      wishes.shift();
      last = most + 1;
      stopping ||= what === "stop";
    }
    round = null;
    tell(job, { is: "agreed", agreed: { at: early ? 0 : last, what, reason } });
  };
  return {
    wish(message) {
      const known = (other: From<"wish">) => other.what === message.what && other.reason === message.reason;
      if (stopping || wishes.some(known)) return;
      wishes.push(message);
      begin();
    },
    held({ hello }, { id, count }) {
      if (id === round?.id) round.counts.set(hello.rank, count);
      conclude();
    },
    look() {
      conclude();
      begin();
    },
  };
}
