// The parts of steps to come: asked for one by one by who reads them ahead, taken a step at a time. May import data.
import type { Rows } from "../data/loader/rows.ts";
import type { Part } from "../data/source.ts";

export interface Groups {
  begin(steps: () => readonly Part[] | null): void;
  /** Whether all rows of the next step are here, or there is no next step. */
  ready(milliseconds: number): boolean;
  /** The next step's parts, null after the last; their rows are to be taken now, in order. */
  take(): readonly Part[] | null;
  /** The next step's parts, without taking them. */
  peek(): readonly Part[] | null;
}

export function groupsOf(rows: Rows): Groups {
  let steps: () => readonly Part[] | null = () => null;
  const pulled: (readonly Part[])[] = []; // steps asked for and not yet taken
  let group = 0, at = 0; // which of them, and which of its parts, is given out next
  const pull = (): boolean => {
    const next = steps();
    if (next === null) steps = () => null;
    else pulled.push(next);
    return next !== null;
  };
  const nextPart = (): Part | null => {
    for (;;) {
      if (group >= pulled.length && !pull()) return null;
      if (at < pulled[group].length) return pulled[group][at++];
      group++; // read to its end, or without parts: a rank can have no sample of a short last batch
      at = 0;
    }
  };
  const peek = () => pulled.length > 0 || pull() ? pulled[0] : null;
  return {
    begin(next) {
      pulled.length = group = at = 0;
      steps = () => null; // nobody reads on in the old ones while the rows are begun anew
      rows.begin(() => null);
      steps = next;
      rows.begin(nextPart);
    },
    ready(milliseconds) {
      const end = performance.now() + milliseconds;
      const parts = peek()?.length ?? 0;
      for (let i = 0; i < parts; i++) {
        if (!rows.ready(i, Math.max(0, end - performance.now()))) return false;
      }
      return true;
    },
    peek,
    take() {
      if (peek() === null) return null;
      if (group > 0) group--;
      else at = 0; // nobody has read beyond this step
      return pulled.shift()!;
    },
  };
}
