// The control thread: talks to the server while the training thread is inside native calls, and ends this process when
// that thread can't. Rank 0's is the server too. May import its siblings, flight, where, ffi/end_process.
import { cleanConsole } from "../../terminal.ts";
import { endProcess } from "../../../ffi/end_process.ts";
import { EXIT, refused, UserError } from "../../errors.ts";
import { openFlight, progress } from "../flight.ts";
import type { Where } from "../where.ts";
import { type Client, JobFailed, join, zeroIsGone } from "./client.ts";
import { lookFor, openRankZero, type RankZero } from "./rendezvous.ts";
import { seconds } from "./hang.ts";
import type { Limits } from "./job.ts";
import type { FirstError, Hello, Seat, Settings, Wish } from "./messages.ts";
import { type News, openNews } from "./news.ts";
import { PHASES } from "./phases.ts";
import { CHANGES, PHASE, type Shared, STEP } from "./words.ts";
import type { ThreadScope } from "../../thread_scope.ts";

cleanConsole(); // this thread has one of its own

declare const self: ThreadScope;

/** What a thread is started with. */
export interface Orders {
  readonly where: Where;
  readonly folder: string | null;
  readonly runFolder: string;
  readonly hello: Hello;
  readonly settings: Settings;
  readonly limits: Limits;
  readonly shared: Shared;
  readonly flight: SharedArrayBuffer | null;
}

/** What the training thread waits for. */
export type Question =
  | {
    readonly id: number;
    readonly ask: "barrier";
    readonly n: number;
    readonly name: string;
    readonly value?: unknown;
  }
  | { readonly id: number; readonly ask: "value"; readonly n: number; readonly value?: unknown }
  | { readonly id: number; readonly ask: "failed"; readonly sentence: string; readonly code: number };

export type Ask =
  | Question
  | { readonly ask: "wish"; readonly what: Wish; readonly reason: string }
  | { readonly ask: "run folder"; readonly folder: string }
  | { readonly ask: "close" };

export type Said =
  | {
    readonly open: { readonly seats: readonly Seat[]; readonly met: string } & Pick<Client, "key" | "ends">;
  }
  | { readonly failed: FirstError }
  | { readonly wrong: { readonly kind: UserError["kind"] | null; readonly text: string } }
  | { readonly closed: true };

const BEAT_MS = 1000;

const post = (said: Said) => self.postMessage(said);

self.onmessage = async ({ data: orders }: MessageEvent<Orders>) => {
  try {
    const zero = orders.hello.rank === 0 ? openRankZero(orders) : null;
    const look = zero?.look ?? lookFor(orders);
    const { arrive, silence } = orders.limits;
    const client = await join({ ...orders, look, arrive, silence }).catch(async (error) => {
      await zero?.close();
      throw error;
    });
    const met = zero
      ? zero.said
      : `Rank ${orders.hello.rank} met rank 0 at ${client.address.hostname}:${client.address.port}.`;
    serve(orders, client, zero);
    post({ open: { seats: client.seats, met, key: client.key, ends: client.ends } });
  } catch (cause) {
    const error = refused(cause, "communication");
    if (error instanceof JobFailed) post({ failed: error.first });
    else if (error instanceof UserError) post({ wrong: { kind: error.kind, text: error.message } });
    else post({ wrong: { kind: null, text: error instanceof Error ? `${error.stack}` : String(error) } });
  }
};

function serve(orders: Orders, client: Client, zero: RankZero | null): void {
  const words = new Int32Array(orders.shared.words);
  const flight = orders.flight && openFlight(orders.flight);
  const news = openNews(orders.shared, orders.hello.rank, client, flight);
  let leaving = false;

  // Without this thread the training thread would wait for ever.
  for (const event of ["error", "unhandledrejection"]) self.addEventListener(event, broken);
  const zeroIsLost = (why: string) => leaving || news.fail(zeroIsGone(client.seats[0].host, why));
  const beat = openBeat(words, flight, client);
  beat();
  let ticked = performance.now();
  const ticks = setInterval(() => {
    beat();
    const asleep = performance.now() - ticked > 3 * BEAT_MS; // stopped itself: what came meanwhile is still unread
    ticked = performance.now();
    if (asleep || client.silence() < orders.limits.silence) return;
    zeroIsLost(`was not heard of for ${seconds(client.silence())} (its node or the network is down)`);
  }, BEAT_MS);
  client.listen(news.heard).then((goodbye) => {
    if (goodbye) clearInterval(ticks); // rank 0 has ended well, and nobody listens any more
    else zeroIsLost("is gone: its process ended without a word (killed, or out of memory?)");
  });

  self.onmessage = async ({ data }: MessageEvent<Ask>) => {
    if (data.ask === "run folder") return zero?.keepIn(data.folder);
    if (data.ask === "wish") return client.send({ is: "wish", what: data.what, reason: data.reason });
    if (data.ask !== "close") return answer(data, words, client, news);
    leaving = true;
    client.send({ is: "goodbye" });
    await client.flushed();
    await zero?.close();
    clearInterval(ticks);
    client.close();
    post({ closed: true });
  };
}

/** A question for which the training thread waits. */
function answer(question: Question, words: Int32Array, client: Client, news: News): void {
  const { id, ask } = question;
  if (ask === "barrier") {
    news.expect(`barrier ${question.n}`, id);
    const { n, name, value } = question;
    client.send({ is: "barrier", n, name, value });
  } else if (ask === "failed") {
    news.expect("noted", id);
    const { sentence, code } = question;
    client.send({ is: "failed", step: words[STEP], sentence, code });
  } else {
    news.expect(`value ${question.n}`, id);
    if (!("value" in question)) return;
    client.send({ is: "value", n: question.n, value: question.value });
    news.came(`value ${question.n}`, question.value);
  }
}

function broken(event: Event): never {
  const { error, reason = error } = event as Event & { error?: unknown; reason?: unknown };
  console.error(`internal: the control thread: ${reason instanceof Error ? reason.stack : reason}`);
  endProcess(EXIT.internal);
}

/** Sends where the training thread is, and for how long it has been there. */
function openBeat(
  words: Int32Array,
  flight: ReturnType<typeof openFlight> | null,
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
    const still = Math.round(performance.now() - since);
    client.send({ is: "beat", beat: { step, phase, still, queued, begun, ended } });
  };
}
