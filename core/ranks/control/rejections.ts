// The log gets the first line of each kind about strangers at the rendezvous port, then a count now and then.
import type { ChannelFault } from "./channel.ts";

const REJECTIONS_EVERY_MS = 30_000;

/** A silent connection is a scanner, or a rank that has got through at another address. */
type Rejected = Exclude<ChannelFault, "silent"> | "crowd" | "extra";

const REJECTION_TEXT: Record<Rejected, string> = {
  stranger: "something that is no rank of hpctrain, or one of another version",
  oversized: "a message that is longer than any of ours",
  slow: "nothing in time",
  secret: "what another secret was used for: another job, or a rank without this job's HPCTRAIN_SECRET",
  cut: "half of a message before the connection ended",
  crowd: "nothing yet, and there are too many like it: the oldest was closed",
  extra: "a rank although all are here",
};

type LogRejection = (what: Rejected, from: string) => void;

export function openRejectionLog(
  say: (line: string) => void,
  now: () => number = () => performance.now(),
): LogRejection {
  const last = new Map<Rejected, { at: number; silent: number }>();
  return (what, from) => {
    const before = last.get(what);
    if (before && now() - before.at < REJECTIONS_EVERY_MS) return void before.silent++;
    const more = before?.silent ? ` (and ${before.silent} times more since the last such line)` : "";
    say(`The rendezvous port refused a connection from ${from}, which sent ${REJECTION_TEXT[what]}${more}.`);
    last.set(what, { at: now(), silent: 0 });
  };
}
