// Lines about what strangers do at the rendezvous port: the first of each kind at once, then a count now and then.
// Imports types.
import type { Fault } from "./frames.ts";

const EVERY_MS = 30_000;

/** Who connects and says nothing is a scanner, or a rank that has got through at another address. */
export type Rejected = Exclude<Fault, "silent"> | "crowd" | "late";

const WHAT: Record<Rejected, string> = {
  stranger: "something that is no rank of hpctrain, or one of another version",
  oversized: "a message that is longer than any of ours",
  slow: "nothing in time",
  secret: "what another secret was used for: another job, or a rank without this job's HPCTRAIN_SECRET",
  cut: "half of a message before the connection ended",
  crowd: "nothing yet, and there are too many like it: the oldest was closed",
  late: "a rank although all are here",
};

export type Tell = (what: Rejected, from: string) => void;

export function openTell(say: (line: string) => void, now: () => number = () => performance.now()): Tell {
  const last = new Map<Rejected, { at: number; silent: number }>();
  return (what, from) => {
    const before = last.get(what);
    if (before && now() - before.at < EVERY_MS) return void before.silent++;
    const more = before?.silent ? ` (and ${before.silent} times more since the last such line)` : "";
    say(`The rendezvous port refused a connection from ${from}, which sent ${WHAT[what]}${more}.`);
    last.set(what, { at: now(), silent: 0 });
  };
}
