// The folders of a run, taken for this process alone and seen to be writable before anything is trained.
// May import ffi, checkpoint, errors, its siblings.
import { dirname, join } from "../../deps/path.ts";
import { lockFolder } from "../../ffi/lock.ts";
import { remove } from "../checkpoint/atomic.ts";
import type { Config } from "../config/settings.ts";
import { UserError } from "../errors.ts";
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
  for (;;) {
    const places = placesOf(config, preset, own);
    refuseUnwritable(places.checkpoints);
    if (!makeLogs(places.logs, own === null)) continue; // another run took the name just now
    if (lockFolder(places.logs)) return places;
    throw new UserError(
      "usage",
      `Another process is training the run ${places.run} (it holds ${places.logs}). Wait for it, stop it with: ` +
        `touch ${places.logs}/STOP, or start a run of another name with --run-name.`,
    );
  }
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
