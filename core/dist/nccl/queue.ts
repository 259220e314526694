// Puts collectives onto NCCL's stream, behind what is computed so far, and lets what is computed next wait for them.
// May import ffi, desk, collectives, flight, errors.
import type { CudaEvents } from "../../../ffi/cuda_events.ts";
import { type Comm, inProgress, type Nccl } from "../../../ffi/nccl/nccl.ts";
import { UserError } from "../../errors.ts";
import type { Ticket } from "../collectives.ts";
import { begin, type CollectiveName, COLLECTIVES, enter, type Flight, progress } from "../flight.ts";
import * as desk from "./desk.ts";

/** NCCL's own stream, and the one on which is computed now. */
export interface Streams {
  readonly stream: bigint;
  readonly computing: () => bigint;
}

interface Parts extends Streams {
  readonly nccl: Nccl;
  readonly comm: Comm;
  readonly events: CudaEvents;
  readonly here: desk.Desk;
  readonly flight: Flight;
  /** Seconds. */
  readonly timeout: number;
}

export type Put = (
  verb: CollectiveName,
  phase: string,
  bytes: number,
  call: (stream: bigint) => number,
) => Ticket;

export interface Queue {
  /** `call` gives NCCL's code. */
  readonly put: Put;
  done(ticket: Ticket): boolean;
  /** The stream waits, not the host. */
  wait(ticket: Ticket): void;
  /** The host waits, for all. */
  drain(): void;
  /** Every later call but `done` throws this reason. */
  stop(reason: string): void;
  /** Whether somebody was told why it stopped. */
  told(): boolean;
}

export function openQueue(parts: Parts): Queue {
  const { events, here, flight, stream, computing } = parts;
  let reason: string | null = null, told = false, waits = 0;
  const check = () => {
    const why = reason ?? desk.failure(here);
    if (why === null) return;
    told = true;
    throw new UserError("communication", why);
  };
  const done = (ticket: Ticket) =>
    ticket <= progress(flight).ended || events.done(desk.eventOf(here, ticket, desk.DONE));
  const until = (ticket: Ticket) => {
    while (progress(flight).ended < ticket) {
      check();
      pause(here);
    }
  };
  return {
    put(verb, phase, bytes, call) {
      check();
      until(progress(flight).queued + 1 - desk.SLOTS); // whose slot it takes
      const ticket = enter(flight, COLLECTIVES.indexOf(verb), bytes, phase);
      const ready = desk.eventOf(here, ticket, desk.READY);
      events.record(ready, computing());
      events.wait(stream, ready);
      events.record(desk.eventOf(here, ticket, desk.BEGUN), stream);
      if (bytes > 0) accept(parts, call(stream), `${verb} ${ticket} (${phase})`, check);
      begin(flight, ticket);
      events.record(desk.eventOf(here, ticket, desk.DONE), stream);
      Atomics.store(here.words, desk.QUEUED, ticket | 0);
      Atomics.notify(here.words, desk.QUEUED);
      return ticket;
    },
    done,
    wait(ticket) {
      check();
      if (done(ticket)) return;
      // More waits at once than can be measured: those beyond are waited for all the same.
      const measured = desk.reached(here, desk.MEASURED, waits + 1 - desk.PAIRS) ? ++waits : 0;
      const at = computing();
      if (measured) events.record(desk.pairOf(here, measured, 0), at);
      events.wait(at, desk.eventOf(here, ticket, desk.DONE));
      if (!measured) return;
      events.record(desk.pairOf(here, measured, 1), at);
      Atomics.store(here.words, desk.WAITS, measured | 0);
    },
    drain() {
      check(); // a stream does not throw: it may have failed since the last call
      until(progress(flight).queued);
    },
    stop(why) {
      reason ??= why;
    },
    told: () => told || reason !== null,
  };
}

/** NCCL may go on with a call in a thread of its own (the first one connects the ranks): it is not to be hurried. */
function accept({ nccl, comm, here, timeout }: Parts, code: number, what: string, check: () => void): void {
  const late = performance.now() + 1000 * timeout;
  const fail = (why: string) => desk.fail(here, `Communication between ranks failed in ${what}: ${why}.`);
  for (; inProgress(code); code = nccl.state(comm)) {
    if (performance.now() > late) fail(`NCCL did not begin it in ${timeout} s (--timeout)`);
    check();
    pause(here);
  }
  if (code !== 0) fail(`${nccl.text(code, comm)} (${nccl.version})`); // unless the watching thread was first
  check();
}

const pause = ({ words }: desk.Desk): void => void Atomics.wait(words, desk.FAILED, 0, 1);
