// The training thread's end of the ring: commands go in, and it sleeps until they are done.
import { UserError } from "../../errors.ts";
import type { Ticket } from "../collectives.ts";
import { type CollectiveName, COLLECTIVES, enter, type Flight } from "../flight.ts";
import {
  AWAITED,
  DONE,
  failure,
  OP,
  openRing,
  QUEUED,
  reached,
  slotOf,
  SLOTS,
  VERB,
  WHAT,
  wordsOf,
} from "./ring.ts";

export interface Queue {
  /** For the thread that communicates. */
  readonly shared: SharedArrayBuffer;
  /** `what`: the type's number, or the rank that a broadcast comes from. */
  put(
    verb: CollectiveName,
    phase: string,
    bytes: number,
    count: number,
    into: bigint,
    from: bigint,
    what?: number,
    op?: number,
  ): Ticket;
  done(ticket: Ticket): boolean;
  until(ticket: Ticket): void;
  /** The address that it has answered a command with that is done, and the last. */
  answer(ticket: Ticket): bigint;
  /** Every later call but `done` throws this reason. */
  stop(reason: string): void;
  /** Why it stopped, or the thread did. */
  stopped(): string | null;
}

/** `failed`: why no rank will come any more, as somebody else knows who watches them. */
export function openQueue(flight: Flight, failed: () => string | null): Queue {
  const ring = openRing();
  const { words, counts, addresses } = ring;
  let reason: string | null = null;
  const stopped = () => reason ?? failure(ring) ?? failed();
  const check = () => {
    const why = stopped();
    if (why !== null) throw new UserError("communication", why);
  };
  /** Sleeps at once: looking for a moment first is slower, as it keeps a core from the threads that are waited for. */
  const until = (ticket: Ticket) => {
    Atomics.store(words, AWAITED, 1);
    while (!reached(ring, DONE, ticket)) {
      check();
      const done = Atomics.load(words, DONE);
      // In slices: a failure may come between the check and the wait.
      if (((done - ticket) | 0) < 0) Atomics.wait(words, DONE, done, 100);
    }
    Atomics.store(words, AWAITED, 0);
  };
  return {
    shared: ring.shared,
    put(verb, phase, bytes, count, into, from, what = 0, op = 0) {
      check();
      const number = COLLECTIVES.indexOf(verb);
      const ticket = enter(flight, number, bytes, phase);
      if (ticket > SLOTS) until(ticket - SLOTS);
      const slot = slotOf(ticket), at = wordsOf(slot);
      words[at + VERB] = number;
      words[at + WHAT] = what;
      words[at + OP] = op;
      counts[slot] = count;
      addresses[2 * slot] = into;
      addresses[2 * slot + 1] = from;
      Atomics.store(words, QUEUED, ticket | 0);
      Atomics.notify(words, QUEUED);
      return ticket;
    },
    done: (ticket) => reached(ring, DONE, ticket),
    until,
    answer: (ticket) => addresses[2 * slotOf(ticket)],
    stop(why) {
      reason ??= why;
    },
    stopped,
  };
}
