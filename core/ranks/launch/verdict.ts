// Finds the rank that failed first, and why. It is pure.
import { EXIT } from "../../base/errors.ts";
import type { RankEnding } from "./rank.ts";

export interface RankEnd {
  readonly rank: number;
  /** Null if it never began. */
  readonly at: number | null;
  readonly note: RankEnding | null;
  /** The system reports it for a process that we started ourselves. */
  readonly signal?: string | null;
  readonly code?: number | null;
  readonly pid: number | null;
  readonly ended: boolean;
}

interface Evidence {
  readonly ends: readonly RankEnd[];
  readonly host: string;
  readonly launcher: string;
  readonly stop: "SIGINT" | "SIGTERM" | "SIGHUP" | null;
  readonly step: number | null;
  readonly memory: MemoryEvidence | null;
}

export interface MemoryEvidence {
  /**
   * How many processes the kernel has killed for memory since the ranks began: in this job's control group,
   * here.
   */
  readonly kills: { readonly job: number; readonly machine: number };
  /**
   * The run's last report of memory, "it was probably killed for memory: ..."; null where there was enough.
   */
  readonly shortage: string | null;
}

export interface LaunchVerdict {
  readonly code: number;
  readonly sentence: string | null;
}

/** A `doctor` that has found and printed faults ends with it: there is nothing to add. */
const FOUND = 1;

export function judgeEnds({ ends, host, launcher: text, stop, step, memory }: Evidence): LaunchVerdict {
  const launcher = text.replace(/\s+/g, " "); // it wraps its lines
  const codes = ends.map(({ note }) => note?.code ?? null);
  if (codes.every((code) => code === EXIT.done)) return { code: EXIT.done, sentence: null };
  if (codes.every((code) => code === EXIT.done || code === EXIT.stopped)) {
    return { code: EXIT.stopped, sentence: null };
  }
  const first = firstFailure(ends, launcher);
  // Ranks that end after a request to stop, before they could act on it, end as requested.
  if (stop && !first?.note) {
    return {
      code: stop === "SIGINT" ? 130 : 143,
      sentence: `Stopped by ${stop === "SIGINT" ? "Ctrl-C" : stop} at once, without a save.`,
    };
  }
  if (!first) {
    const printed = text.trim().split("\n").slice(-12).join("\n  ");
    return {
      code: EXIT.environment,
      sentence: `The ranks could not be started${
        printed
          ? `. Their launcher said:
  ${printed}`
          : "."
      }`,
    };
  }
  const when = step === null ? "before the first step" : `after step ${step}`;
  const who = `Rank ${first.rank} on ${first.note?.host ?? host} failed first, ${when}`;
  if (first.note) {
    const { code, reason } = first.note;
    if (code === FOUND && reason === "") return { code, sentence: null };
    if (first.note.about !== null) return { code, sentence: reason };
    return { code, sentence: `${who}, with exit code ${code}: ${reason || "it gave no reason."}` };
  }
  const signal = signalOf(first, launcher);
  // The others may know what it had no time to write here.
  const reported = ends.find((end) => end.note?.about === first.rank)?.note;
  if (!signal && reported) return { code: reported.code, sentence: reported.reason };
  if (signal === "SIGKILL" && memory) {
    const { code, why } = killed(memory);
    return { code, sentence: `${who}: ${why}` };
  }
  return { code: EXIT.communication, sentence: `${who}: ${wayOut(first, signal)}` };
}

/**
 * One failure follows another: a killed rank takes those with it that wait for it, some of which still report
 * that communication failed. MPI's launcher knows whose end it saw first; else the first that was gone
 * counts.
 */
function firstFailure(ends: readonly RankEnd[], launcher: string): RankEnd | null {
  const failed = ends.filter(({ at, note, ended }) =>
    at !== null && (note ? note.code !== EXIT.done && note.code !== EXIT.stopped : !ended)
  );
  const named = failed.find((end) => !end.note && namedIn(launcher, end));
  if (named) return named;
  const when = ({ at, note }: RankEnd) => note?.at ?? at!;
  const [first = null] = failed.toSorted((a, b) =>
    Number(isHearsay(a)) - Number(isHearsay(b)) || when(a) - when(b)
  );
  return first;
}

/** A rank reports another's failure, so its note can come before the failed rank's. */
function isHearsay({ note, rank }: RankEnd): boolean {
  const about = note?.about ?? null;
  return about !== null && about !== rank;
}

/** "process rank 1 with PID 0 on node x exited on signal 9"; "PID 4711 RUNNING AT x". */
function namedIn(launcher: string, { rank, pid }: Pick<RankEnd, "rank" | "pid">): boolean {
  const byRank = /process rank (\d+) .*exited on signal/.exec(launcher)?.[1] ??
    /RANK (\d+) PID \d+ RUNNING AT/.exec(launcher)?.[1];
  if (byRank !== undefined) return Number(byRank) === rank;
  const byPid = /PID (\d+) RUNNING AT/.exec(launcher)?.[1];
  return byPid !== undefined && Number(byPid) === pid;
}

const SIGNALS: Readonly<Record<number, string>> = {
  4: "SIGILL",
  5: "SIGTRAP",
  6: "SIGABRT",
  7: "SIGBUS",
  8: "SIGFPE",
  9: "SIGKILL",
  11: "SIGSEGV",
  15: "SIGTERM",
};

function signalOf({ rank, signal, pid }: RankEnd, launcher: string): string | null {
  const number = namedIn(launcher, { rank, pid }) ? /signal (\d+)/.exec(launcher)?.[1] : undefined;
  return signal ?? (number === undefined ? null : SIGNALS[Number(number)] ?? `signal ${number}`);
}

const LESS = "Take a smaller --batch-size, --gradient-checkpointing or fewer ranks, or ask for more memory.";

/**
 * The kernel counts its kills, and a run reports when its memory is nearly used up; else the cause is a
 * guess.
 */
function killed({ kills, shortage }: MemoryEvidence): { code: number; why: string } {
  if (kills.job > 0) {
    const detail = shortage === null ? "" : ` (${shortage})`;
    return {
      code: EXIT.memory,
      why:
        `the kernel killed it because the memory of this job's control group was used up${detail}. ${LESS}`,
    };
  }
  if (shortage !== null || kills.machine > 0) {
    const why = shortage ??
      "the kernel has killed a process of this machine for memory meanwhile, most likely this one";
    return { code: EXIT.memory, why: `${why} (SIGKILL). ${LESS}` };
  }
  return { code: EXIT.communication, why: wayOut({ code: null }, "SIGKILL") };
}

function wayOut({ code }: Pick<RankEnd, "code">, signal: string | null): string {
  if (signal === "SIGKILL") {
    return "it was killed (SIGKILL), by somebody's kill -9 or by the system because memory ran out: `dmesg` or the " +
      "job's accounting says which.";
  }
  if (signal === "SIGTRAP") {
    return "it was ended by SIGTRAP, as the JavaScript engine does where it can't reserve its 33 GiB of address space: look " +
      "at `ulimit -v` on that node, which should be unlimited.";
  }
  const how = signal ? `was ended by ${signal}` : code ? `ended with code ${code}` : "ended";
  return `it ${how} without a word. Its own output has what it said last.`;
}
