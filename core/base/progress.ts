// Progress shows the remaining time: a live line, or a plain one now and then.
import { formatDuration, formatRate } from "./format.ts";

const LIVE_MS = 100, PLAIN_MS = 10_000;
const ERASE = "\r\x1b[2K";

interface ProgressOptions {
  readonly quiet?: boolean;
  readonly isTerminal?: boolean;
  readonly write?: (text: string) => void;
  readonly now?: () => number;
}

/** A line that takes the place of the one before, or another line now and then. */
interface LiveLine {
  /** The seconds since it was opened help to make the line, where one is due. */
  update(line: (seconds: number) => string): void;
  clear(): void;
}

function openLiveLine(options: ProgressOptions = {}): LiveLine {
  const now = options.now ?? (() => performance.now());
  const write = options.write ?? ((text) => void Deno.stdout.writeSync(new TextEncoder().encode(text)));
  const live = (options.isTerminal ?? Deno.stdout.isTerminal()) && Deno.env.get("TERM") !== "dumb";
  const began = now();
  let shown = live ? -Infinity : began, drawn = false;
  return {
    update(line) {
      const time = now();
      if (options.quiet || time - shown < (live ? LIVE_MS : PLAIN_MS)) return;
      shown = time;
      drawn = live;
      const text = line((time - began) / 1000);
      write(live ? ERASE + text : text + "\n");
    },
    clear() {
      if (drawn) write(ERASE);
      drawn = false;
    },
  };
}

export function openProgress(verb: string, options: ProgressOptions = {}) {
  const { update, clear } = openLiveLine(options);
  return { clear, update: (at: Progress) => update((seconds) => progressLine(verb, at, seconds)) };
}

/** Samples of an earlier run do not count for the rate. */
export function progressLine(verb: string, { done, kept, total }: Progress, seconds: number): string {
  const rate = (done - kept) / seconds;
  const left = rate > 0 && Number.isFinite(rate)
    ? ` | ${formatRate(rate)} samples/s | ${formatDuration((total - done) / rate)} left`
    : "";
  return `${verb}: ${done} of ${total} samples${left}`;
}

export interface Progress {
  /** It counts this rank's samples; `kept` of them are from an earlier run. */
  readonly done: number;
  readonly kept: number;
  readonly total: number;
}

export function openTextProgress(quiet: boolean) {
  const { update, clear } = openLiveLine({ quiet });
  return {
    clear,
    update: (doing: string, characters: number, total: number) =>
      update(() =>
        `${doing}: ${Math.floor(100 * characters / total)}% of ${(total / 1e6).toFixed(1)} million characters`
      ),
  };
}
