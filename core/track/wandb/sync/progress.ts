// How far a file's lines are at the server, each kind on its own: which are left out because it has them, which have passed since.
// May import contents (types), plan (types), state (types).
import type { Contents, Row } from "./contents.ts";
import type { Plan } from "./plan.ts";
import type { Counts, Uploaded } from "./state.ts";

export const KINDS = ["history", "events", "output"] as const;

/** Lines that are sent together. */
export interface Batch {
  readonly history: Row[];
  readonly events: string[];
  readonly output: string[];
}

export interface Progress {
  /** The server's line for the next one of each kind. */
  readonly at: Readonly<Counts>;
  /** Rows sent by this upload, and rows that were not because the server had them. */
  readonly rows: { sent: number; had: number };
  /** For the file beside the .wandb file; null while it can't be told. */
  readonly uploaded: Omit<Uploaded, "to" | "alerts"> | null;
  /** Takes away what waits and the server has. */
  admit(contents: Contents): void;
  /** Takes so many lines of each kind from the batch's begin: the server has them. */
  pass(batch: Batch, counts: Counts): void;
}

export function openProgress(plan: Plan): Progress {
  const at: Counts = { ...plan.at };
  const skip = { ...plan.skip };
  let { base, lastStep } = plan;
  const rows = { sent: 0, had: 0 };
  /** Lines of this file that the server has, sent now or before. */
  const done: Counts = { history: 0, events: 0, output: 0 };

  return {
    at,
    rows,
    get uploaded() {
      return base && { base, sent: difference(at, base), lastStep };
    },
    admit({ history, events, output }) {
      while (history.rows.length > 0 && (skip.history > 0 || history.rows[0].step <= (skip.upToStep ?? -1))) {
        skip.history--;
        const { step } = history.rows.shift()!;
        lastStep = Math.max(step, lastStep ?? step);
        rows.had++;
        done.history++;
      }
      while (
        events.texts.length > 0 && (skip.events > 0 || timeIn(events.texts[0]) <= (skip.upToTime ?? -1))
      ) {
        skip.events--;
        events.texts.shift();
        done.events++;
      }
      const had = Math.min(Math.max(skip.output, 0), output.texts.length);
      output.texts.splice(0, had);
      skip.output -= had;
      done.output += had;
      // Once there is something of each kind that the server lacks, it has been seen where the file begins there.
      if (base === null && history.rows.length > 0 && (events.texts.length > 0 || skip.upToTime === null)) {
        base = difference(at, done);
      }
    },
    pass(batch, counts) {
      for (const kind of KINDS) {
        const passed = batch[kind].splice(0, counts[kind]);
        at[kind] += passed.length;
        done[kind] += passed.length;
        if (kind !== "history") continue;
        rows.sent += passed.length;
        lastStep = (passed.at(-1) as Row | undefined)?.step ?? lastStep;
      }
    },
  };
}

const difference = (a: Counts, b: Counts): Counts => ({
  history: a.history - b.history,
  events: a.events - b.events,
  output: a.output - b.output,
});

function timeIn(line: string): number {
  const found = /"_timestamp":([^,}]+)/.exec(line);
  return found ? Number(found[1]) : Infinity;
}
