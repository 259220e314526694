// The first and the last lines of a run, and the events beside them. May import track, dist/launch, its siblings.
import type { Libtorch } from "../../ffi/libraries/types.ts";
import { EXIT } from "../errors.ts";
import { parameterCount } from "../models/model.ts";
import type { Spent } from "../track/account.ts";
import { masterLine, startLine, summaryLines } from "../track/lines.ts";
import { VERSION } from "../version.ts";
import { bestPath, latestPath } from "./names.ts";
import { nextCommands, type Started } from "./next.ts";
import type { Prepared } from "./prepare.ts";
import type { Ending, Run } from "./run.ts";
import { isThere } from "../there.ts";

interface Context {
  /** Null where a program of the user's own trains. */
  readonly argv: readonly string[] | null;
  readonly libtorch: Libtorch;
  readonly world: { readonly ranks: number; readonly device: "cpu" | "cuda" };
  /** Where rank 0 is. */
  readonly master: string | null;
  /** Where settings are from, by their path. */
  readonly origins: Readonly<Record<string, string>>;
}

export function announce(
  { run, places, built, shortage, notes, resumedFrom, again }: Prepared,
  { argv, libtorch, world, master, origins }: Context,
): void {
  const { console, events, config, cursor } = run;
  console.line(startLine(world));
  if (world.ranks > 1 && master !== null) console.line(masterLine(master));
  console.line(`libtorch ${libtorch.versionText} from ${libtorch.from}: ${libtorch.dir}`);
  for (const note of notes) console.line(note);
  console.line(`Run ${places.run}: ${places.logs}`);
  for (const line of run.lineage.lines) console.line(line);
  if (resumedFrom !== null || again) events.rewind(cursor);
  if (resumedFrom !== null) {
    events.emit({ kind: "resume", step: cursor.step, epoch: cursor.epoch, path: resumedFrom });
  }
  events.emit({
    kind: "run",
    run: places.run,
    version: VERSION,
    command: argv ?? [],
    model: built.model.name,
    parameters: parameterCount(built.model.root),
    world_size: world.ranks,
    device: world.device,
    libtorch: libtorch.versionText,
    host: Deno.hostname(),
    pid: Deno.pid,
    steps_per_epoch: run.plan.stepsPerEpoch,
  });
  events.emit({ kind: "config", config, origins });
  if (shortage === null) return;
  console.warn(shortage);
  events.emit({ kind: "warning", step: cursor.step, about: "memory", message: shortage });
}

/** The last event of a run, however it ended, with the account of its time. */
export function exit(run: Run, code: number, message: string): { seconds: number; spent: Spent } {
  const { step, epoch, samples } = run.cursor;
  run.events.emit(run.times.since(step, samples));
  const { seconds, spent } = run.times.whole();
  run.events.emit({ kind: "exit", code, message, step, epoch, seconds, ...spent });
  return { seconds, spent };
}

export function conclude(
  prepared: Prepared,
  ending: Ending,
  argv: readonly string[] | null,
  started: Started,
): void {
  const { run, places } = prepared;
  const { cursor, console } = run;
  const latest = latestPath(places);
  // A run that went on from another's checkpoint may have done no better than that one's best.
  const best = cursor.best && isThere(bestPath(places)) ? bestPath(places) : null;
  const { seconds, spent } = exit(run, ending.stopped ? EXIT.stopped : EXIT.done, ending.outcome);
  const [headline, ...rest] = summaryLines({
    outcome: ending.outcome,
    epochs: cursor.epoch,
    steps: cursor.step,
    seconds,
    best: cursor.best ?? undefined,
    spent,
    onGpu: run.step.pass.onGpu,
    files: [
      ["checkpoint", latest],
      ...(best ? [["best", best] as const] : []),
      ["events", `${places.logs}/events.jsonl`],
      ...(run.wandbFolder === null ? [] : [["W&B run", run.wandbFolder] as const]),
    ],
    next: nextCommands(prepared, ending, argv, started),
  });
  console.final(headline);
  const goodput = run.lineage.summary();
  if (goodput !== null) console.line(goodput);
  for (const line of rest) console.line(line);
}
