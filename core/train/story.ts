// The first and the last lines of a run, and the events beside them. May import track, its siblings.
import type { Libtorch } from "../../ffi/libraries/types.ts";
import { parameterCount } from "../models/model.ts";
import { startLine, summaryLines } from "../track/lines.ts";
import { VERSION } from "../version.ts";
import { bestPath, latestPath } from "./names.ts";
import type { Prepared } from "./prepare.ts";
import type { Ending } from "./run.ts";

interface Context {
  readonly argv: readonly string[];
  readonly libtorch: Libtorch;
  readonly world: { readonly ranks: number; readonly device: "cpu" | "cuda" };
}

export function announce(
  { run, places, built, notes, resumedFrom }: Prepared,
  { argv, libtorch, world }: Context,
): void {
  const { console, events, config, cursor } = run;
  console.line(startLine(world));
  console.line(`libtorch ${libtorch.versionText} from ${libtorch.from}: ${libtorch.dir}`);
  for (const note of notes) console.line(note);
  console.line(`Run ${places.run}: ${places.logs}`);
  if (resumedFrom !== null) {
    events.truncateAfter(cursor.step);
    events.emit({ kind: "resume", step: cursor.step, epoch: cursor.epoch, path: resumedFrom });
  }
  events.emit({
    kind: "run",
    run: places.run,
    version: VERSION,
    command: argv,
    model: built.model.name,
    parameters: parameterCount(built.model.root),
    world_size: world.ranks,
    device: world.device,
    libtorch: libtorch.versionText,
    host: Deno.hostname(),
    pid: Deno.pid,
  });
  events.emit({ kind: "config", config });
}

export function conclude(
  prepared: Prepared,
  ending: Ending,
  seconds: number,
  argv: readonly string[],
): void {
  const { run, places } = prepared;
  const { cursor, console, events } = run;
  const latest = latestPath(places);
  const [headline, ...rest] = summaryLines({
    outcome: ending.outcome,
    epochs: cursor.epoch,
    steps: cursor.step,
    seconds,
    best: cursor.best ?? undefined,
    files: [
      ["checkpoint", latest],
      ...(cursor.best ? [["best", bestPath(places)] as const] : []),
      ["events", `${places.logs}/events.jsonl`],
    ],
    next: [
      ending.stopped
        ? ["go on", command(argv, "--resume", "auto")]
        : ["train on", command(argv, "--resume", latest, ...twiceAsLong(prepared))],
      ["evaluate", `hpctrain eval ${cursor.best ? bestPath(places) : latest}`],
      ["look inside", `hpctrain inspect ${latest}`],
    ],
  });
  console.final(headline);
  for (const line of rest) console.line(line);
  const { step, epoch } = cursor;
  events.emit({ kind: "exit", code: ending.stopped ? 75 : 0, message: ending.outcome, step, epoch, seconds });
}

/** The limit that ended the run, doubled: going on under the same one would do nothing. */
function twiceAsLong({ run: { cursor, config: { training } } }: Prepared): string[] {
  const { max_steps: most, epochs } = training;
  return most > 0 && cursor.step >= most ? ["--max-steps", `${most * 2}`] : ["--epochs", `${epochs * 2}`];
}

/** The command that was given, with flags added or given another value. */
function command(argv: readonly string[], ...more: string[]): string {
  const again = (word: string | undefined) => word?.startsWith("--") && more.includes(word);
  const kept = argv.filter((word, i) => !again(word.split("=")[0]) && !again(argv[i - 1]));
  const words = [...kept, ...more].map((word) =>
    /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`
  );
  return ["hpctrain", ...words].join(" ");
}
