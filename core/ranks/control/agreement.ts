// Ranks that stop, or save, at the same place, whichever of them wants it. Each place they pass has a number,
// the same on all. They are held at their next place and send its number; the largest, plus one, is a place
// that no rank has passed.
import { active, activeCount, type ControlJob, type From, type Member, send } from "./job.ts";
import type { RequestKind } from "./messages.ts";

interface AgreementRound {
  readonly id: number;
  readonly what: RequestKind;
  readonly reason: string;
  readonly counts: Map<number, number>;
}

interface Agreement {
  request(message: From<"wish">): void;
  held(member: Member, message: From<"held">): void;
  /** Begins what had to wait; goes on without a rank that has gone. */
  poll(): void;
}

export function openAgreement(job: ControlJob): Agreement {
  const requests: From<"wish">[] = [];
  let round: AgreementRound | null = null;
  let rounds = 0, last = 0, stopping = false;

  const begin = () => {
    const next = requests[0];
    if (round || !next) return;
    round = { ...next, id: ++rounds, counts: new Map() };
    send(job, { is: "hold", id: rounds });
  };
  const conclude = () => {
    if (!round) return;
    const { what, reason, counts } = round;
    if (counts.size < activeCount(job)) return;
    if (!active(job).every(({ hello }) => counts.has(hello.rank))) return;
    const most = Math.max(0, ...counts.values());
    // Before every rank has passed the last place, another agreement would take its room: let them go on for
    // a second.
    const early = Math.min(...counts.values()) < last;
    if (!early) {
      requests.shift();
      last = most + 1;
      stopping ||= what === "stop";
    }
    round = null;
    send(job, { is: "agreed", agreed: { at: early ? 0 : last, what, reason } });
  };
  return {
    request(message) {
      const known = (other: From<"wish">) => other.what === message.what && other.reason === message.reason;
      if (stopping || requests.some(known)) return;
      requests.push(message);
      begin();
    },
    held({ hello }, { id, count }) {
      if (id === round?.id) round.counts.set(hello.rank, count);
      conclude();
    },
    poll() {
      conclude();
      begin();
    },
  };
}
