// Requests to stop or save: signals, files and the clock set a flag that the loop polls.
import { UserError } from "../base/errors.ts";
import { startThread } from "../base/threads.ts";

export interface Requests {
  /** Why the run should stop after a save, or null. */
  stop(): string | null;
  /** True once for each request to save now. */
  takeSave(): boolean;
  /**
   * Has `near` looked at as often as the files are: it gives the reason to stop when the time that is left is little more
   * than a save takes ("90 s of the job's 3600 s are left"), null until then. `close` is called when requests are.
   */
  watchTime(near: () => string | null, close?: () => void): void;
  close(): void;
}

export interface RequestHandlers {
  /** Ctrl-C, when there was a request to stop before. */
  readonly secondInterrupt: () => void;
  /** Is called at the first signal, long before the loop looks, and when time is short. */
  readonly onRequest?: (reason: string, by: "signal" | "time") => void;
  /** True where requests are looked for within steps, where no JavaScript but the step's runs. */
  readonly busy?: boolean;
}

const BY_HAND = { file: "the file STOP", keys: "Ctrl-C" } as const;

/** True for a reason that is a person's wish, and no scheduler's. */
export const isByHand = (reason: string): boolean => reason === BY_HAND.file || reason === BY_HAND.keys;

/** Polling the two files costs a system call each, so they are looked at this often. */
const LOOK_MS = 1000;

/** The system has no others that can ask for something. */
const KNOWN = ["USR1", "USR2", "TERM", "INT", "HUP", "QUIT", "ALRM", "XCPU", "PWR"];
const USUAL = ["USR1", "USR2", "TERM", "INT"];

/** Signals that ask a run to stop after a save, from the setting cluster.stop_signals. */
export function stopSignals(names: readonly string[]): Deno.Signal[] {
  return (names.length === 0 ? USUAL : names).map((given) => {
    const name = given.trim().toUpperCase().replace(/^SIG/, "");
    if (KNOWN.includes(name)) return `SIG${name}` as Deno.Signal;
    throw new UserError(
      "usage",
      `--stop-signals: ${given} is no signal that can ask a run to stop. Give some of ${KNOWN.join(", ")}.`,
    );
  });
}

interface Early {
  reason: string | null;
  readonly end: () => void;
  /** Rejected by the first signal. */
  readonly requested: PromiseWithResolvers<never>;
}

let early: Early | null = null;

/**
 * From here on a scheduler's warning does not kill a process that has nothing to save yet: the run stops before its first
 * step. Who asks twice, or by Ctrl-C or SIGTERM, means at once: these keep their effect until there is something to save.
 */
export function catchEarlySignals(signals: readonly Deno.Signal[]): void {
  early?.end();
  const handlers = signals.filter((name) => name !== "SIGINT" && name !== "SIGTERM").map((name) => {
    const handler = () => {
      if (early === null || early.reason !== null) return;
      early.reason = name;
      early.requested.reject(nothingYet(name));
    };
    Deno.addSignalListener(name, handler);
    return [name, handler] as const;
  });
  const end = () => handlers.forEach(([name, handler]) => Deno.removeSignalListener(name, handler));
  early = { reason: null, end, requested: Promise.withResolvers() };
  early.requested.promise.catch(() => {}); // where nobody waits for anything, the first step looks
}

/** Work before the first step may take long: a scheduler's warning ends the wait for it. */
export const unlessStopped = <R>(work: Promise<R>): Promise<R> =>
  early === null ? work : Promise.race([work, early.requested.promise]);

const nothingYet = (name: string) =>
  new UserError(
    "stopped",
    `${name} came before the first step, while there was nothing to save. The same command begins, or goes on, where this ` +
      "one would have.",
  );

/** Without `runDir` signals alone count. */
export function watchRequests(
  runDir: string | null,
  { secondInterrupt, onRequest = () => {}, busy = false }: RequestHandlers,
  signals: readonly Deno.Signal[] = stopSignals([]),
): Requests {
  let reason: string | null = null;
  let lookedAt = -Infinity;
  let save = false;
  let timeIsShort = (): string | null => null;
  let closeTime = () => {};
  const ask = (why: string, by: "signal" | "time") => {
    if (reason !== null) return;
    reason = why;
    onRequest(why, by);
  };
  let echo: Deno.Signal | null = null; // the signal thread has it, and this thread not yet
  const signalThread: SignalThread | null = busy ? openSignalThread(signals) : null;
  const called = (name: Deno.Signal) => name === "SIGINT" ? BY_HAND.keys : name;
  const handlers = signals.map((name) => {
    const handler = () => {
      if (echo === name) return void (echo = null);
      if (name === "SIGINT" && reason !== null) secondInterrupt();
      ask(called(name), "signal");
    };
    Deno.addSignalListener(name, handler);
    return [name, handler] as const;
  });
  early?.end(); // only now, so that no signal finds nobody
  if (early?.reason) ask(early.reason, "signal");
  early = null;
  const look = () => {
    const now = performance.now();
    const came = reason === null ? signalThread?.first() ?? null : null;
    if (came !== null) {
      echo = came;
      ask(called(came), "signal");
    }
    if (runDir === null || now - lookedAt < LOOK_MS) return;
    lookedAt = now;
    if (remove(`${runDir}/STOP`)) reason ??= BY_HAND.file;
    if (remove(`${runDir}/SAVE`)) save = true;
    const short = reason === null ? timeIsShort() : null;
    if (short !== null) ask(short, "time");
  };
  return {
    stop() {
      look();
      return reason;
    },
    takeSave() {
      look();
      const requested = save;
      save = false;
      return requested;
    },
    watchTime(near, close = () => {}) {
      timeIsShort = near;
      closeTime = close;
    },
    close() {
      closeTime();
      signalThread?.close();
      for (const [name, handler] of handlers) Deno.removeSignalListener(name, handler);
    },
  };
}

/**
 * srun and MPI's launchers end the other ranks as soon as the first has ended with a code like 75. A rank that is at its own
 * end is not to be ended by that, with another code: nobody would put the job back into its queue.
 */
export function endByOneself(): void {
  Deno.addSignalListener("SIGTERM", () => {});
}

function remove(path: string): boolean {
  try {
    Deno.removeSync(path);
    return true;
  } catch {
    return false; // not there: no request
  }
}

// The signal thread: within a step no JavaScript of ours runs but the step's own, so that another thread receives the
// signals, and leaves the first where the training thread finds it by a look.

interface SignalThread {
  /** The first signal that came, or null. Costs a look at a word. */
  first(): Deno.Signal | null;
  close(): void;
}

/** The first message to the thread. */
export interface SignalThreadOptions {
  readonly signals: readonly Deno.Signal[];
  /** 0, or 1 + the place of the signal that came first. */
  readonly word: SharedArrayBuffer;
}

function openSignalThread(signals: readonly Deno.Signal[]): SignalThread {
  const word = new SharedArrayBuffer(4);
  const first = new Int32Array(word);
  const options: SignalThreadOptions = { signals, word };
  const thread = startThread(new URL("./signal_thread.ts", import.meta.url), "signals", options);
  return {
    first: () => signals[Atomics.load(first, 0) - 1] ?? null,
    close: thread.end,
  };
}
