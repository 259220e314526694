// The control thread (entry of a Worker): it talks to the server while the training thread is inside native
// calls, and ends this process when that thread can't. On rank 0 it runs the server too.
import { cleanConsole } from "../../base/terminal.ts";
import { endProcess } from "../../../ffi/libc.ts";
import { EXIT, refused, UserError } from "../../base/errors.ts";
import { type FlightRecorder, lastRecorded, openFlightRecorder, progress } from "../flight_recorder.ts";
import type { RankContext } from "../context.ts";
import { type Client, join, zeroIsGone } from "./client.ts";
import { type FailureCause, type FirstError, JobFailed } from "./failure.ts";
import { findServers, openRankZero, type RankZero } from "./rendezvous.ts";
import { wholeSeconds } from "./hang.ts";
import { beatMs, type ControlTimeouts } from "./job.ts";
import type { Hello, RequestKind, Settings, ToRank } from "./messages.ts";
import {
  ANSWERED,
  AT,
  CHANGES,
  type ControlMemory,
  COUNT,
  FAILED,
  HOLD,
  LEAVING,
  openControlMemory,
  PATIENT,
  PHASE,
  PHASES,
  STEP,
} from "./shared.ts";
import type { ThreadScope } from "../../base/threads.ts";
import { writeEarlyEnd } from "../launch/rank.ts";

cleanConsole(); // this thread has one of its own

declare const self: ThreadScope;

export interface ControlThreadOptions {
  readonly where: RankContext;
  readonly folder: string | null;
  readonly runFolder: string;
  readonly hello: Hello;
  readonly settings: Settings;
  readonly limits: ControlTimeouts;
  readonly shared: SharedArrayBuffer;
  readonly flight: SharedArrayBuffer | null;
}

export type ThreadQuestion =
  | {
    readonly id: number;
    readonly ask: "barrier";
    readonly n: number;
    readonly name: string;
    readonly value?: unknown;
  }
  | { readonly id: number; readonly ask: "value"; readonly n: number; readonly value?: unknown }
  | {
    readonly id: number;
    readonly ask: "failed";
    readonly cause: FailureCause;
    readonly sentence: string;
    readonly code: number;
  };

export type ThreadRequest =
  | ThreadQuestion
  | { readonly ask: "wish"; readonly what: RequestKind; readonly reason: string }
  | { readonly ask: "run folder"; readonly folder: string }
  | { readonly ask: "close" };

export type ControlThreadAnswer =
  | {
    readonly joined: { readonly met: string } & Pick<Client, "hosts" | "key" | "ends">;
  }
  | { readonly failed: FirstError }
  | { readonly broken: { readonly kind: UserError["kind"] | null; readonly text: string } }
  | { readonly closed: true };

const post = (answer: ControlThreadAnswer) => self.postMessage(answer);

self.onmessage = async ({ data: options }: MessageEvent<ControlThreadOptions>) => {
  try {
    const zero = options.hello.rank === 0 ? openRankZero(options) : null;
    const find = zero?.find ?? findServers(options);
    const { arrive, silence } = options.limits;
    const client = await join({ ...options, find, arrive, silence }).catch(async (error) => {
      await zero?.close();
      throw error;
    });
    const met = zero
      ? zero.met
      : `Rank ${options.hello.rank} met rank 0 at ${client.address.hostname}:${client.address.port}.`;
    serve(options, client, zero);
    post({ joined: { hosts: client.hosts, met, key: client.key, ends: client.ends } });
  } catch (cause) {
    const error = refused(cause, "communication");
    if (error instanceof JobFailed) post({ failed: error.first });
    else if (error instanceof UserError) post({ broken: { kind: error.kind, text: error.message } });
    else post({ broken: { kind: null, text: error instanceof Error ? `${error.stack}` : String(error) } });
  }
};

function serve(options: ControlThreadOptions, client: Client, zero: RankZero | null): void {
  const memory = openControlMemory(options.shared), { words } = memory;
  const flight = options.flight && openFlightRecorder(options.flight);
  const messages = openServerMessages(memory, options.hello.rank, client, flight);
  const every = beatMs(options.hello.world);
  let leaving = false;

  for (const event of ["error", "unhandledrejection"]) self.addEventListener(event, broken);
  const zeroIsLost = (why: string) => leaving || messages.fail(zeroIsGone(client.hosts[0], why));
  const beat = openBeat(words, flight, client);
  beat();
  let ticked = performance.now();
  const ticks = setInterval(() => {
    beat();
    const asleep = performance.now() - ticked > 3 * every; // stopped itself: what came meanwhile is still unread
    ticked = performance.now();
    if (asleep || client.silence() < options.limits.silence) return;
    zeroIsLost(`was not heard of for ${wholeSeconds(client.silence())} (its node or the network is down)`);
  }, every);
  client.listen(messages.receive).then((goodbye) => {
    if (goodbye) clearInterval(ticks); // rank 0 has ended well, and nobody listens any more
    else zeroIsLost("is gone: its process ended without a word (killed, or out of memory?)");
  });

  self.onmessage = async ({ data }: MessageEvent<ThreadRequest>) => {
    if (data.ask === "run folder") return zero?.keepIn(data.folder);
    if (data.ask === "wish") return client.send({ is: "wish", what: data.what, reason: data.reason });
    if (data.ask !== "close") return answer(data, words, client, messages);
    leaving = true;
    client.send({ is: "goodbye" });
    await client.flushed();
    await zero?.close();
    clearInterval(ticks);
    client.close();
    post({ closed: true });
  };
}

function answer(question: ThreadQuestion, words: Int32Array, client: Client, messages: ServerMessages): void {
  const { id, ask } = question;
  if (ask === "barrier") {
    messages.expect(`barrier ${question.n}`, id);
    const { n, name, value } = question;
    client.send({ is: "barrier", n, name, value });
  } else if (ask === "failed") {
    messages.expect("noted", id);
    const { cause, sentence, code } = question;
    client.send({ is: "failed", step: words[STEP], cause, sentence, code });
  } else {
    messages.expect(`value ${question.n}`, id);
    if (!("value" in question)) return;
    client.send({ is: "value", n: question.n, value: question.value });
    messages.came(`value ${question.n}`, question.value);
  }
}

function broken(event: Event): never {
  const { error, reason = error } = event as Event & { error?: unknown; reason?: unknown };
  console.error(`internal: the control thread: ${reason instanceof Error ? reason.stack : reason}`);
  endProcess(EXIT.internal);
}

function openBeat(
  words: Int32Array,
  flight: ReturnType<typeof openFlightRecorder> | null,
  client: Client,
): () => void {
  let last = "", since = performance.now();
  return () => {
    const step = Atomics.load(words, STEP), changes = Atomics.load(words, CHANGES);
    const { queued, begun, ended } = flight ? progress(flight) : { queued: 0, begun: 0, ended: 0 };
    const now = [step, changes, queued, begun, ended].join();
    if (now !== last) since = performance.now();
    last = now;
    const phase = PHASES[Atomics.load(words, PHASE)];
    const idleMs = Math.round(performance.now() - since);
    client.send({ is: "beat", beat: { step, phase, still: idleMs, queued, begun, ended } });
  };
}

// The server's messages go to where the training thread finds them without an event loop.

interface ServerMessages {
  receive(message: ToRank): void;
  fail(error: FirstError): void;
  /** The training thread waits for it, under this number. It may have come before. */
  expect(what: string, id: number): void;
  came(what: string, value?: unknown): void;
}

/** The training thread may end by itself before this; longer when it is saving. */
const GRACE_MS = 3000, SAVING_MS = 60_000;

function openServerMessages(
  { words, answer, error: firstError, agreed: agreement }: ControlMemory,
  rank: number,
  client: Client,
  flight: FlightRecorder | null,
): ServerMessages {
  const expected = new Map<string, number>();
  const early = new Map<string, unknown>();

  const came = (what: string, value?: unknown) => {
    const id = expected.get(what);
    if (id === undefined) return void early.set(what, value);
    expected.delete(what);
    answer.put(value);
    Atomics.store(words, ANSWERED, id);
    Atomics.notify(words, ANSWERED);
  };
  const fail = (error: FirstError) => {
    if (Atomics.load(words, FAILED) !== 0) return;
    firstError.put(error);
    Atomics.store(words, FAILED, 1);
    for (const word of [ANSWERED, HOLD]) Atomics.notify(words, word);
    const { othersSentence, namesRank } = error;
    const code = error.rank === rank ? error.code : error.othersCode;
    writeEarlyEnd(code, othersSentence, namesRank ? error.rank : null);
    endLater(words, othersSentence, code);
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
    receive(message) {
      if (message.is === "error") fail(message.error);
      else if (message.is === "noted") came("noted");
      else if (message.is === "passed") came(`barrier ${message.n}`, message.values);
      else if (message.is === "value") came(`value ${message.n}`, message.value);
      else if (message.is === "flight?") {
        client.send({ is: "flight", flight: flight ? lastRecorded(flight) : [] });
      } else if (message.is === "hold") {
        Atomics.store(words, HOLD, 1);
        // After this store the count includes a place that was passed without seeing it.
        // One that waits here for the round to end has not yet taken what was agreed on for this place.
        const count = Atomics.load(words, COUNT), at = Atomics.load(words, AT);
        client.send({ is: "held", id: message.id, count: at === 0 ? count : Math.min(count, at - 1) });
      } else if (message.is === "agreed") {
        const { agreed } = message;
        if (agreed.at > 0) agreement.put(agreed);
        if (agreed.at > 0) Atomics.store(words, AT, agreed.at);
        Atomics.store(words, HOLD, 0);
        Atomics.notify(words, HOLD);
      }
    },
  };
}

/** A training thread that hangs in a native call, because another rank is gone, can't end this process. */
function endLater(words: Int32Array, sentence: string, code: number): void {
  const began = performance.now();
  const timer = setInterval(() => {
    if (Atomics.load(words, LEAVING) === 1) return clearInterval(timer);
    const saving = PHASES[Atomics.load(words, PHASE)] === PATIENT;
    if (performance.now() - began < (saving ? SAVING_MS : GRACE_MS)) return;
    console.error(`hpctrain: ${sentence}`);
    endProcess(code || EXIT.communication);
  }, 100);
}
