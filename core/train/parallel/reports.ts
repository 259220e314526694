// What is told of ranks while they train: once, which parameters no gradient reached; now and then, which rank is the
// slowest, and why. May import ffi, dist (types), its siblings' types.
import { square, sum } from "../../../ffi/ops.ts";
import { scope } from "../../../ffi/tensor.ts";
import type { Team } from "../../dist/team.ts";
import { byPart, type Look, ownWork, type Spent, spentBetween } from "../../track/account.ts";
import type { RanksEvent } from "../../track/event_types.ts";
import type { Arena } from "../arena.ts";
import type { Run } from "../run.ts";

/** Steps between two reports of times. */
const EVERY = 100;
/** The step after which parameters without a gradient are named: in the first ones a layer of zeros may hold it back. */
const SETTLED = 10;
const NAMED = 5;

/** To be called by every rank after each step. */
export function openReports(team: Team): (run: Run) => void {
  let before: Look | null = null, done = 0, steps = 0;
  return (run) => {
    if (++done === SETTLED && team.rank === 0) tellUnused(run);
    if (before === null) before = run.account.look(); // the first step is like no other
    else if (++steps === EVERY) {
      const ranks = team.hear(spentBetween(before, run.account.look()).spent, "times of ranks");
      run.events.emit(ranksEvent(run.cursor.step, steps, ranks));
      before = run.account.look();
      steps = 0;
    }
  };
}

export function ranksEvent(step: number, steps: number, ranks: readonly Spent[]): RanksEvent {
  const own = ranks.map(ownWork);
  const most = Math.max(...own);
  return {
    kind: "ranks",
    step,
    steps,
    slowest: own.indexOf(most),
    spread: most > 0 ? (most - Math.min(...own)) / most : 0,
    ...byPart((name) => ranks.map((spent) => spent[`${name}_s`])),
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
