// The folders of a run, taken for this process alone and seen to be writable before anything is trained.
// May import ffi, checkpoint, errors, its siblings.
import { dirname, join } from "../../deps/path.ts";
import { lockFolder } from "../../ffi/lock.ts";
import { remove } from "../checkpoint/atomic.ts";
import type { Config } from "../config/settings.ts";
import { UserError } from "../errors.ts";
import { isThere } from "../there.ts";
import { isFailedStart, lineagePath } from "../track/lineage.ts";
import { type Places, placesOf } from "./names.ts";
import type { Resume } from "./resume.ts";

interface Claim {
  readonly config: Config;
  readonly preset: string | null;
  readonly resume: Resume | null;
  /** The run that begins again under its name. */
  readonly again?: string | null;
}

/** The run's places, which no other process writes to while this one lives. */
export function claim({ config, preset, resume, again }: Claim): Places {
  const own = resume?.run ?? again ?? null;
  const passed = new Set<string>();
  for (;;) {
    const places = placesOf(config, preset, own, passed);
    refuseUnwritable(places.checkpoints);
    const fresh = makeLogs(places.logs, own === null);
    const locked = lockFolder(places.logs);
    if (!fresh) { // a start that failed, or another run took the name just now
      if (locked && isFailedStart(places.logs)) return cleared(places);
      passed.add(places.run);
      continue;
    }
    if (locked) return places;
    throw new UserError(
      "usage",
      `Another process is training the run ${places.run} (it holds ${places.logs}). Wait for it, stop it with: ` +
        `touch ${places.logs}/STOP, or start a run of another name with --run-name.`,
    );
  }
}

/** What a start that failed has left in a run's folder: this one writes it anew. What else lies there stays. */
const LEFT = /^(events\.jsonl|lineage\.json|wandb\.json|rank-\d+\.log|system-\d+\.jsonl)$/;

function cleared(places: Places): Places {
  for (const { name } of Deno.readDirSync(places.logs)) if (LEFT.test(name)) remove(join(places.logs, name));
  return places;
}

/** The same of this process's own start, which failed before it could say so. */
export function abandon({ logs }: Places): void {
  try {
    if (isThere(lineagePath(logs))) return;
    for (const { name } of Deno.readDirSync(logs)) if (LEFT.test(name)) remove(join(logs, name));
    Deno.removeSync(logs);
  } catch { /* it has something of the user's, or the disk refuses */ }
}

/** False when a new run finds its folder there already. What else goes wrong is told by who writes there next. */
function makeLogs(logs: string, fresh: boolean): boolean {
  try {
    Deno.mkdirSync(dirname(logs), { recursive: true });
    Deno.mkdirSync(logs);
  } catch (error) {
    if (error instanceof Deno.errors.AlreadyExists) return !fresh || !isFolder(logs);
  }
  return true;
}

function isFolder(path: string): boolean {
  try {
    return Deno.statSync(path).isDirectory;
  } catch {
    return false; // a link to nowhere
  }
}

/** Found out now, not when the first epoch is over and can't be saved. */
function refuseUnwritable(folder: string): void {
  const probe = join(folder, `.probe-${Deno.pid}`);
  try {
    Deno.mkdirSync(folder, { recursive: true });
    try {
      Deno.writeFileSync(probe, new Uint8Array(4096)); // a full disk still takes an empty file
    } finally {
      remove(probe);
    }
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message.split(" (os error")[0] : String(cause);
    throw new UserError(
      "usage",
      `Checkpoints can't be written to ${folder}: ${reason}. ` +
        "Name another folder with --save-dir DIR (or --model-dir DIR), or make room there.",
      { cause },
    );
  }
}
