// What is told of ranks while they train: once, which parameters no gradient reached; now and then, which rank is the
// slowest, and why. May import ffi, dist (types), its siblings' types.
import { square, sum } from "../../../ffi/ops.ts";
import { scope } from "../../../ffi/tensor.ts";
import type { Team } from "../../dist/team.ts";
import type { RanksEvent } from "../../track/event_types.ts";
import type { Arena } from "../arena.ts";
import type { Run } from "../run.ts";

/** Steps between two reports of times. */
const EVERY = 100;
/** The step after which parameters without a gradient are named: in the first ones a layer of zeros may hold it back. */
const SETTLED = 10;
const NAMED = 5;

interface Times {
  readonly all: number;
  readonly loader: number;
  readonly communication: number;
}

/** To be called by every rank after each step. */
export function openReports(team: Team): (run: Run) => void {
  let before: Times | null = null, done = 0, steps = 0;
  const now = ({ feed }: Run): Times => ({
    all: performance.now() / 1000,
    loader: feed.waited(),
    communication: team.collectives.times().waited,
  });
  return (run) => {
    if (++done === SETTLED && team.rank === 0) tellUnused(run);
    if (before === null) before = now(run); // the first step is like no other
    else if (++steps === EVERY) {
      const after = now(run);
      const [all, loader, communication] = (["all", "loader", "communication"] as const)
        .map((key) => after[key] - before![key]);
      const ranks = team.hear([loader, all - loader - communication, communication], "times of ranks");
      run.events.emit(ranksEvent(run.cursor.step, steps, ranks));
      before = now(run);
      steps = 0;
    }
  };
}

/** `ranks`: of each, the seconds it waited for data, computed, and waited for others. */
export function ranksEvent(
  step: number,
  steps: number,
  ranks: readonly (readonly number[])[],
): RanksEvent {
  const own = ranks.map(([loader, compute]) => loader + compute);
  const most = Math.max(...own);
  const column = (at: number) => ranks.map((times) => Math.round(1e6 * times[at]) / 1e6);
  return {
    kind: "ranks",
    step,
    steps,
    slowest: own.indexOf(most),
    spread: most > 0 ? (most - Math.min(...own)) / most : 0,
    loader_s: column(0),
    compute_s: column(1),
    communication_s: column(2),
  };
}

function tellUnused({ step: { arena }, cursor, console, events }: Run): void {
  const message = unusedSentence(arena, cursor.step);
  if (message === null) return;
  console.warn(message);
  events.emit({ kind: "warning", step: cursor.step, message });
}

/** A gradient that is zero everywhere is as good as none. */
export function unusedSentence(
  { names, gradients }: Pick<Arena, "names" | "gradients">,
  step: number,
): string | null {
  const unused = names.filter((_, i) => scope(() => sum(square(gradients[i])).item() === 0));
  if (unused.length === 0) return null;
  const named = unused.slice(0, NAMED).join(", ");
  const more = unused.length > NAMED ? ` and ${unused.length - NAMED} more` : "";
  return `No gradient reached ${named}${more} at step ${step}: the model does not use them, or what comes after them ` +
    "passes nothing back.";
}
