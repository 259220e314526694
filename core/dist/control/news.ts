// What the server tells this rank, put where its training thread finds it without an event loop. May import client, errors,
// flight, launch/rank, messages, phases, words, ffi/end_process.
import { endProcess } from "../../../ffi/end_process.ts";
import { EXIT } from "../../errors.ts";
import { type Flight, lastFlown } from "../flight.ts";
import { leaveEarly } from "../launch/rank.ts";
import type { Client } from "./client.ts";
import type { FirstError, ToRank } from "./messages.ts";
import { PATIENT, PHASES } from "./phases.ts";
import * as shared from "./words.ts";

export interface News {
  heard(message: ToRank): void;
  fail(error: FirstError): void;
  /** The training thread waits for it, under this number. It may have come before. */
  expect(what: string, id: number): void;
  came(what: string, value?: unknown): void;
}

/** For the training thread to end by itself after a failure; longer when it is saving. */
const GRACE_MS = 3000, SAVING_MS = 60_000;

export function openNews(room: shared.Shared, rank: number, client: Client, flight: Flight | null): News {
  const words = new Int32Array(room.words);
  const expected = new Map<string, number>();
  const early = new Map<string, unknown>();

  const came = (what: string, value?: unknown) => {
    const id = expected.get(what);
    if (id === undefined) return void early.set(what, value);
    expected.delete(what);
    shared.put(room, shared.ANSWER, value);
    Atomics.store(words, shared.ANSWERED, id);
    Atomics.notify(words, shared.ANSWERED);
  };
  const fail = (error: FirstError) => {
    if (Atomics.load(words, shared.FAILED) !== 0) return;
    shared.put(room, shared.ERROR, error);
    Atomics.store(words, shared.FAILED, 1);
    for (const word of [shared.ANSWERED, shared.HOLD]) Atomics.notify(words, word);
    const code = error.rank === rank ? error.code : error.others;
    leaveEarly(code, error.told);
    endLater(words, error.told, code);
  };
  return {
    came,
    fail,
    expect(what, id) {
      expected.set(what, id);
      if (!early.has(what)) return;
      came(what, early.get(what));
      early.delete(what);
    },
    heard(message) {
      if (message.is === "error") fail(message.error);
      else if (message.is === "noted") came("noted");
      else if (message.is === "passed") came(`barrier ${message.n}`, message.values);
      else if (message.is === "value") came(`value ${message.n}`, message.value);
      else if (message.is === "flight?") {
        client.send({ is: "flight", flight: flight ? lastFlown(flight) : [] });
      } else if (message.is === "hold") {
        Atomics.store(words, shared.HOLD, 1);
        // After this store: a place that was passed without seeing it is in the count.
        client.send({ is: "held", id: message.id, count: Atomics.load(words, shared.COUNT) });
      } else if (message.is === "agreed") {
        const { agreed } = message;
        if (agreed.at > 0) shared.put(room, shared.AGREED, agreed);
        if (agreed.at > 0) Atomics.store(words, shared.AT, agreed.at);
        Atomics.store(words, shared.HOLD, 0);
        Atomics.notify(words, shared.HOLD);
      }
    },
  };
}

/** A training thread that hangs in a native call, because another rank is no more, can't end this process. */
function endLater(words: Int32Array, told: string, code: number): void {
  const began = performance.now();
  const timer = setInterval(() => {
    if (Atomics.load(words, shared.LEAVING) === 1) return clearInterval(timer);
    const saving = PHASES[Atomics.load(words, shared.PHASE)] === PATIENT;
    if (performance.now() - began < (saving ? SAVING_MS : GRACE_MS)) return;
    console.error(`hpctrain: ${told}`);
    endProcess(code || EXIT.communication);
  }, 100);
}
