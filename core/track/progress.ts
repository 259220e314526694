// The live line of a terminal: a pure rendering and the small driver that redraws it. May import core/format.ts and lines.ts.
import { formatValue } from "../format.ts";
import { memoryPart, speedPart, type StepState, timePart } from "./lines.ts";

const REDRAW_MS = 100;
const BAR = 24;
const ERASE = "\r\x1b[2K";

/**
 * One line of plain ASCII that never reaches the last column (some terminals wrap there).
 * Where it is narrow the bar goes first, then memory, speed, time left; what is left is cut.
 */
export function render(state: StepState, width: number): string {
  const room = Math.max(0, width - 1);
  const fraction = state.steps > 0 ? Math.min(1, state.step / state.steps) : 0;
  const counts = `${state.step}/${state.steps}`;
  const head = [`Epoch ${state.epoch}/${state.epochs}`, state.phase, counts].filter(Boolean).join(" ");
  const loss = state.loss === undefined ? [] : [`Loss: ${formatValue(state.loss)}`];
  const [speed, left, memory] = [speedPart(state), timePart(state), memoryPart(state)];

  const widest = [...loss, ...speed, ...left, ...memory];
  const tries = [
    [`${head} ${bar(fraction)}`, ...widest],
    [head, ...widest],
    [head, ...loss, ...speed, ...left],
    [head, ...loss, ...left],
    [head, ...loss],
    [head],
  ].map((parts) => parts.join(" | "));
  // A phase is a word of ours, yet a stray character of another width must not break the line.
  const ascii = (text: string) => text.replace(/[^\x20-\x7e]/g, "?");
  return ascii(tries.find((text) => text.length <= room) ?? head.slice(0, room));
}

function bar(fraction: number): string {
  const full = Math.floor(fraction * BAR);
  return `[${"=".repeat(full)}${full < BAR ? ">" : ""}`.padEnd(BAR + 1) + "]";
}

export interface ProgressLine {
  /** Redraws, at most ten times a second. */
  update(state: StepState): void;
  /** Takes the line away, so that something else can be printed. */
  clear(): void;
}

/** No timers: training holds the thread, so a redraw happens when the loop says something. */
export function openProgress(options: {
  write: (text: string) => void;
  columns: () => number;
  now?: () => number;
}): ProgressLine {
  const now = options.now ?? (() => performance.now());
  let drawnAt = -Infinity;
  let drawn = false;
  return {
    update(state) {
      const time = now();
      if (time - drawnAt < REDRAW_MS) return;
      drawnAt = time;
      drawn = true;
      options.write(ERASE + render(state, options.columns()));
    },
    clear() {
      if (!drawn) return;
      drawn = false;
      drawnAt = -Infinity; // the next update puts it back at once
      options.write(ERASE);
    },
  };
}
