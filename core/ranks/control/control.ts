// The training thread's end of the control plane. Everything here works without an event loop. A world of one
// has neither thread nor socket.
import { UserError } from "../../base/errors.ts";
import { startThread, type Thread } from "../../base/threads.ts";
import type { RankContext } from "../context.ts";
import { beatMs, type ControlTimeouts } from "./job.ts";
import { type FailureCause, type FirstError, JobFailed } from "./failure.ts";
import { type Agreed, type Hello, type RequestKind, type Runs, type Settings, unrolled } from "./messages.ts";
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
  PHASE,
  type Phase,
  PHASE_NUMBER,
  STEP,
} from "./shared.ts";
import type { ControlThreadAnswer, ControlThreadOptions, ThreadQuestion, ThreadRequest } from "./thread.ts";
import { createHash } from "node:crypto";

/** @internal */
export interface Control {
  /** By rank. */
  readonly hosts: readonly string[];
  readonly met: string;
  step(step: number): void;
  phase(phase: Phase): void;
  /**
   * Every rank calls it at the same places of the program. Gives what all ranks do at this place: stop, save,
   * or nothing. Throws when another rank has failed.
   */
  agreed(): Agreed | null;
  /** The coming agreement, and how many places it is away; null where there is none. */
  ahead(): { readonly what: RequestKind; readonly reason: string; readonly places: number } | null;
  /** Asks all ranks to do it at the next place that no rank has passed. */
  request(what: RequestKind, reason: string): void;
  barrier(name: string): void;
  /**
   * A barrier at which each rank gives all others a JSON value, in order of ranks; all values have 1 MiB at
   * most.
   */
  gather<T>(name: string, value: T): T[];
  /** It is never sent. */
  readonly key: Uint8Array;
  /** Numeric addresses. */
  readonly ends: { readonly own: string; readonly server: string };
  /** Every rank gets rank 0's JSON value. */
  broadcast<T>(value?: T): T;
  broadcastBytes(bytes?: Uint8Array): Uint8Array;
  /** Reports why this rank ends, and returns when the others know. A later failure is ignored. */
  fail(sentence: string, code: number, cause?: FailureCause): void;
  /** The first failure in the job, as this rank ends with it; null while there is none. */
  failure(): JobFailed | null;
  /** Reports of hangs go to this folder from now on: the run may get its name after ranks met. */
  runFolder(folder: string): void;
  close(): Promise<void>;
}

export interface ControlOptions {
  readonly where: RankContext;
  /** The same for all nodes and ranks; null where there is none. */
  readonly folder: string | null;
  readonly runFolder: string;
  readonly device: string | null;
  readonly versions: Readonly<Record<string, string>>;
  readonly settings: Settings;
  /** In seconds. */
  readonly timeout: number;
  readonly flight?: SharedArrayBuffer;
  readonly limits?: Partial<ControlTimeouts>;
}

/** Before the first step there is data to open and a graph to capture; a save may not count at all. */
const FIRST_STEP_MS = 30 * 60_000;
/** A missed wake-up costs no more than this. */
const POLL_MS = 500;
const NOTIFY_MS = 2000;
const ARRIVE_MS = 10 * 60_000, SILENCE_MS = 8000;
/** A rank that was not heard of for so many heartbeats is lost. */
const MISSED = 4;

export async function openControl(options: ControlOptions): Promise<Control> {
  const hello = helloOf(options);
  if (options.where.world === 1) return aloneControl(hello);
  const { where, folder, runFolder, settings, flight = null } = options;
  const stall = 1000 * options.timeout;
  const limits = {
    arrive: Math.min(ARRIVE_MS, stall),
    stall,
    firstStall: Math.max(FIRST_STEP_MS, stall),
    silence: Math.max(SILENCE_MS, MISSED * beatMs(options.where.world)),
    ...options.limits,
  };
  const memory = openControlMemory();
  const threadOptions: ControlThreadOptions = {
    where,
    folder,
    runFolder,
    hello,
    settings,
    limits,
    flight,
    shared: memory.shared,
  };
  const module = new URL("./thread.ts", import.meta.url);
  const thread: Thread<ControlThreadAnswer> = startThread(module, "control", threadOptions);
  const answer = await thread.next()
    .catch((error: Error): ControlThreadAnswer => ({ broken: { kind: null, text: error.message } }));
  if ("joined" in answer) return joinedControl(thread, memory, hello.rank, answer.joined);
  thread.end();
  if ("failed" in answer) throw new JobFailed(answer.failed, hello.rank);
  if (!("broken" in answer)) throw new Error("internal: the control thread closed before it had joined.");
  const { kind, text } = answer.broken;
  throw kind ? new UserError(kind, text) : new Error(`internal: the control thread: ${text}`);
}

function helloOf({ where, device, versions, settings }: ControlOptions): Hello {
  const { rank, world, localRank } = where;
  return {
    rank,
    world,
    localRank,
    host: Deno.hostname(),
    pid: Deno.pid,
    device,
    versions,
    settings: settingsHash(settings),
  };
}

function joinedControl(
  thread: Thread<ControlThreadAnswer>,
  memory: ControlMemory,
  rank: number,
  { hosts, met, key, ends }: Pick<Control, "hosts" | "met" | "key" | "ends">,
): Control {
  const { words, answer, error, agreed } = memory;
  const hasFailed = () => Atomics.load(words, FAILED) !== 0;
  const failure = () => hasFailed() ? new JobFailed(error.take<FirstError>(), rank) : null;
  const check = () => {
    const failed = failure();
    if (failed) throw failed;
  };
  const questions = openQuestions(thread, words, hasFailed);
  const request = (message: ThreadRequest) => thread.post(message);
  /** The phase of its own makes reports say that this rank is the one that waits. */
  const wait = (question: (id: number, n: number) => ThreadQuestion) => {
    const before = words[PHASE];
    setPhase(words, PHASE_NUMBER["waiting for ranks"]);
    questions.meet(question);
    check();
    setPhase(words, before);
  };
  let count = 0;
  const broadcast = <T>(value?: T): T => {
    if (rank === 0 && !answer.put(value)) throw new Error("internal: a broadcast of more than 1 MiB.");
    wait((id, n) => ({ id, ask: "value", n, ...rank === 0 ? { value: value ?? null } : {} }));
    return answer.take<T>();
  };
  return {
    hosts,
    met,
    key,
    ends,
    step(step) {
      words[STEP] = step;
      words[CHANGES]++;
    },
    phase: (phase) => setPhase(words, PHASE_NUMBER[phase]),
    agreed() {
      Atomics.store(words, COUNT, ++count);
      while (Atomics.load(words, HOLD) === 1 && !hasFailed()) Atomics.wait(words, HOLD, 1, POLL_MS);
      check();
      if (Atomics.load(words, AT) !== count) return null;
      Atomics.store(words, AT, 0);
      return agreed.take<Agreed>();
    },
    ahead() {
      const at = Atomics.load(words, AT);
      if (at === 0) return null;
      const { what, reason } = agreed.take<Agreed>();
      return { what, reason, places: at - count };
    },
    request: (what, reason) => request({ ask: "wish", what, reason: reason.slice(0, 400) }),
    barrier: (name) => wait((id, n) => ({ id, ask: "barrier", n, name })),
    gather<T>(name: string, value: T): T[] {
      wait((id, n) => ({ id, ask: "barrier", n, name, value }));
      return unrolled(answer.take<Runs<T>>());
    },
    broadcast,
    broadcastBytes: (bytes) => Uint8Array.from(broadcast(bytes && [...bytes])),
    fail(sentence, code, cause = { kind: "error" }) {
      if (!hasFailed()) questions.report({ sentence: sentence.slice(0, 4000), code, cause });
    },
    failure,
    runFolder: (folder) => request({ ask: "run folder", folder }),
    async close() {
      Atomics.store(words, LEAVING, 1);
      request({ ask: "close" });
      await thread.next().catch(() => {}); // a thread that broke has nothing left to close
      thread.end();
    },
  };
}

/**
 * Asks the control thread one question at a time. Barriers and values are counted as one: ranks meet in one
 * order.
 */
function openQuestions(
  thread: Thread<ControlThreadAnswer>,
  words: Int32Array<SharedArrayBuffer>,
  hasFailed: () => boolean,
) {
  let questions = 0, meetings = 0;
  const ask = (question: ThreadQuestion, mostMs = Infinity) => {
    const until = performance.now() + mostMs;
    thread.post(question);
    while (Atomics.load(words, ANSWERED) !== question.id) {
      if (hasFailed() || performance.now() > until) return;
      Atomics.wait(words, ANSWERED, question.id - 1, POLL_MS);
    }
  };
  return {
    report: (error: Pick<FirstError, "sentence" | "code" | "cause">) =>
      ask({ id: ++questions, ask: "failed", ...error }, NOTIFY_MS),
    meet: (question: (id: number, n: number) => ThreadQuestion) => ask(question(++questions, ++meetings)),
  };
}

function setPhase(words: Int32Array, number: number): void {
  if (words[PHASE] === number) return; // the same phase again is no headway
  words[PHASE] = number;
  words[CHANGES]++;
}

export function aloneControl(hello: Hello): Control {
  let due: Agreed | null = null;
  let count = 0;
  return {
    hosts: [hello.host],
    met: "",
    step() {},
    phase() {},
    agreed() {
      count++;
      const now = due;
      due = null;
      return now && { ...now, at: count };
    },
    ahead: () => due && { what: due.what, reason: due.reason, places: 1 },
    request: (what, reason) => void (due = due?.what === "stop" ? due : { at: 0, what, reason }),
    barrier() {},
    gather: (_, value) => [value],
    key: new Uint8Array(0),
    ends: { own: "127.0.0.1", server: "127.0.0.1" },
    broadcast: <T>(value?: T) => value as T,
    broadcastBytes: (bytes) => bytes!,
    fail() {},
    failure: () => null,
    runFolder() {},
    close: () => Promise.resolve(),
  };
}

/** The order of the settings does not matter. */
export function settingsHash(settings: Settings): string {
  const sorted = Object.keys(settings).sort().map((path) => [path, settings[path] ?? null]);
  return createHash("sha256").update(JSON.stringify(sorted)).digest("hex").slice(0, 16);
}
