// Requests to stop or save: signals, files and the clock set a flag that the loop polls.
import { UserError } from "../base/errors.ts";
import { startThread } from "../base/threads.ts";
import { endOnInterrupt, heedInterrupts, isHangUpIgnored, onSignal } from "../../ffi/signals.ts";

export interface Requests {
  /** The reason to stop after a save. */
  stop(): string | null;
  /** True once for each request. */
  takeSave(): boolean;
  /** `near` gives the reason to stop when little more time is left than a save takes. */
  watchTime(near: () => string | null, close?: () => void): void;
  close(): void;
}

interface RequestHandlers {
  /** A Ctrl-C after an earlier request to stop. */
  readonly secondInterrupt: () => void;
  /** Called at the first signal, and when time is short. */
  readonly onRequest?: (reason: string, by: "signal" | "time") => void;
  /** Requests are looked for within steps, where no other JavaScript runs. */
  readonly busy?: boolean;
}

const BY_HAND = { file: "the file STOP", keys: "Ctrl-C" } as const;

/** A person wants it, and no scheduler. */
const isByHand = (reason: string): boolean => reason === BY_HAND.file || reason === BY_HAND.keys;

/** How a run ends. */
export interface Ending {
  /** The summary begins with it. */
  readonly outcome: string;
  /** A request stopped the run, and it can go on. */
  readonly stopped: boolean;
  /** A job script does not put the job back into its queue then. */
  readonly byHand: boolean;
}

export const ended = (outcome: string): Ending => ({ outcome, stopped: false, byHand: false });

export const stoppedFor = (reason: string): Ending => ({
  outcome: `Stopped on request (${reason})`,
  stopped: true,
  byHand: isByHand(reason),
});

/** Polling the two files costs a system call each. */
const POLL_MS = 1000;

const KNOWN = ["USR1", "USR2", "TERM", "INT", "HUP", "QUIT", "ALRM", "XCPU", "PWR"];
const USUAL = ["USR1", "USR2", "TERM", "INT"];

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

/**
 * Each signal has one listener from its first catch on, and only who is told of it changes: the early handlers,
 * then the run's, then nobody. A signal without a listener would end the process.
 */
const caught = new Map<Deno.Signal, () => void>();
let receive: (name: Deno.Signal) => void = () => {};

function catchSignals(names: readonly Deno.Signal[]): void {
  for (const name of names) {
    if (!caught.has(name)) caught.set(name, onSignal(name, () => receive(name)));
  }
}

/** A program of the user's own gets its signals back when its run is over. The executable's stay caught until it is gone. */
export function giveSignalsBack(): void {
  for (const end of caught.values()) end();
  caught.clear();
  receive = () => {};
  early = null;
  heedInterrupts();
}

let requested = false;

/**
 * The run is over, and from here on no signal changes how the process ends: a scheduler may repeat its warning,
 * and srun and MPI's launchers end the other ranks when the first has ended with a code like 75, without which
 * nobody would requeue the job. Returns whether somebody has asked for the end.
 */
export function outlastSignals(): boolean {
  receive = () => {};
  catchSignals([...stopSignals([]), ...(isHangUpIgnored() ? [] : ["SIGHUP"] as const)]);
  heedInterrupts();
  return requested;
}

interface Early {
  reason: string | null;
  /** The first signal rejects it. */
  readonly requested: PromiseWithResolvers<never>;
}

let early: Early | null = null;

/**
 * A scheduler's warning does not kill a process that has nothing to save yet: the run stops before its first
 * step. Ctrl-C and SIGTERM keep their effect.
 */
export function catchEarlySignals(signals: readonly Deno.Signal[]): void {
  const now: Early = early = { reason: null, requested: Promise.withResolvers() };
  now.requested.promise.catch(() => {}); // the first step looks where nobody waits
  requested = false;
  receive = (name) => {
    if (now.reason !== null) return;
    now.reason = name;
    requested = true;
    now.requested.reject(nothingYet(name));
  };
  catchSignals(signals.filter((name) => name !== "SIGINT" && name !== "SIGTERM"));
}

/** A scheduler's warning ends the wait for work before the first step. */
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
    requested = true;
    onRequest(why, by);
  };
  let echo: Deno.Signal | null = null; // the signal thread has it, and this thread not yet
  const signalThread = busy ? openSignalThread(signals) : null;
  const called = (name: Deno.Signal) => name === "SIGINT" ? BY_HAND.keys : name;
  receive = (name) => {
    if (echo === name) return void (echo = null);
    if (name === "SIGINT" && reason !== null) secondInterrupt();
    ask(called(name), "signal");
  };
  catchSignals(signals);
  if (early?.reason) ask(early.reason, "signal");
  early = null;
  const poll = () => {
    const now = performance.now();
    const came = reason === null ? signalThread?.first() ?? null : null;
    if (came !== null) {
      echo = came;
      ask(called(came), "signal");
    }
    if (runDir === null || now - lookedAt < POLL_MS) return;
    lookedAt = now;
    if (remove(`${runDir}/STOP`)) reason ??= BY_HAND.file;
    if (remove(`${runDir}/SAVE`)) save = true;
    const short = reason === null ? timeIsShort() : null;
    if (short !== null) ask(short, "time");
  };
  return {
    stop() {
      poll();
      return reason;
    },
    takeSave() {
      poll();
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
      receive = () => {};
    },
  };
}

/** A run's own: only the first rank has a folder, and so sees the files STOP and SAVE. */
export const openRequests = (
  folder: string | null,
  warn: (message: string) => void,
  { signals, busy }: { readonly signals: readonly string[]; readonly busy: boolean },
): Requests =>
  watchRequests(folder, {
    busy,
    secondInterrupt: () => Deno.exit(130),
    onRequest(reason, by) {
      endOnInterrupt(); // the save that follows may be long, and no JavaScript runs during it
      if (by === "time") warn(`Stopping: ${reason}`);
      else warn(`${reason}: stopping after a save. Ctrl-C now stops at once, without one.`);
    },
  }, stopSignals(signals));

function remove(path: string): boolean {
  try {
    Deno.removeSync(path);
    return true;
  } catch {
    return false;
  }
}

// Within a step no other JavaScript runs, so another thread receives the signals.

export interface SignalThreadOptions {
  readonly signals: readonly Deno.Signal[];
  /** 0, or 1 + the index of the signal that came first. */
  readonly word: SharedArrayBuffer;
}

function openSignalThread(signals: readonly Deno.Signal[]) {
  const word = new SharedArrayBuffer(4);
  const first = new Int32Array(word);
  const options: SignalThreadOptions = { signals, word };
  const thread = startThread(new URL("./signal_thread.ts", import.meta.url), "signals", options);
  return {
    /** Costs a look at a word. */
    first: (): Deno.Signal | null => signals[Atomics.load(first, 0) - 1] ?? null,
    close: thread.end,
  };
}
